package interbed.spark.function;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A function that a catalog keeps. A definition in SQL becomes the expression of a {@link SqlFunction}; functions without one
 * are listed and described, and a call of them is refused by name.
 */
public final class PlannedFunction implements UnboundFunction {
  /** The functions whose definitions are being analysed by this thread, the innermost last. */
  private static final ThreadLocal<List<String>> WITHIN = ThreadLocal.withInitial(ArrayList::new);

  private final String name;
  private final JsonNode function;

  PlannedFunction(String name, JsonNode function) {
    this.name = name;
    this.function = function;
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public String description() {
    return String.join("\n", lines());
  }

  /** The lines of DESCRIBE FUNCTION. */
  public List<String> lines() {
    List<String> lines = new ArrayList<>();
    lines.add("Function: " + name);
    lines.add("Signature: " + function.get("signature").textValue());
    if (!function.get("comment").isNull()) {
      lines.add("Comment: " + function.get("comment").textValue());
    }
    lines.add("Deterministic: " + function.get("deterministic").booleanValue());
    function.get("definitions").forEach(each -> lines.add("Definition: " + each.textValue()));
    return lines;
  }

  @Override
  public BoundFunction bind(StructType inputType) {
    if (!function.get("refusal").isNull()) {
      throw new UnsupportedOperationException(function.get("refusal").textValue());
    }
    StructType params = params();
    if (params.length() != inputType.length()) {
      throw new UnsupportedOperationException(
          function.get("signature").textValue() + " takes " + params.length() + " arguments, not " + inputType.length());
    }
    return new SqlFunction(name, params, function.get("deterministic").booleanValue(), body(params));
  }

  private StructType params() {
    StructType params = new StructType();
    for (JsonNode param : function.get("params")) {
      DataType type = CharVarcharUtils.replaceCharVarcharWithString(DataType.fromJson(param.get("type").textValue()));
      params = params.add(param.get("name").textValue(), type, true);
    }
    return params;
  }

  /** The analysed expression, with references to the places of the arguments. */
  private Expression body(StructType params) {
    List<String> within = WITHIN.get();
    if (within.contains(name)) {
      throw new UnsupportedOperationException(
          "its definition calls itself: " + String.join(" -> ", within) + " -> " + name);
    }
    within.add(name);
    try {
      SparkSession session = (SparkSession) org.apache.spark.sql.SparkSession.active();
      Column result = functions.expr(function.get("sql").textValue());
      if (!function.get("result").isNull()) {
        result =
            result.cast(
                CharVarcharUtils.replaceCharVarcharWithString(
                    DataType.fromJson(function.get("result").textValue())));
      }
      LogicalPlan plan =
          session.createDataFrame(List.of(), params).select(result.as("result")).queryExecution().analyzed();
      return bound(plan);
    } catch (Exception error) {
      // Includes Spark's checked exceptions, which Scala's methods don't declare.
      throw error instanceof UnsupportedOperationException refused
          ? refused
          : new UnsupportedOperationException("its definition is not valid in Spark: " + error.getMessage(), error);
    } finally {
      within.remove(within.size() - 1);
    }
  }

  private static Expression bound(LogicalPlan plan) {
    if (!(plan instanceof Project project)
        || !project.child().children().isEmpty()
        || project.projectList().size() != 1
        || !(project.projectList().head() instanceof Alias alias)) {
      throw new UnsupportedOperationException(
          "its definition is no expression over one row: aggregates, windows and generators are not supported");
    }
    List<Attribute> places = CollectionConverters.asJava(project.child().output());
    return alias
        .child()
        .transformUp(
            new ExpressionRewrite(
                each -> each instanceof PlanExpression<?> || placeOf(places, each) >= 0,
                each -> {
                  int place = placeOf(places, each);
                  if (place < 0) {
                    throw new UnsupportedOperationException("its definition has a subquery, which is not supported");
                  }
                  return new BoundReference(place, each.dataType(), true);
                }));
  }

  private static int placeOf(List<Attribute> places, Expression expression) {
    if (expression instanceof Attribute attribute) {
      for (int place = 0; place < places.size(); place++) {
        if (places.get(place).exprId().equals(attribute.exprId())) {
          return place;
        }
      }
    }
    return -1;
  }
}
