package interbed.spark.table;

import interbed.spark.planner.Planner;
import interbed.spark.thrift.TableInfo;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;

/**
 * A table that is not visible yet. The commit of its rows makes the table and the rows visible in one step, so that {@link
 * #commitStagedChanges} only has work if no rows were written.
 */
public final class StagedSparkTable extends SparkTable implements StagedTable {
  private boolean written;

  public StagedSparkTable(String name, TableInfo info) {
    super(name, info);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo write) {
    written = true;
    return super.newWriteBuilder(write);
  }

  @Override
  public void commitStagedChanges() {
    if (!written) {
      Planner.askOrThrow(
          planner -> {
            planner.commitStaged(info().bufferForHandle());
            return null;
          });
    }
  }

  @Override
  public void abortStagedChanges() {
    Planner.askOrThrow(
        planner -> {
          planner.abortStaged(info().bufferForHandle());
          return null;
        });
  }

  /** Both interfaces have a default method of it from Spark 4.2 on; has no annotation, so that it compiles with 4.0. */
  public CustomTaskMetric[] reportDriverMetrics() {
    return new CustomTaskMetric[0];
  }
}
