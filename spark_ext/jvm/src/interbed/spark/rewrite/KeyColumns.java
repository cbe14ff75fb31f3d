package interbed.spark.rewrite;

import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StringType;

/** The key columns of a statement's target among the expressions of its plan. */
final class KeyColumns {
  private KeyColumns() {}

  static boolean isColumn(Expression expression, AttributeReference column) {
    return expression instanceof AttributeReference reference && reference.exprId().equals(column.exprId());
  }

  /** Whether values that are equal for Spark are equal for the table; with a collation more values are equal for Spark. */
  static boolean isExact(Expression key) {
    return !(key.dataType() instanceof StringType) || key.dataType().equals(DataTypes.StringType);
  }
}
