package interbed.spark.rewrite;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.RewriteMergeIntoTable$;
import org.apache.spark.sql.catalyst.analysis.RewriteUpdateTable$;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Exists;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InSubquery;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.ScalarSubquery;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeRows;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.catalyst.rules.Rule;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Supports correlated subqueries as values of UPDATE and MERGE.
 *
 * <p>Spark plans an UPDATE that deletes and inserts as Expand, and a MERGE as MergeRows. Neither may have such a subquery, but a
 * Project may: so it is computed below, in a column of its own.
 */
public final class CorrelatedValues extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    // Spark 4.0 rewrites them only after the rules of extensions; if Spark has rewritten them, this rule changes nothing.
    LogicalPlan written = RewriteMergeIntoTable$.MODULE$.apply(RewriteUpdateTable$.MODULE$.apply(plan));
    return written.resolveOperators(
        new PlanRewrite(
            node -> node instanceof WriteDelta write && write.query().resolved(),
            node ->
                node.transformDown(
                    new PlanRewrite(CorrelatedValues::holdsValues, CorrelatedValues::withoutSubqueries))));
  }

  private static boolean holdsValues(LogicalPlan node) {
    return node instanceof MergeRows || node instanceof Expand;
  }

  private static LogicalPlan withoutSubqueries(LogicalPlan node) {
    LogicalPlan child = node.children().head();
    List<NamedExpression> columns = new ArrayList<>();
    for (Attribute column : CollectionConverters.asJava(child.output())) {
      columns.add(column);
    }
    int own = columns.size();
    LogicalPlan changed = (LogicalPlan) node.transformExpressionsDown(new Pulled(columns));
    if (columns.size() == own) {
      return node;
    }
    LogicalPlan below = new Project(CollectionConverters.asScala(columns).toSeq(), child);
    return changed.withNewChildren(CollectionConverters.asScala(List.of(below)).toSeq());
  }

  /** Moves subqueries that need a Project to the columns, and replaces them by references. */
  private static final class Pulled extends AbstractPartialFunction<Expression, Expression> {
    private final List<NamedExpression> columns;

    Pulled(List<NamedExpression> columns) {
      this.columns = columns;
    }

    @Override
    public boolean isDefinedAt(Expression expression) {
      return expression instanceof InSubquery
          || expression instanceof Exists
          || (expression instanceof ScalarSubquery scalar && scalar.isCorrelated());
    }

    @Override
    public Expression apply(Expression expression) {
      for (NamedExpression column : columns) {
        if (column instanceof Alias same && same.child().semanticEquals(expression)) {
          return same.toAttribute();
        }
      }
      Alias column =
          new Alias(
              expression,
              "__interbed_value_" + columns.size(),
              NamedExpression.newExprId(),
              CollectionConverters.asScala(List.<String>of()).toSeq(),
              Option.empty(),
              CollectionConverters.asScala(List.<String>of()).toSeq());
      columns.add(column);
      return column.toAttribute();
    }
  }
}
