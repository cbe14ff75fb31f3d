package interbed.spark.change;

import interbed.spark.planner.PlannerTable;
import java.io.Serializable;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.types.CharType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Layout of a changed row for Python: the table's columns, the kind of the change, then the columns of the row id that are
 * not the table's own, and the id of a row whose table keeps it through an update (`rowIdColumn`, -1 for none).
 *
 * <p>A deleted row is known by its id and metadata: `fromId` and `fromMetadata` have the index of each sent column there, -1 for
 * none, and `wholeRow` is the index of a metadata column with the whole row. `storedKeys` has the index of a metadata column with
 * the text of each key column as it is stored, -1 for none: Spark pads those of type CHAR. `charKeys` has whether each key
 * column is of type CHAR.
 */
record RowChangeLayout(
    StructType sent, int tableColumns, int[] fromId, int[] fromMetadata, int wholeRow, int rowIdColumn, int[] storedKeys,
    int[] keyColumns, boolean[] charKeys)
    implements Serializable {
  static final String KIND = "_row_kind";
  private static final String STORED = "__interbed_stored_";
  private static final String ROW_ID = "_ROW_ID";

  static RowChangeLayout of(PlannerTable table, LogicalWriteInfo write) {
    StructType columns = CharVarcharUtils.replaceCharVarcharWithStringInSchema(table.schema());
    StructType rowId = withOwnNames(write.rowIdSchema().orElse(new StructType()));
    StructType metadata = withOwnNames(write.metadataSchema().orElse(new StructType()));
    StructType sent = new StructType();
    for (StructField column : columns.fields()) {
      sent = sent.add(column.name(), column.dataType(), true);
    }
    sent = sent.add(KIND, DataTypes.ByteType, false);
    for (StructField column : rowId.fields()) {
      if (!has(columns, column.name())) {
        sent = sent.add(column.name(), column.dataType(), true);
      }
    }
    if (has(metadata, ROW_ID)) {
      sent = sent.add(ROW_ID, DataTypes.LongType, true);
    }
    int wholeRow = -1;
    for (int i = 0; i < metadata.length(); i++) {
      String name = metadata.apply(i).name();
      if (!has(columns, name) && !name.startsWith(STORED) && !name.equals(ROW_ID)) {
        wholeRow = i;
      }
    }
    List<String> keys = table.info().getPrimaryKeys();
    boolean[] charKeys = new boolean[keys.size()];
    for (int i = 0; i < charKeys.length; i++) {
      charKeys[i] = table.schema().apply(keys.get(i)).dataType() instanceof CharType;
    }
    return new RowChangeLayout(
        sent,
        columns.length(),
        places(sent, rowId),
        places(sent, metadata),
        wholeRow,
        place(sent, ROW_ID),
        keys.stream().mapToInt(key -> place(metadata, STORED + key)).toArray(),
        keys.stream().mapToInt(columns::fieldIndex).toArray(),
        charKeys);
  }

  /** The schema with the planner's names of hidden columns. */
  private static StructType withOwnNames(StructType schema) {
    StructType own = new StructType();
    for (StructField column : schema.fields()) {
      String name = column.name();
      boolean isRenamed = name.startsWith(RowLevelTable.RENAMED);
      own = own.add(isRenamed ? name.substring(RowLevelTable.RENAMED.length()) : name, column.dataType(), column.nullable());
    }
    return own;
  }

  DataType type(int column) {
    return sent.apply(column).dataType();
  }

  private static boolean has(StructType schema, String column) {
    return schema.getFieldIndex(column).isDefined();
  }

  private static int[] places(StructType sent, StructType source) {
    return Arrays.stream(sent.fieldNames()).mapToInt(name -> place(source, name)).toArray();
  }

  private static int place(StructType source, String name) {
    return has(source, name) ? source.fieldIndex(name) : -1;
  }
}
