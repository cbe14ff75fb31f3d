package interbed.spark.table;

import interbed.spark.planner.Planner;
import interbed.spark.thrift.TableInfo;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;

/**
 * A table that nobody sees yet. The commit of what is written into it shows both in one step, so that nothing is left for
 * {@link #commitStagedChanges} unless nothing was written.
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

  /** Both interfaces have a body for it from Spark 4.2 on; without the annotation 4.0 compiles it, too. */
  public CustomTaskMetric[] reportDriverMetrics() {
    return new CustomTaskMetric[0];
  }
}
