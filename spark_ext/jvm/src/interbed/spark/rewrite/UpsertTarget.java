package interbed.spark.rewrite;

import interbed.spark.table.SparkTable;
import interbed.spark.write.SparkWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;

/** The target of a MERGE that became an INSERT: its rows must have distinct keys. */
final class UpsertTarget extends SparkTable {
  private UpsertTarget(SparkTable table) {
    super(table.name(), table.info());
  }

  static UpsertTarget of(SparkTable table) {
    return new UpsertTarget(table);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo write) {
    return new WriteBuilder() {
      @Override
      public Write build() {
        return SparkWrite.ofDistinctKeys(UpsertTarget.this, write);
      }
    };
  }
}
