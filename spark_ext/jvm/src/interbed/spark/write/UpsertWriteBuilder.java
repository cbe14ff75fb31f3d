package interbed.spark.write;

import interbed.spark.planner.PlannerTable;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;

/** Write builder of a table with a primary key, whose writes are upserts: a stream's output mode "update" is an append. */
public final class UpsertWriteBuilder extends SparkWriteBuilder implements SupportsStreamingUpdateAsAppend {
  public UpsertWriteBuilder(PlannerTable table, LogicalWriteInfo write) {
    super(table, write);
  }
}
