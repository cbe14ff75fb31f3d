package interbed.spark.rewrite;

import interbed.spark.change.RowChange;
import interbed.spark.planner.PlannerTable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.ProjectingInternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeRows;
import org.apache.spark.sql.catalyst.plans.logical.MergeRows.Instruction;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.util.RowDeltaUtils;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Product;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Finds the columns that an UPDATE or MERGE assigns, for tables that write only these ({@code RowChanges.byColumn}). In updated
 * rows the other columns become NULL, so that Spark does not read them either.
 *
 * <p>It runs when Spark has rewritten the statement, in which a column that is not assigned is the column itself.
 */
public final class AssignedColumns extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.resolveOperators(
        new PlanRewrite(
            node -> node instanceof WriteDelta write && write.query().resolved() && awaitsColumns(write),
            node -> narrowed((WriteDelta) node, plan)));
  }

  private static boolean awaitsColumns(WriteDelta write) {
    return write.operation() instanceof RowChange change && change.awaitsColumns();
  }

  private static LogicalPlan narrowed(WriteDelta write, LogicalPlan statement) {
    RowChange change = (RowChange) write.operation();
    boolean isKnown = write.query() instanceof Project || write.query() instanceof MergeRows;
    if (write.projections().rowProjection().isEmpty() || !isKnown) {
      // A DELETE, or a statement of which all columns are written.
      return write;
    }
    List<Attribute> columns = new ArrayList<>(CollectionConverters.asJava(((LogicalPlan) write.originalTable()).output()));
    // The class of the places differs between versions of Spark.
    Seq<?> places = (Seq<?>) ((Product) projection(write)).productElement(1);
    Map<Integer, Attribute> unchanged = new HashMap<>();
    for (int i = 0; i < columns.size(); i++) {
      unchanged.put((Integer) places.apply(i), columns.get(i));
    }
    List<List<Expression>> updates = updates(write.query());
    for (List<Expression> values : updates) {
      unchanged.entrySet().removeIf(column -> !isColumn(values.get(column.getKey()), column.getValue()));
    }
    Set<String> assigned = new LinkedHashSet<>();
    for (Attribute column : columns) {
      if (!updates.isEmpty() && !unchanged.containsValue(column)) {
        assigned.add(column.name());
      }
    }
    change.assign(List.copyOf(assigned), readsAlso(statement, change));
    return (LogicalPlan) write.withNewQuery(withoutUnchanged(write.query(), unchanged));
  }

  private static ProjectingInternalRow projection(WriteDelta write) {
    return write.projections().rowProjection().get();
  }

  /** The values of each UPDATE clause, in the order of the query's columns. */
  private static List<List<Expression>> updates(LogicalPlan query) {
    if (query instanceof Project project) {
      return List.of(expressions(project));
    }
    List<List<Expression>> found = new ArrayList<>();
    for (Instruction instruction : CollectionConverters.asJava(((MergeRows) query).instructions())) {
      if (isUpdate(instruction)) {
        found.add(new ArrayList<>(CollectionConverters.asJava(instruction.outputs().head())));
      }
    }
    return found;
  }

  private static List<Expression> expressions(Project project) {
    List<Expression> found = new ArrayList<>();
    CollectionConverters.asJava(project.projectList()).forEach(column -> found.add((Expression) column));
    return found;
  }

  private static boolean isUpdate(Object expression) {
    return expression instanceof Instruction instruction
        && instruction.outputs().size() == 1
        && instruction.outputs().head().head() instanceof Literal operation
        && operation.value().equals(RowDeltaUtils.UPDATE_OPERATION());
  }

  private static boolean isColumn(Expression value, Attribute column) {
    Expression inner = value;
    // Spark renames the columns of a table with lengths or required values several times.
    while (inner instanceof Alias alias) {
      inner = alias.child();
    }
    return inner instanceof Attribute attribute && attribute.exprId().equals(column.exprId());
  }

  private static LogicalPlan withoutUnchanged(LogicalPlan query, Map<Integer, Attribute> unchanged) {
    if (query instanceof Project project) {
      List<NamedExpression> columns = new ArrayList<>(CollectionConverters.asJava(project.projectList()));
      unchanged.forEach((place, column) -> columns.set(place, alias(columns.get(place), nothing(column))));
      return new Project(CollectionConverters.asScala(columns).toSeq(), project.child());
    }
    return (LogicalPlan) query.transformExpressionsDown(new Emptied(unchanged));
  }

  private static Expression nothing(Attribute column) {
    return new Literal(null, column.dataType());
  }

  private static Alias alias(NamedExpression column, Expression value) {
    return new Alias(
        value,
        column.name(),
        column.exprId(),
        column.qualifier(),
        scala.Option.empty(),
        CollectionConverters.asScala(List.<String>of()).toSeq());
  }

  /** Replaces unchanged columns in the UPDATE clauses of a MERGE. */
  private static final class Emptied extends AbstractPartialFunction<Expression, Expression> {
    private final Map<Integer, Attribute> unchanged;

    Emptied(Map<Integer, Attribute> unchanged) {
      this.unchanged = unchanged;
    }

    @Override
    public boolean isDefinedAt(Expression expression) {
      return isUpdate(expression);
    }

    @Override
    public Expression apply(Expression expression) {
      List<Expression> parts = new ArrayList<>(CollectionConverters.asJava(expression.children()));
      // The values are the last parts, after the condition.
      int first = parts.size() - ((Instruction) expression).outputs().head().size();
      unchanged.forEach((place, column) -> parts.set(first + place, nothing(column)));
      return (Expression) expression.withNewChildren(CollectionConverters.asScala(parts).toSeq());
    }
  }

  /** Whether the statement reads its target also elsewhere, so that its values depend on other rows. */
  private static boolean readsAlso(LogicalPlan plan, RowChange change) {
    if (plan instanceof DataSourceV2Relation relation && isTarget(relation.table(), change)) {
      return true;
    }
    for (Expression expression : CollectionConverters.asJava(plan.expressions())) {
      if (readsAlso(expression, change)) {
        return true;
      }
    }
    return CollectionConverters.asJava(plan.children()).stream().anyMatch(child -> readsAlso(child, change));
  }

  private static boolean readsAlso(Expression expression, RowChange change) {
    if (expression instanceof SubqueryExpression subquery && readsAlso(subquery.plan(), change)) {
      return true;
    }
    return CollectionConverters.asJava(expression.children()).stream().anyMatch(child -> readsAlso(child, change));
  }

  private static boolean isTarget(Table table, RowChange change) {
    return !(table instanceof RowLevelOperationTable)
        && table instanceof PlannerTable planned
        && planned.info().getTableId() != null
        && planned.info().getTableId().equals(change.tableId());
  }
}
