package interbed.spark.table;

import interbed.spark.change.RowLevelTable;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.types.StructType;

/**
 * The target of an UPDATE, DELETE or MERGE INTO that names hidden columns: these are columns of it, after the table's own.
 *
 * <p>The columns by which Spark identifies rows are hidden under other names, so that no column has two meanings. The values of
 * the added columns are not written.
 */
public final class NamedColumnsTable extends SparkTable {
  private final StructType withNamed;

  public NamedColumnsTable(SparkTable table, List<MetadataColumn> named) {
    super(table.name(), table.info());
    StructType columns = table.schema();
    for (MetadataColumn column : named) {
      // A new row has no value of it.
      columns = columns.add(column.name(), column.dataType(), true);
    }
    withNamed = columns;
  }

  @Override
  public StructType schema() {
    return withNamed;
  }

  /** The table with its own columns only. */
  public SparkTable table() {
    return new SparkTable(name(), info());
  }

  @Override
  public MetadataColumn[] metadataColumns() {
    return Arrays.stream(super.metadataColumns()).map(RowLevelTable::renamed).toArray(MetadataColumn[]::new);
  }

  @Override
  public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo operation) {
    return RowLevelTable.renamedChange(table(), operation);
  }
}
