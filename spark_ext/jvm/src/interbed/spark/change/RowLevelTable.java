package interbed.spark.change;

import interbed.spark.planner.PlannerTable;
import interbed.spark.thrift.HiddenColumn;
import interbed.spark.thrift.RowChanges;
import java.util.List;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** UPDATE, DELETE and MERGE INTO, and the hidden columns by which they identify rows. */
public interface RowLevelTable extends PlannerTable, SupportsRowLevelOperations, SupportsMetadataColumns {
  /** Before the name of a hidden column: the same column for the planner's scans, which Spark takes for another one. */
  String RENAMED = "__interbed_change_";

  @Override
  default RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo operation) {
    return change(this, operation, "");
  }

  /** The change of a table whose hidden columns are {@link #renamed}. */
  static RowLevelOperationBuilder renamedChange(RowLevelTable table, RowLevelOperationInfo operation) {
    return change(table, operation, RENAMED);
  }

  private static RowLevelOperationBuilder change(RowLevelTable table, RowLevelOperationInfo operation, String prefix) {
    RowChanges changes = table.info().getRowChanges();
    if (changes == null) {
      throw new UnsupportedOperationException(
          "The system table "
              + table.name()
              + " is read only, it takes no "
              + operation.command()
              + "; change the table itself");
    }
    // Whole partitions may still be deleted; so a DELETE is only refused once it is known to delete single rows.
    if (operation.command() != RowLevelOperation.Command.DELETE) {
      check(changes, operation.command());
    }
    return () -> new RowChange(table, operation.command(), prefix);
  }

  /** Throws for a statement that the table cannot take. */
  static void check(RowChanges changes, RowLevelOperation.Command command) {
    String refusal = changes.getRefusals().get(command.name());
    if (refusal != null) {
      throw new UnsupportedOperationException(refusal);
    }
  }

  @Override
  default MetadataColumn[] metadataColumns() {
    List<HiddenColumn> hidden = info().isSetHiddenColumns() ? info().getHiddenColumns() : List.of();
    return hidden.stream().map(column -> Hidden.of(column)).toArray(MetadataColumn[]::new);
  }

  /** The hidden column under another name. */
  static MetadataColumn renamed(MetadataColumn column) {
    return new Hidden(RENAMED + column.name(), column.dataType(), column.isNullable(), column.comment());
  }

  /** A hidden column as Spark's metadata column. */
  record Hidden(String name, DataType dataType, boolean isNullable, String comment) implements MetadataColumn {
    static Hidden of(HiddenColumn column) {
      return new Hidden(
          column.getName(), DataType.fromJson(column.getTypeJson()), column.isNullable(), column.getComment());
    }

    /** An updated row keeps its old file, so that the task of that file writes it. */
    @Override
    public String metadataInJSON() {
      return "{\"" + PRESERVE_ON_REINSERT + "\": true}";
    }
  }
}
