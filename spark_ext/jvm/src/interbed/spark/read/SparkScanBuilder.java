package interbed.spark.read;

import interbed.spark.planner.Planner;
import interbed.spark.planner.PlannerTable;
import interbed.spark.thrift.FilterHandling;
import interbed.spark.thrift.ScanRequest;
import interbed.spark.thrift.ScanTop;
import interbed.spark.value.PredicateJson;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownTopN;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Collects Spark's pushdowns; the planner decides which filters it uses, and which of them it applies to every row. */
public final class SparkScanBuilder
    implements ScanBuilder,
        SupportsPushDownRequiredColumns,
        SupportsPushDownV2Filters,
        SupportsPushDownLimit,
        SupportsPushDownTopN,
        SupportsPushDownAggregates {
  private final PlannerTable table;
  private final CaseInsensitiveStringMap options;
  private StructType readSchema;
  private Predicate[] pushed = {};
  private final List<String> filters = new ArrayList<>();
  private Long limit;
  private ScanTop top;
  private Aggregation lastOffered;
  private AggregateScan lastAnswer;
  private AggregateScan aggregates;

  public SparkScanBuilder(PlannerTable table, CaseInsensitiveStringMap options) {
    this.table = table;
    this.options = options;
    this.readSchema = table.schema();
  }

  @Override
  public void pruneColumns(StructType requiredSchema) {
    readSchema = requiredSchema;
  }

  @Override
  public Predicate[] pushPredicates(Predicate[] predicates) {
    List<Predicate> offered = new ArrayList<>();
    List<String> trees = new ArrayList<>();
    List<Predicate> residual = new ArrayList<>();
    for (Predicate predicate : predicates) {
      Optional<String> tree = PredicateJson.of(predicate);
      tree.ifPresentOrElse(
          json -> {
            offered.add(predicate);
            trees.add(json);
          },
          () -> residual.add(predicate));
    }
    List<Predicate> used = new ArrayList<>();
    if (!offered.isEmpty()) {
      ByteBuffer handle = table.info().bufferForHandle();
      List<FilterHandling> answers = Planner.askOrThrow(planner -> planner.pushFilters(handle, trees));
      for (int i = 0; i < offered.size(); i++) {
        if (answers.get(i) != FilterHandling.IGNORED) {
          used.add(offered.get(i));
          filters.add(trees.get(i));
        }
        if (answers.get(i) != FilterHandling.EXACT) {
          residual.add(offered.get(i));
        }
      }
    }
    pushed = used.toArray(Predicate[]::new);
    return residual.toArray(Predicate[]::new);
  }

  @Override
  public Predicate[] pushedPredicates() {
    return pushed;
  }

  /** The pushed filters in the planner's form. */
  public List<String> filters() {
    return filters;
  }

  /** The columns that are read. */
  public List<String> columns() {
    return List.of(readSchema.fieldNames());
  }

  /** Spark calls this only when it has no filter left to apply. */
  @Override
  public boolean pushLimit(int rows) {
    limit = (long) rows;
    return true;
  }

  /** The top rows by several columns are among the top rows by the first of them, if ties are read, too. */
  @Override
  public boolean pushTopN(SortOrder[] orders, int rows) {
    if (orders[0].expression() instanceof NamedReference column && column.fieldNames().length == 1) {
      top =
          new ScanTop(
              column.fieldNames()[0],
              rows,
              orders[0].direction() == SortDirection.DESCENDING,
              orders[0].nullOrdering() == NullOrdering.NULLS_FIRST);
    }
    return top != null;
  }

  /** The plan has no splits beyond the limit, but a split may have more rows: Spark applies the limit again. */
  @Override
  public boolean isPartiallyPushed() {
    return true;
  }

  /** Spark pushes aggregates only when it has no filter left to apply. */
  @Override
  public boolean supportCompletePushDown(Aggregation aggregation) {
    return answerOf(aggregation) != null;
  }

  @Override
  public boolean pushAggregation(Aggregation aggregation) {
    aggregates = answerOf(aggregation);
    return aggregates != null;
  }

  private AggregateScan answerOf(Aggregation aggregation) {
    if (!aggregation.equals(lastOffered)) {
      PushedAggregates offered = PushedAggregates.of(aggregation, table.schema());
      lastAnswer = offered == null || limit != null ? null : offered.answered(table, request(offered.groups()));
      lastOffered = aggregation;
    }
    return lastAnswer;
  }

  private ScanRequest request(List<String> columns) {
    return new ScanRequest(columns, filters, new HashMap<>(options.asCaseSensitiveMap()));
  }

  @Override
  public Scan build() {
    if (aggregates != null) {
      return aggregates;
    }
    ScanRequest request = request(Arrays.asList(readSchema.fieldNames()));
    request.setSchemaJson(readSchema.json());
    if (limit != null) {
      request.setLimit(limit);
    }
    if (top != null) {
      request.setTop(top);
    }
    if (SQLConf.get().cboEnabled() || SQLConf.get().planStatsEnabled()) {
      request.setColumnEstimates(true);
    }
    if (SQLConf.get().v2BucketingEnabled()) {
      request.setPartitioned(true);
    }
    if (table.info().isSetHadoopScheme()) {
      request.setHadoopOpens(CatalogFileSystem.isKnown(table.info().getHadoopScheme()));
    }
    return new SparkScan(table, readSchema, request, pushed);
  }
}
