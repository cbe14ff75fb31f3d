package interbed.spark.function;

import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import scala.jdk.javaapi.CollectionConverters;

/** Replaces calls of a catalog's functions by their expressions, so that filters are pushed and code is generated as usual. */
public final class SqlFunctionCalls extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.resolveExpressionsUp(
        new ExpressionRewrite(
            each -> each instanceof ApplyFunctionExpression call && call.function() instanceof SqlFunction,
            each -> {
              ApplyFunctionExpression call = (ApplyFunctionExpression) each;
              return ((SqlFunction) call.function()).of(CollectionConverters.asJava(call.children()));
            }));
  }
}
