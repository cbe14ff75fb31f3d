package interbed.spark.rewrite;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.ArrayTransform;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LambdaFunction;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedLambdaVariable;
import org.apache.spark.sql.catalyst.expressions.TransformValues;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.util.ResolveDefaultColumns;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Adds missing fields and columns to the rows of a query for a table: nested fields as nulls, at any depth, since Spark refuses a
 * struct without them; and columns by their defaults, which Spark adds by itself from 4.1 on.
 */
final class MissingFields {
  private MissingFields() {}

  /** The query with its missing columns, by their defaults or as nulls; columns that are never null stay missing. */
  static LogicalPlan withColumns(LogicalPlan query, List<AttributeReference> wanted) {
    List<NamedExpression> columns = new ArrayList<>(CollectionConverters.asJava(query.output()));
    for (AttributeReference column : wanted) {
      if (field(query.schema(), column.name()).isEmpty()) {
        ResolveDefaultColumns.getDefaultValueExprOrNullLit(
                (Attribute) column, SQLConf.get().useNullsForMissingDefaultColumnValues())
            .foreach(columns::add);
      }
    }
    return columns.size() > query.output().size()
        ? new Project(CollectionConverters.asScala(columns).toSeq(), query)
        : query;
  }

  /** The query with structs that have all the fields of the target's columns of the same name. */
  static LogicalPlan filled(LogicalPlan query, StructType target) {
    List<NamedExpression> columns = new ArrayList<>();
    boolean changed = false;
    for (Attribute column : CollectionConverters.asJava(query.output())) {
      Expression filled = field(target, column.name()).map(f -> filled(column, f.dataType())).getOrElse(() -> column);
      changed |= filled != column;
      columns.add(
          filled == column
              ? column
              : new Alias(filled, column.name(), NamedExpression.newExprId(), seq(), Option.empty(), seq()));
    }
    return changed ? new Project(CollectionConverters.asScala(columns).toSeq(), query) : query;
  }

  /** The value with all fields of the type; the value itself when no field is missing. */
  private static Expression filled(Expression value, DataType target) {
    if (value.dataType() instanceof StructType given && target instanceof StructType wanted) {
      return filledStruct(value, given, wanted);
    }
    if (value.dataType() instanceof ArrayType given && target instanceof ArrayType wanted) {
      NamedLambdaVariable element = variable("element", given.elementType(), given.containsNull());
      Expression filled = filled(element, wanted.elementType());
      return filled == element ? value : new ArrayTransform(value, new LambdaFunction(filled, seq(element), false));
    }
    if (value.dataType() instanceof MapType given && target instanceof MapType wanted) {
      NamedLambdaVariable key = variable("key", given.keyType(), false);
      NamedLambdaVariable entry = variable("value", given.valueType(), given.valueContainsNull());
      Expression filled = filled(entry, wanted.valueType());
      return filled == entry ? value : new TransformValues(value, new LambdaFunction(filled, seq(key, entry), false));
    }
    return value;
  }

  private static Expression filledStruct(Expression value, StructType given, StructType wanted) {
    List<Expression> parts = new ArrayList<>();
    boolean changed = false;
    for (int i = 0; i < given.length(); i++) {
      String name = given.apply(i).name();
      Expression part = new GetStructField(value, i, Option.apply(name));
      Expression filled = field(wanted, name).map(f -> filled(part, f.dataType())).getOrElse(() -> part);
      changed |= filled != part;
      parts.add(new Literal(UTF8String.fromString(name), DataTypes.StringType));
      parts.add(filled);
    }
    for (StructField missing : wanted.fields()) {
      if (field(given, missing.name()).isEmpty()) {
        changed = true;
        parts.add(new Literal(UTF8String.fromString(missing.name()), DataTypes.StringType));
        parts.add(new Literal(null, missing.dataType()));
      }
    }
    if (!changed) {
      return value;
    }
    Expression struct = new CreateNamedStruct(CollectionConverters.asScala(parts).toSeq());
    return value.nullable() ? new If(new IsNull(value), new Literal(null, struct.dataType()), struct) : struct;
  }

  private static Option<StructField> field(StructType struct, String name) {
    boolean exact = SQLConf.get().caseSensitiveAnalysis();
    return Option.apply(
        Arrays.stream(struct.fields())
            .filter(field -> exact ? field.name().equals(name) : field.name().equalsIgnoreCase(name))
            .findFirst()
            .orElse(null));
  }

  private static NamedLambdaVariable variable(String name, DataType type, boolean nullable) {
    return new NamedLambdaVariable(name, type, nullable, NamedExpression.newExprId(), new AtomicReference<>());
  }

  @SafeVarargs
  private static <T> Seq<T> seq(T... elements) {
    return CollectionConverters.asScala(Arrays.asList(elements)).toSeq();
  }
}
