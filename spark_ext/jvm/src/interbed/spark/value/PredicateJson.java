package interbed.spark.value;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Base64;
import java.util.Optional;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.GeneralScalarExpression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A predicate as a JSON tree of typed values, never as SQL text:
 *
 * <pre>{"op": "=", "args": [{"column": ["id"]}, {"type": "integer", "value": 3}]}</pre>
 *
 * The operators keep Spark's names. Numbers that JSON cannot carry exactly (float, double, decimal) are strings, binary
 * values base64, dates days and timestamps microseconds since 1970. interbed/spark_ext/values/predicates.py reads it.
 */
public final class PredicateJson {
  private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

  private PredicateJson() {}

  /** The tree; empty when a part of the predicate has no such form (a function call, a cast). */
  public static Optional<String> of(Predicate predicate) {
    return Optional.ofNullable(tree(predicate)).map(ObjectNode::toString);
  }

  private static ObjectNode tree(Expression expression) {
    if (expression instanceof NamedReference reference) {
      ObjectNode node = JSON.objectNode();
      ArrayNode path = node.putArray("column");
      for (String part : reference.fieldNames()) {
        path.add(part);
      }
      return node;
    }
    if (expression instanceof Literal<?> literal) {
      ObjectNode node = JSON.objectNode().put("type", literal.dataType().typeName());
      return putValue(node, "value", literal.value()) ? node : null;
    }
    if (expression instanceof GeneralScalarExpression operation) {
      ObjectNode node = JSON.objectNode().put("op", operation.name());
      ArrayNode arguments = node.putArray("args");
      for (Expression child : operation.children()) {
        ObjectNode argument = tree(child);
        if (argument == null) {
          return null;
        }
        arguments.add(argument);
      }
      return node;
    }
    return null;
  }

  /** Puts a value of Spark's internal form under the key; false for a value without a form in JSON. */
  static boolean putValue(ObjectNode node, String key, Object value) {
    if (value == null) {
      node.putNull(key);
    } else if (value instanceof Boolean flag) {
      node.put(key, flag);
    } else if (value instanceof Byte || value instanceof Short || value instanceof Integer || value instanceof Long) {
      node.put(key, ((Number) value).longValue());
    } else if (value instanceof Float || value instanceof Double || value instanceof UTF8String) {
      node.put(key, value.toString());
    } else if (value instanceof Decimal decimal) {
      node.put(key, decimal.toJavaBigDecimal().toPlainString());
    } else if (value instanceof byte[] bytes) {
      node.put(key, Base64.getEncoder().encodeToString(bytes));
    } else {
      return false;
    }
    return true;
  }
}
