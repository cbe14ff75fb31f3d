package interbed.spark.function;

import java.util.function.Predicate;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.expressions.Expression;
import scala.runtime.AbstractPartialFunction;

/** Rewrite of some expressions, as a function for Spark's transformations of plans and expressions. */
final class ExpressionRewrite extends AbstractPartialFunction<Expression, Expression> {
  private final Predicate<Expression> concerned;
  private final UnaryOperator<Expression> change;

  ExpressionRewrite(Predicate<Expression> concerned, UnaryOperator<Expression> change) {
    this.concerned = concerned;
    this.change = change;
  }

  @Override
  public boolean isDefinedAt(Expression expression) {
    return concerned.test(expression);
  }

  @Override
  public Expression apply(Expression expression) {
    return change.apply(expression);
  }
}
