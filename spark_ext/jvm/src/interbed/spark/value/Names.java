package interbed.spark.value;

import java.util.List;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;

/** Column names for Spark's expression factories, which parse them, so that a dot needs quotes. */
public final class Names {
  private Names() {}

  public static String quoted(String column) {
    return "`" + column.replace("`", "``") + "`";
  }

  public static NamedReference reference(String column) {
    return Expressions.column(quoted(column));
  }

  public static String[] quoted(List<String> columns) {
    return columns.stream().map(Names::quoted).toArray(String[]::new);
  }
}
