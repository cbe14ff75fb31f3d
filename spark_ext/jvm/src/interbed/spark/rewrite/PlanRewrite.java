package interbed.spark.rewrite;

import java.util.function.Predicate;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.runtime.AbstractPartialFunction;

/** Rewrite of some of a plan's nodes, as a function for Spark's transformations of plans. */
public final class PlanRewrite extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
  private final Predicate<LogicalPlan> concerned;
  private final UnaryOperator<LogicalPlan> change;

  public PlanRewrite(Predicate<LogicalPlan> concerned, UnaryOperator<LogicalPlan> change) {
    this.concerned = concerned;
    this.change = change;
  }

  @Override
  public boolean isDefinedAt(LogicalPlan node) {
    return concerned.test(node);
  }

  @Override
  public LogicalPlan apply(LogicalPlan node) {
    return change.apply(node);
  }
}
