package interbed.spark.read;

import interbed.spark.planner.Planner;
import interbed.spark.planner.PlannerTable;
import interbed.spark.planner.PythonCommand;
import interbed.spark.planner.WorkerTask;
import interbed.spark.thrift.ScanPlan;
import interbed.spark.thrift.ScanRequest;
import interbed.spark.thrift.StreamInfo;
import interbed.spark.thrift.StreamLimits;
import interbed.spark.thrift.StreamOffset;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.types.StructType;

/**
 * A table's changes as a stream. The planner decides the ends and splits of batches; this class only has the state of one run of
 * the query.
 */
final class SparkMicroBatchStream implements MicroBatchStream, SupportsTriggerAvailableNow {
  // The planner's value for "no last snapshot".
  private static final long ANY_SNAPSHOT = 0;

  private final PlannerTable table;
  private final StructType readSchema;
  private final StreamInfo stream;
  private final StreamStart start;
  private String initial;
  private NativeParquet nativeParquet;
  private long lastSnapshot = ANY_SNAPSHOT;
  private boolean endsWithLastSnapshot;
  private long lastBatchMillis;
  /** What executors get for the last planned batch: the credentials in it are as new as the plan. */
  private WorkerTask workerTask;

  SparkMicroBatchStream(PlannerTable table, StructType readSchema, ScanRequest request, String checkpointLocation) {
    this.table = table;
    this.readSchema = readSchema;
    stream = Planner.askOrThrow(planner -> planner.openStream(table.info().bufferForHandle(), request));
    start = new StreamStart(checkpointLocation);
  }

  @Override
  public synchronized Offset initialOffset() {
    if (initial == null) {
      initial =
          start.orElse(
              () -> Planner.askOrThrow(planner -> planner.startOfStream(stream.bufferForTask())).getJson());
    }
    return new StreamPosition(initial);
  }

  @Override
  public Offset deserializeOffset(String json) {
    return new StreamPosition(json);
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    StreamLimits limits = stream.getLimits();
    List<ReadLimit> given = new ArrayList<>();
    if (limits.isSetMaxFiles()) {
      given.add(ReadLimit.maxFiles(limits.getMaxFiles()));
    }
    if (limits.isSetMaxBytes()) {
      given.add(ReadLimit.maxBytes(limits.getMaxBytes()));
    }
    if (limits.isSetMaxRows()) {
      given.add(ReadLimit.maxRows(limits.getMaxRows()));
    }
    if (limits.isSetMinRows()) {
      given.add(ReadLimit.minRows(limits.getMinRows(), limits.getMaxDelayMillis()));
    }
    return given.isEmpty() ? ReadLimit.allAvailable() : ReadLimit.compositeLimit(given.toArray(ReadLimit[]::new));
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    lastSnapshot = Planner.askOrThrow(planner -> planner.newestOfStream(stream.bufferForTask()));
    endsWithLastSnapshot = true;
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("Spark asks with a limit");
  }

  @Override
  public Offset latestOffset(Offset after, ReadLimit limit) {
    if (endsWithLastSnapshot && lastSnapshot == ANY_SNAPSHOT) {
      // The table was empty, and newer changes are not for this run.
      return null;
    }
    StreamLimits limits = limit instanceof ReadAllAvailable ? new StreamLimits() : admitted();
    StreamOffset next =
        Planner.askOrThrow(
            planner -> planner.advanceStream(stream.bufferForTask(), after.json(), limits, lastSnapshot));
    if (!next.isSetJson()) {
      return null;
    }
    lastBatchMillis = System.currentTimeMillis();
    return new StreamPosition(next.getJson());
  }

  /** The limits of the options; a batch that is due, or that ends the query, may be as small as it is. */
  private StreamLimits admitted() {
    StreamLimits limits = stream.getLimits().deepCopy();
    if (endsWithLastSnapshot
        || (limits.isSetMinRows()
            && System.currentTimeMillis() - lastBatchMillis > limits.getMaxDelayMillis())) {
      limits.unsetMinRows();
    }
    return limits;
  }

  @Override
  public synchronized InputPartition[] planInputPartitions(Offset after, Offset upTo) {
    ScanPlan plan =
        Planner.askOrThrow(
            planner -> planner.planMicroBatch(stream.bufferForTask(), after.json(), upTo.json()));
    workerTask = WorkerTask.of(plan.getTask());
    return plan.getSplits().stream().map(SplitPartition::of).toArray(InputPartition[]::new);
  }

  @Override
  public synchronized PartitionReaderFactory createReaderFactory() {
    if (nativeParquet == null) {
      nativeParquet =
          NativeParquet.create(table.schema(), readSchema, new Predicate[0], false, stream.getHadoopSettings());
    }
    if (workerTask == null) {
      throw new IllegalStateException("A batch of " + table.name() + " is read before it is planned");
    }
    // Only splits of the first batch may have deletions; Python reads these.
    return new SplitReaderFactory(PythonCommand.current(), workerTask, readSchema, nativeParquet, null);
  }

  @Override
  public void commit(Offset upTo) {
    Planner.askOrThrow(
        planner -> {
          planner.commitStream(stream.bufferForTask(), upTo.json());
          return null;
        });
  }

  @Override
  public void stop() {
    // Planners have no state of a stream.
  }
}
