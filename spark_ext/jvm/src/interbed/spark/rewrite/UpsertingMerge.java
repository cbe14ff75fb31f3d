package interbed.spark.rewrite;

import interbed.spark.table.SparkTable;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull;
import org.apache.spark.sql.catalyst.plans.logical.AppendData$;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeRows;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.catalyst.util.RowDeltaUtils;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Lets a MERGE skip reading its target when it writes the same row with or without a match: by the primary key, with one UPDATE
 * and one INSERT of the same values and without conditions, such as UPDATE SET * and INSERT *.
 *
 * <p>The result is an INSERT of the source's rows. Only repeated keys need the target, since they are an error if the target has
 * the key. The write refuses them ({@link UpsertTarget}), and {@link RowStatement} runs the statement again without this rule.
 */
final class UpsertingMerge {
  private UpsertingMerge() {}

  /** The analysed statement without the read of its target, or unchanged. */
  static LogicalPlan of(LogicalPlan analysed) {
    return (LogicalPlan)
        analysed.transformDown(
            new PlanRewrite(
                node -> node instanceof WriteDelta, node -> upsert((WriteDelta) node).orElse(node)));
  }

  private static Optional<LogicalPlan> upsert(WriteDelta write) {
    if (!(write.originalTable() instanceof DataSourceV2Relation target)
        || !(target.table() instanceof SparkTable table)
        || !table.info().getRowChanges().isUpserts()
        || !(write.query() instanceof MergeRows merge)
        || !(merge.child() instanceof Join join)
        || !merge.notMatchedBySourceInstructions().isEmpty()) {
      return Optional.empty();
    }
    List<AttributeReference> columns = CollectionConverters.asJava(target.output());
    LogicalPlan source = join.right();
    List<Expression> updated = row(merge.matchedInstructions(), RowDeltaUtils.UPDATE_OPERATION(), columns.size());
    List<Expression> inserted = row(merge.notMatchedInstructions(), RowDeltaUtils.INSERT_OPERATION(), columns.size());
    Map<String, Expression> keys = keys(write.condition(), columns, source);
    if (updated.isEmpty() || inserted.isEmpty() || !keys.keySet().equals(Set.copyOf(table.info().getPrimaryKeys()))) {
      return Optional.empty();
    }
    List<NamedExpression> row = new ArrayList<>();
    for (int i = 0; i < columns.size(); i++) {
      AttributeReference column = columns.get(i);
      Expression before = nullable(updated.get(i));
      Expression value = nullable(inserted.get(i));
      Expression key = keys.get(column.name());
      // Without an assignment a key keeps its value, which is also the source's.
      boolean same = before.semanticEquals(value) || (key != null && KeyColumns.isColumn(before, column));
      if (!same || (key != null && !value.semanticEquals(key))) {
        return Optional.empty();
      }
      row.add(new Alias(inserted.get(i), column.name(), NamedExpression.newExprId(), seq(), Option.empty(), seq()));
    }
    LogicalPlan rows = new Project(CollectionConverters.asScala(row).toSeq(), source);
    return Optional.of(append(SchemaMerging.with(target, UpsertTarget.of(table), target.output()), rows));
  }

  /** The values of the table's columns in the only instruction without a condition; empty for other instructions. */
  private static List<Expression> row(Seq<MergeRows.Instruction> instructions, int operation, int columns) {
    if (instructions.size() != 1 || !instructions.head().condition().equals(Literal$.MODULE$.TrueLiteral())) {
      return List.of();
    }
    Seq<Seq<Expression>> outputs = instructions.head().outputs();
    if (outputs.size() != 1 || !(outputs.head().head() instanceof Literal first) || !first.value().equals(operation)) {
      return List.of();
    }
    return CollectionConverters.asJava(outputs.head()).subList(1, 1 + columns);
  }

  /** The source's values of the key columns, by which the condition matches rows; empty for another condition. */
  private static Map<String, Expression> keys(
      Expression condition, List<AttributeReference> columns, LogicalPlan source) {
    List<Expression> conjuncts = new ArrayList<>();
    addConjuncts(condition, conjuncts);
    Map<String, Expression> found = new HashMap<>();
    for (Expression conjunct : conjuncts) {
      if (!(conjunct instanceof EqualTo || conjunct instanceof EqualNullSafe)) {
        return Map.of();
      }
      BinaryComparison equation = (BinaryComparison) conjunct;
      boolean turned = columns.stream().noneMatch(column -> KeyColumns.isColumn(equation.left(), column));
      Expression ofTarget = turned ? equation.right() : equation.left();
      Expression ofSource = turned ? equation.left() : equation.right();
      Optional<AttributeReference> key = columns.stream().filter(column -> KeyColumns.isColumn(ofTarget, column)).findFirst();
      if (key.isEmpty()
          || !KeyColumns.isExact(key.get())
          || !ofSource.references().subsetOf(source.outputSet())
          || found.put(key.get().name(), ofSource) != null) {
        return Map.of();
      }
    }
    return found;
  }

  private static void addConjuncts(Expression condition, List<Expression> found) {
    if (condition instanceof And and) {
      addConjuncts(and.left(), found);
      addConjuncts(and.right(), found);
    } else {
      found.add(condition);
    }
  }

  /** The value without Spark's check for null, which is applied to the written row. */
  private static Expression nullable(Expression value) {
    return value instanceof AssertNotNull checked ? checked.child() : value;
  }

  /** AppendData.byPosition, which has one more parameter from Spark 4.2 on. */
  private static LogicalPlan append(DataSourceV2Relation target, LogicalPlan rows) {
    Object noOptions = scala.collection.immutable.Map$.MODULE$.empty();
    Method byPosition =
        Arrays.stream(AppendData$.class.getMethods())
            .filter(method -> method.getName().equals("byPosition"))
            .findFirst()
            .orElseThrow();
    Object[] arguments =
        byPosition.getParameterCount() == 3
            ? new Object[] {target, rows, noOptions}
            : new Object[] {target, rows, noOptions, false};
    try {
      return (LogicalPlan) byPosition.invoke(AppendData$.MODULE$, arguments);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException("This version of Spark appends in another way", error);
    }
  }

  @SafeVarargs
  private static <T> Seq<T> seq(T... elements) {
    return CollectionConverters.asScala(Arrays.asList(elements)).toSeq();
  }
}
