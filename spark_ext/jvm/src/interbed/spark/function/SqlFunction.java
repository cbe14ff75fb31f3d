package interbed.spark.function;

import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** A function by an expression over its arguments, which {@link SqlFunctionCalls} puts in the place of a call. */
final class SqlFunction implements ScalarFunction<Object> {
  private final String name;
  private final StructType params;
  private final boolean deterministic;
  private final Expression body;

  SqlFunction(String name, StructType params, boolean deterministic, Expression body) {
    this.name = name;
    this.params = params;
    this.deterministic = deterministic;
    this.body = body;
  }

  /** The expression with these arguments. */
  Expression of(List<Expression> arguments) {
    for (int place = 0; place < arguments.size(); place++) {
      if (!arguments.get(place).deterministic() && uses(body, place) > 1) {
        throw new UnsupportedOperationException(
            "The argument " + params.apply(place).name() + " of " + name + " has another value each time that it is computed ("
                + arguments.get(place).sql() + "), and the definition uses it several times; compute it in a subquery first");
      }
    }
    return body.transformUp(
        new ExpressionRewrite(
            each -> each instanceof BoundReference, each -> arguments.get(((BoundReference) each).ordinal())));
  }

  private static int uses(Expression expression, int place) {
    int found = expression instanceof BoundReference reference && reference.ordinal() == place ? 1 : 0;
    for (Expression child : scala.jdk.javaapi.CollectionConverters.asJava(expression.children())) {
      found += uses(child, place);
    }
    return found;
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public String canonicalName() {
    return name + ":" + body.canonicalized().sql();
  }

  @Override
  public DataType[] inputTypes() {
    return Arrays.stream(params.fields()).map(StructField::dataType).toArray(DataType[]::new);
  }

  @Override
  public DataType resultType() {
    return body.dataType();
  }

  @Override
  public boolean isDeterministic() {
    return deterministic && body.deterministic();
  }

  /** Refuses the call: without the extensions of interbed the expression is not in its place. */
  @Override
  public Object produceResult(InternalRow arguments) {
    throw new UnsupportedOperationException(
        "The function " + name + " needs spark.sql.extensions = interbed.spark.SparkExtensions");
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof SqlFunction same && name.equals(same.name) && body.semanticEquals(same.body);
  }

  @Override
  public int hashCode() {
    return 31 * name.hashCode() + body.semanticHash();
  }
}
