package interbed.spark.read;

import interbed.spark.planner.Planner;
import interbed.spark.planner.PlannerTable;
import interbed.spark.thrift.Aggregate;
import interbed.spark.thrift.AggregateAnswer;
import interbed.spark.thrift.AggregateFunction;
import interbed.spark.thrift.ScanRequest;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** Spark's aggregates, translated for the planner, and the schema of their answer: groups, then aggregates. */
record PushedAggregates(List<String> groups, List<Aggregate> aggregates, StructType schema) {

  /** Null when metadata can't answer some part. */
  static PushedAggregates of(Aggregation aggregation, StructType table) {
    List<String> groups = new ArrayList<>();
    List<Aggregate> aggregates = new ArrayList<>();
    StructType schema = new StructType();
    for (Expression group : aggregation.groupByExpressions()) {
      String column = column(group, table);
      if (column == null) {
        return null;
      }
      groups.add(column);
      schema = schema.add(table.apply(column));
    }
    for (AggregateFunc function : aggregation.aggregateExpressions()) {
      Aggregate aggregate = toThrift(function, table);
      if (aggregate == null) {
        return null;
      }
      aggregates.add(aggregate);
      boolean bound = aggregate.getKind() == AggregateFunction.MIN || aggregate.getKind() == AggregateFunction.MAX;
      DataType type = bound ? table.apply(aggregate.getColumn()).dataType() : DataTypes.LongType;
      schema = schema.add(function.describe(), type, bound);
    }
    return new PushedAggregates(groups, aggregates, schema);
  }

  private static Aggregate toThrift(AggregateFunc function, StructType table) {
    if (function instanceof CountStar) {
      return new Aggregate(AggregateFunction.COUNT_ROWS);
    }
    if (function instanceof Count count && !count.isDistinct()) {
      return of(AggregateFunction.COUNT, count.column(), table);
    }
    if (function instanceof Min min) {
      return of(AggregateFunction.MIN, min.column(), table);
    }
    if (function instanceof Max max) {
      return of(AggregateFunction.MAX, max.column(), table);
    }
    return null;
  }

  private static Aggregate of(AggregateFunction kind, Expression argument, StructType table) {
    String column = column(argument, table);
    return column == null ? null : new Aggregate(kind).setColumn(column);
  }

  private static String column(Expression expression, StructType table) {
    if (expression instanceof NamedReference reference
        && reference.fieldNames().length == 1
        && table.getFieldIndex(reference.fieldNames()[0]).isDefined()) {
      return reference.fieldNames()[0];
    }
    return null;
  }

  /** The scan of the planner's answer, or null when Spark has to read the rows that the request selects. */
  AggregateScan answered(PlannerTable table, ScanRequest request) {
    AggregateAnswer answer =
        Planner.askOrThrow(planner -> planner.aggregate(table.info().bufferForHandle(), request, aggregates));
    return answer.isSetRows() ? new AggregateScan(schema, answer.getRows()) : null;
  }
}
