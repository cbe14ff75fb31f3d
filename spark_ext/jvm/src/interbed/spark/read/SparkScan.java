package interbed.spark.read;

import interbed.spark.metric.Metrics;
import interbed.spark.planner.Planner;
import interbed.spark.planner.PlannerTable;
import interbed.spark.planner.PythonCommand;
import interbed.spark.planner.WorkerTask;
import interbed.spark.thrift.ScanPartitioning;
import interbed.spark.thrift.ScanPlan;
import interbed.spark.thrift.ScanRequest;
import interbed.spark.thrift.ScanSplit;
import interbed.spark.value.Literals;
import interbed.spark.value.Names;
import interbed.spark.value.PredicateJson;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportPartitioning;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.connector.read.partitioning.KeyGroupedPartitioning;
import org.apache.spark.sql.connector.read.partitioning.Partitioning;
import org.apache.spark.sql.connector.read.partitioning.UnknownPartitioning;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** One scan, which is planned once, when Spark first needs its size or its splits. */
final class SparkScan
    implements Scan, Batch, SupportsReportStatistics, SupportsReportPartitioning, SupportsRuntimeV2Filtering {
  /** Bytes that are read in about the time of planning and running a dynamic filter of a join. */
  private static final long LEAST_BYTES_TO_FILTER = 32L << 20;
  private static final String SUBSETS_OF_KEYS =
      "spark.sql.sources.v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled";

  private final PlannerTable table;
  private final StructType readSchema;
  private final ScanRequest request;
  private final Predicate[] pushed;
  // A stream is planned batch by batch; a plan of the whole table would not apply to it.
  private volatile boolean streams;
  private ScanPlan plan;
  /** Runtime filters of Spark; null before they are known. */
  private List<String> runtimeFilters;
  private List<ScanSplit> splits;
  /** Metrics of the last planning. */
  private Map<String, Long> metrics = Map.of();

  SparkScan(PlannerTable table, StructType readSchema, ScanRequest request, Predicate[] pushed) {
    this.pushed = pushed;
    this.table = table;
    this.readSchema = readSchema;
    this.request = request;
  }

  private synchronized ScanPlan plan() {
    if (plan == null) {
      plan = planned(request);
    }
    return plan;
  }

  private ScanPlan planned(ScanRequest asked) {
    ScanPlan planned = Planner.askOrThrow(planner -> planner.planScan(table.info().bufferForHandle(), asked));
    metrics = planned.isSetMetrics() ? planned.getMetrics() : Map.of();
    return planned;
  }

  @Override
  public StructType readSchema() {
    return readSchema;
  }

  @Override
  public String description() {
    if (streams) {
      return "interbed stream of " + table.name();
    }
    return "interbed " + table.name() + " " + plan().getDescription() + ", pushed=" + Arrays.toString(pushed);
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    streams = true;
    return new SparkMicroBatchStream(table, readSchema, request, checkpointLocation);
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return ColumnarSupportMode.SUPPORTED;
  }

  @Override
  public Statistics estimateStatistics() {
    return streams ? ScanStatistics.unknown() : ScanStatistics.of(plan(), readSchema);
  }

  @Override
  public Partitioning outputPartitioning() {
    ScanPartitioning partitioning = plan().getPartitioning();
    long keyCount = plan().getSplits().stream().map(ScanSplit::getKey).distinct().count();
    if (partitioning == null || keyCount == 0 || !isWorthIt(partitioning, keyCount)) {
      return new UnknownPartitioning(plan().getSplitsSize());
    }
    List<Expression> keys = new ArrayList<>();
    partitioning.getColumns().forEach(column -> keys.add(Expressions.identity(Names.quoted(column))));
    if (partitioning.getBucketCount() > 0) {
      keys.add(Expressions.bucket(partitioning.getBucketCount(), Names.quoted(partitioning.getBucketColumns())));
    }
    if (keys.size() > 1 && takesSubsetsOfKeys()) {
      return new UnknownPartitioning(plan().getSplitsSize());
    }
    return new KeyGroupedPartitioning(keys.toArray(Expression[]::new), (int) keyCount);
  }

  /**
   * With this setting Spark takes rows that are grouped by several keys for rows that are grouped by each of them, also for windows
   * and aggregates, which are wrong then (SPARK-58968).
   */
  private static boolean takesSubsetsOfKeys() {
    return Boolean.parseBoolean(SQLConf.get().getConfString(SUBSETS_OF_KEYS, "false"));
  }

  /**
   * Spark reads all splits of a key in one task, with or without a join. So keys are only reported if that costs no parallelism:
   * each split has its own key, or there are buckets, which have similar sizes, for all cores.
   */
  private boolean isWorthIt(ScanPartitioning partitioning, long keyCount) {
    return keyCount == plan().getSplitsSize()
        || (partitioning.getBucketCount() > 0 && keyCount >= SparkContext.getOrCreate().defaultParallelism());
  }

  /**
   * Columns by which whole files can be pruned: partitions, and for a large scan buckets and the first key column. Spark makes a
   * filter of each, whose plan contains those of all tables joined before: with three columns of each of six tables, planning
   * takes longer than reading. Further columns of a key prune little, and buckets need all of their columns.
   */
  @Override
  public NamedReference[] filterAttributes() {
    List<String> partitionKeys = table.info().getPartitionKeys();
    Set<String> columns = new LinkedHashSet<>(partitionKeys);
    if (plan().getByteSize() >= LEAST_BYTES_TO_FILTER) {
      table.info().getPrimaryKeys().stream().filter(key -> !partitionKeys.contains(key)).findFirst().ifPresent(columns::add);
      List<String> bucketColumns = table.info().getClustering().getBucketColumns();
      columns.addAll(bucketColumns.size() == 1 ? bucketColumns : List.of());
    }
    columns.retainAll(Arrays.asList(readSchema.fieldNames()));
    return columns.stream().map(Names::reference).toArray(NamedReference[]::new);
  }

  /**
   * Plans again with the runtime filters of a join's other side. Only the splits change, not the rows that are read of them, so
   * that a second use of this scan, with other filters or none, loses no row.
   */
  @Override
  public synchronized void filter(Predicate[] predicates) {
    List<String> filters = Arrays.stream(predicates).map(PredicateJson::of).flatMap(Optional::stream).toList();
    if (filters.isEmpty() || filters.equals(runtimeFilters)) {
      return;
    }
    ScanRequest narrowed = request.deepCopy();
    filters.forEach(narrowed::addToFilters);
    splits = planned(narrowed).getSplits();
    runtimeFilters = filters;
  }

  private synchronized List<ScanSplit> splits() {
    return splits == null ? plan().getSplits() : splits;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    ScanPartitioning partitioning = plan().getPartitioning();
    if (partitioning == null) {
      return splits().stream().map(SplitPartition::of).toArray(InputPartition[]::new);
    }
    List<DataType> types = new ArrayList<>();
    partitioning.getColumns().forEach(column -> types.add(table.schema().apply(column).dataType()));
    if (partitioning.getBucketCount() > 0) {
      types.add(DataTypes.IntegerType);
    }
    DataType[] ofKey = types.toArray(DataType[]::new);
    return splits().stream()
        .map(split -> new KeyedSplit(SplitPartition.of(split), Literals.row(split.getKey(), ofKey)))
        .toArray(InputPartition[]::new);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new SplitReaderFactory(
        PythonCommand.current(), WorkerTask.of(plan(), table), readSchema, nativeReader(false), nativeReader(true));
  }

  /** Spark's own reader for native splits with deletions, or for those without; null if there are no such splits. */
  private NativeParquet nativeReader(boolean ofDeletions) {
    boolean any =
        plan().getSplits().stream()
            .anyMatch(split -> !split.getNativeFiles().isEmpty() && split.isHasDeletions() == ofDeletions);
    return any ? NativeParquet.create(table.schema(), readSchema, pushed, ofDeletions, plan().getHadoopSettings()) : null;
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return Metrics.ofScans();
  }

  @Override
  public synchronized CustomTaskMetric[] reportDriverMetrics() {
    return Metrics.told(metrics);
  }

  /** Spark runs equal scans, which would read the same rows, only once. */
  @Override
  public boolean equals(Object other) {
    return other instanceof SparkScan scan
        && table.name().equals(scan.table.name())
        && table.info().bufferForHandle().equals(scan.table.info().bufferForHandle())
        && readSchema.equals(scan.readSchema)
        && request.equals(scan.request)
        && Objects.equals(runtimeFilters, scan.runtimeFilters);
  }

  @Override
  public int hashCode() {
    return Arrays.hashCode(new Object[] {table.name(), readSchema, request});
  }
}
