package interbed.spark.write;

import interbed.spark.function.PlaceOfChange;
import interbed.spark.metric.Metrics;
import interbed.spark.planner.Planner;
import interbed.spark.planner.PlannerTable;
import interbed.spark.planner.PythonCommand;
import interbed.spark.planner.WorkerTask;
import interbed.spark.thrift.CommitResult;
import interbed.spark.thrift.WriteClustering;
import interbed.spark.thrift.WriteMode;
import interbed.spark.thrift.WritePlan;
import interbed.spark.thrift.WriteRequest;
import interbed.spark.value.Names;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;

/**
 * One write job: tasks write files that are not visible; the driver's commit makes them visible, or an abort deletes them.
 *
 * <p>It cannot delete the files of a task that succeeds at the moment in which the job fails: Spark drops that task's message.
 * These files are not visible either; the removal of orphan files deletes them.
 */
public class SparkWrite implements RequiresDistributionAndOrdering, BatchWrite {
  private final PlannerTable table;
  private final StructType schema;
  private final WriteRequest request;
  private final CommitSender commit = new CommitSender();
  private WritePlan plan;
  // Metrics of the commit, after it succeeded.
  private volatile Map<String, Long> metrics = Map.of();

  SparkWrite(PlannerTable table, LogicalWriteInfo write, WriteMode mode, List<String> filters) {
    this(
        table,
        write.schema(),
        new WriteRequest(
            mode,
            filters,
            write.schema().json(),
            write.queryId(),
            new HashMap<>(write.options().asCaseSensitiveMap())));
    if (RowStatementScope.isOpen()) {
      // A MERGE that only inserts, which Spark plans as an INSERT of the rows without a match.
      request.setFollowsFromSnapshot(true);
      request.setDistinctKeys(true);
    }
  }

  /** Requires rows with distinct keys: the job fails otherwise, see {@code UpsertingMerge}. */
  public static SparkWrite ofDistinctKeys(PlannerTable table, LogicalWriteInfo write) {
    SparkWrite made = new SparkWrite(table, write, WriteMode.APPEND, List.of());
    made.request.setDistinctKeys(true);
    return made;
  }

  /** Sets the schema of the rows. */
  protected SparkWrite(PlannerTable table, StructType schema, WriteRequest request) {
    this.table = table;
    this.schema = schema;
    this.request = request;
  }

  /** The plan, made before the job starts; not for EXPLAIN or a stream, since the planner writes a mark into the table. */
  private synchronized WritePlan plan() {
    if (plan == null) {
      plan = Planner.askOrThrow(planner -> planner.planWrite(table.info().bufferForHandle(), request));
    }
    return plan;
  }

  @Override
  public String description() {
    return "interbed " + table.name();
  }

  /** The text for EXPLAIN. */
  @Override
  public String toString() {
    return description();
  }

  @Override
  public BatchWrite toBatch() {
    plan();
    return this;
  }

  @Override
  public StreamingWrite toStreaming() {
    return new SparkStreamingWrite(table, request);
  }

  // Clustering.

  protected WriteClustering clustering() {
    boolean byKey = request.isDistinctKeys() && table.info().isSetRowChanges() && table.info().getPrimaryKeysSize() > 0;
    WriteClustering ofChanges = byKey ? table.info().getRowChanges().getClustering() : null;
    return ofChanges == null ? table.info().getClustering() : ofChanges;
  }

  @Override
  public Distribution requiredDistribution() {
    WriteClustering clustering = clustering();
    if (clustering.isSetSpread() && !clustering.getSpread().isEmpty()) {
      return PlaceOfChange.distribution(clustering, table.info().getPartitionKeysSize());
    }
    List<Expression> expressions = new ArrayList<>();
    for (String column : clustering.getColumns()) {
      expressions.add(Names.reference(column));
    }
    if (clustering.getBucketCount() > 0) {
      expressions.add(
          Expressions.bucket(clustering.getBucketCount(), Names.quoted(clustering.getBucketColumns())));
    }
    return expressions.isEmpty()
        ? Distributions.unspecified()
        : Distributions.clustered(expressions.toArray(Expression[]::new));
  }

  @Override
  public boolean distributionStrictlyRequired() {
    return clustering().isStrict();
  }

  @Override
  public int requiredNumPartitions() {
    return table.info().getClustering().isOneTask() ? 1 : 0;
  }

  /** None: the writer sorts its own buffers by columns, which is cheaper than a sort of rows. */
  @Override
  public SortOrder[] requiredOrdering() {
    return new SortOrder[0];
  }

  // The job.

  @Override
  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
    return taskWriters();
  }

  protected final ArrowTaskWriterFactory taskWriters() {
    return new ArrowTaskWriterFactory(
        PythonCommand.current(), WorkerTask.of(plan(), table), schema, SQLConf.get().sessionLocalTimeZone());
  }

  @Override
  public boolean useCommitCoordinator() {
    return true;
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    List<ByteBuffer> committables = CommitSender.committables(messages);
    CommitResult result = commit.send(planner -> planner.commitWrite(plan().bufferForToken(), committables));
    metrics = result.isSetMetrics() ? result.getMetrics() : Map.of();
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return Metrics.ofWrites();
  }

  @Override
  public CustomTaskMetric[] reportDriverMetrics() {
    return Metrics.told(metrics);
  }

  @Override
  public void abort(WriterCommitMessage[] messages) {
    if (!commit.isOutcomeUnknown()) {
      List<ByteBuffer> committables = CommitSender.committables(messages);
      Planner.askOrThrow(
          planner -> {
            planner.abortWrite(plan().bufferForToken(), committables);
            return null;
          });
    }
  }
}
