package interbed.spark.rewrite;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.OuterReference;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.CharType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/** The columns of a statement's target with values of type CHAR, at any depth, by the ids with which a plan refers to them. */
final class CharColumns {
  private final Set<String> names = new HashSet<>();
  private final Map<ExprId, AttributeReference> columns = new HashMap<>();

  static CharColumns of(DataSourceV2Relation target) {
    CharColumns found = new CharColumns();
    // Spark takes the types from the columns of some statements.
    StructType types = CharVarcharUtils.replaceCharVarcharWithStringInSchema(target.table().schema());
    for (AttributeReference column : CollectionConverters.asJava(target.output())) {
      found.names.add(column.name());
      if (types.getFieldIndex(column.name()).isDefined()) {
        AttributeReference typed = (AttributeReference) column.withMetadata(types.apply(column.name()).metadata());
        if (paddedValue(typed) != typed) {
          found.columns.put(column.exprId(), typed);
        }
      }
    }
    return found;
  }

  boolean isEmpty() {
    return columns.isEmpty();
  }

  /** Adds the id of a padded column of Spark's. */
  void add(Alias padded) {
    columns.put(padded.exprId(), origin(padded));
  }

  /** Whether the expression is one of the columns, padded by Spark. */
  boolean isPadded(NamedExpression expression) {
    return expression instanceof Alias alias
        && origin(alias) != null
        && origin(alias).name().equals(alias.name())
        && !(alias.child() instanceof AttributeReference);
  }

  private AttributeReference origin(Alias padded) {
    List<Attribute> references = CollectionConverters.asJava(padded.references().toList());
    return references.size() == 1 ? columns.get(references.get(0).exprId()) : null;
  }

  /** Whether a column of the output is another column of the table than the one that it has the value of. */
  boolean isSet(AttributeReference value, String output) {
    return names.contains(output) && !output.equals(value.name());
  }

  /** The expression of the stored values. */
  Expression stored(Expression expression) {
    if (expression instanceof AttributeReference column) {
      return columns.containsKey(column.exprId()) ? columns.get(column.exprId()) : expression;
    }
    return expression instanceof SubqueryExpression subquery
        ? withOuter(subquery, OuterReference::new)
        : (Expression) expression.mapChildren(this::stored);
  }

  /** The expression of the values as a query reads them. */
  Expression padded(Expression expression) {
    if (expression instanceof AttributeReference column) {
      return columns.containsKey(column.exprId()) ? paddedValue(columns.get(column.exprId())) : expression;
    }
    if (expression instanceof SubqueryExpression subquery) {
      return withOuter(
          subquery,
          column -> (Expression) paddedValue(column).transformUp(new Replacement(new OuterReference(column))));
    }
    return (Expression) expression.mapChildren(this::padded);
  }

  /**
   * The condition by which a MERGE matches rows. A text of the source is padded, too, where it is compared with a column: an
   * inserted row would get it with these blanks.
   */
  Expression matched(Expression expression) {
    if (expression instanceof EqualTo || expression instanceof EqualNullSafe) {
      BinaryComparison equation = (BinaryComparison) expression;
      return (Expression)
          equation.withNewChildren(
              CollectionConverters.asScala(
                      List.of(
                          paddedAs(equation.right(), equation.left()), paddedAs(equation.left(), equation.right())))
                  .toSeq());
    }
    return expression instanceof And || expression instanceof Or || expression instanceof Not
        ? (Expression) expression.mapChildren(this::matched)
        : padded(expression);
  }

  private Expression paddedAs(Expression other, Expression value) {
    AttributeReference column = other instanceof AttributeReference reference ? columns.get(reference.exprId()) : null;
    boolean isText =
        column != null
            && value.dataType().equals(DataTypes.StringType)
            && CharVarcharUtils.getRawType(column.metadata()).exists(type -> type instanceof CharType);
    boolean isOfTarget =
        CollectionConverters.asJava(value.references().toList()).stream().anyMatch(each -> columns.containsKey(each.exprId()));
    return isText && !isOfTarget && !value.foldable()
        ? (Expression) paddedValue(column).transformUp(new Replacement(value))
        : padded(value);
  }

  private static Expression paddedValue(AttributeReference column) {
    return CharVarcharUtils.addPaddingForScan(column);
  }

  /** The subquery with other expressions of the columns to which it refers; its children are these columns. */
  private SubqueryExpression withOuter(SubqueryExpression subquery, Function<AttributeReference, Expression> outer) {
    SubqueryExpression stored = (SubqueryExpression) subquery.mapChildren(this::stored);
    Outer references = new Outer(outer);
    return stored.withNewPlan(
        (LogicalPlan)
            ((LogicalPlan) stored.plan())
                .transformDown(
                    new PlanRewrite(node -> true, node -> (LogicalPlan) node.transformExpressionsUp(references))));
  }

  /** Replaces the references of a correlated subquery to the columns. */
  private final class Outer extends AbstractPartialFunction<Expression, Expression> {
    private final Function<AttributeReference, Expression> replacement;

    Outer(Function<AttributeReference, Expression> replacement) {
      this.replacement = replacement;
    }

    @Override
    public boolean isDefinedAt(Expression expression) {
      return expression instanceof OuterReference outer
          && outer.e() instanceof AttributeReference column
          && columns.containsKey(column.exprId());
    }

    @Override
    public Expression apply(Expression expression) {
      return replacement.apply(columns.get(((OuterReference) expression).e().exprId()));
    }
  }

  /** Replaces the columns of an expression. */
  private static final class Replacement extends AbstractPartialFunction<Expression, Expression> {
    private final Expression value;

    Replacement(Expression value) {
      this.value = value;
    }

    @Override
    public boolean isDefinedAt(Expression expression) {
      return expression instanceof AttributeReference;
    }

    @Override
    public Expression apply(Expression expression) {
      return value;
    }
  }
}
