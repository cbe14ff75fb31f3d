package interbed.spark;

import interbed.spark.thrift.ScanPlan;
import interbed.spark.thrift.ScanRequest;
import java.util.Arrays;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;

/** One scan: planned once, when Spark first asks for its size or its splits. */
final class SparkScan implements Scan, Batch, SupportsReportStatistics {
  private final SparkTable table;
  private final StructType readSchema;
  private final ScanRequest request;
  private final Predicate[] pushed;
  private ScanPlan plan;

  SparkScan(SparkTable table, StructType readSchema, ScanRequest request, Predicate[] pushed) {
    this.pushed = pushed;
    this.table = table;
    this.readSchema = readSchema;
    this.request = request;
  }

  private synchronized ScanPlan plan() {
    if (plan == null) {
      plan = Planner.askOrThrow(planner -> planner.planScan(table.info().bufferForHandle(), request));
    }
    return plan;
  }

  @Override
  public StructType readSchema() {
    return readSchema;
  }

  @Override
  public String description() {
    return "interbed " + table.name() + " " + plan().getDescription() + ", pushed=" + Arrays.toString(pushed);
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    return new SparkMicroBatchStream(table, readSchema, request, checkpointLocation);
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return ColumnarSupportMode.SUPPORTED;
  }

  @Override
  public Statistics estimateStatistics() {
    ScanPlan planned = plan();
    return new Statistics() {
      @Override
      public OptionalLong sizeInBytes() {
        return OptionalLong.of(planned.getByteSize());
      }

      @Override
      public OptionalLong numRows() {
        return OptionalLong.of(planned.getRowCount());
      }
    };
  }

  @Override
  public InputPartition[] planInputPartitions() {
    return plan().getSplits().stream().map(SplitPartition::of).toArray(InputPartition[]::new);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    boolean anyNative = plan().getSplits().stream().anyMatch(split -> !split.getNativeFiles().isEmpty());
    return new SplitReaderFactory(
        PythonCommand.current(),
        plan().getTask(),
        readSchema,
        anyNative ? NativeParquet.create(table.schema(), readSchema, pushed) : null);
  }

  /** Scans that would read the same are the same to Spark, which then runs them once. */
  @Override
  public boolean equals(Object other) {
    return other instanceof SparkScan scan
        && table.name().equals(scan.table.name())
        && table.info().bufferForHandle().equals(scan.table.info().bufferForHandle())
        && readSchema.equals(scan.readSchema)
        && request.equals(scan.request);
  }

  @Override
  public int hashCode() {
    return Arrays.hashCode(new Object[] {table.name(), readSchema, request});
  }
}
