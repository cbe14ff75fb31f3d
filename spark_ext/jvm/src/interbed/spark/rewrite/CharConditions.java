package interbed.spark.rewrite;

import interbed.spark.table.SparkTable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.RewriteDeleteFromTable$;
import org.apache.spark.sql.catalyst.analysis.RewriteMergeIntoTable$;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.MergeRows;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SQLConf;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/**
 * Has UPDATE, DELETE and MERGE see CHAR values of their target as a query sees them, padded with blanks, while the rows keep the
 * stored values of the columns that a statement does not set.
 *
 * <p>Spark pads the literals of the conditions, but not the target of UPDATE and MERGE; it pads that of DELETE, with the keys by
 * which the rows are deleted. This rule runs after Spark's and pads conditions and new values alone.
 */
public final class CharConditions extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    SQLConf conf = SQLConf.get();
    if (!conf.readSideCharPadding() || conf.charVarcharAsString()) {
      return plan;
    }
    // Spark 4.0 pads the target of a DELETE before it rewrites the statement, and then does not rewrite it.
    LogicalPlan unpadded =
        plan.resolveOperators(
            new PlanRewrite(node -> paddedTable(node) != null, node -> unpadded(node, CharColumns.of(paddedTable(node)))));
    LogicalPlan written = RewriteMergeIntoTable$.MODULE$.apply(RewriteDeleteFromTable$.MODULE$.apply(unpadded));
    return written.resolveOperators(
        new PlanRewrite(
            node -> node instanceof V2WriteCommand write && write.query().resolved() && targetOf(write) != null,
            node -> padded((V2WriteCommand) node)));
  }

  /** The table of a DELETE, or of a MERGE that only deletes, that Spark has padded and not rewritten, else null. */
  private static DataSourceV2Relation paddedTable(LogicalPlan node) {
    if (!(node instanceof DeleteFromTable || node instanceof MergeIntoTable)) {
      return null;
    }
    LogicalPlan table = node.children().head();
    while (table instanceof SubqueryAlias alias) {
      table = alias.child();
    }
    return table instanceof Project project
            && project.child() instanceof DataSourceV2Relation relation
            && relation.table() instanceof SparkTable
            && isPadding(project, CharColumns.of(relation))
        ? relation
        : null;
  }

  private static LogicalPlan unpadded(LogicalPlan node, CharColumns columns) {
    List<LogicalPlan> children = new ArrayList<>(CollectionConverters.asJava(node.children()));
    children.get(0).foreach(each -> addAliases(each, columns));
    children.set(
        0,
        (LogicalPlan)
            children.get(0).transformDown(new PlanRewrite(n -> isPadding(n, columns), n -> ((Project) n).child())));
    return (LogicalPlan) ((LogicalPlan) node.withNewChildren(seq(children))).mapExpressions(columns::stored);
  }

  /** The target of a write, null for tables of others. */
  private static DataSourceV2Relation targetOf(V2WriteCommand write) {
    Object target = write instanceof WriteDelta delta ? delta.originalTable() : write.table();
    return target instanceof DataSourceV2Relation relation && relation.table() instanceof SparkTable
        ? relation
        : null;
  }

  private static LogicalPlan padded(V2WriteCommand write) {
    DataSourceV2Relation target = targetOf(write);
    CharColumns columns = CharColumns.of(target);
    if (columns.isEmpty()) {
      return (LogicalPlan) write;
    }
    if (!(write instanceof WriteDelta)) {
      return inserted(write, target, columns);
    }
    write.query().foreach(node -> addAliases(node, columns));
    LogicalPlan query = (LogicalPlan) write.query().transformDown(new PlanRewrite(n -> true, n -> changed(n, columns)));
    LogicalPlan changed = (LogicalPlan) write.withNewQuery(query);
    return changed.mapExpressions(columns::padded);
  }

  /** A MERGE that only inserts, which is a join with its target; other writes are unchanged. */
  private static LogicalPlan inserted(V2WriteCommand write, DataSourceV2Relation target, CharColumns columns) {
    LogicalPlan query =
        (LogicalPlan)
            write
                .query()
                .transformDown(new PlanRewrite(n -> isJoinWith(n, target), n -> n.mapExpressions(columns::matched)));
    if (query.fastEquals(write.query())) {
      return (LogicalPlan) write;
    }
    V2WriteCommand changed = write.withNewQuery(query);
    if (((LogicalPlan) changed).resolved()) {
      return (LogicalPlan) changed;
    }
    // Spark 4.0 takes the lengths from the columns of the target, and not from the rows, with which it compares them then.
    List<AttributeReference> typed = new ArrayList<>();
    for (AttributeReference column : CollectionConverters.asJava(target.output())) {
      typed.add((AttributeReference) columns.stored(column));
    }
    return (LogicalPlan) changed.withNewTable(SchemaMerging.with(target, (SparkTable) target.table(), seq(typed)));
  }

  private static boolean isJoinWith(LogicalPlan node, DataSourceV2Relation target) {
    return node instanceof Join join
        && join.right() instanceof DataSourceV2Relation right
        && right.outputSet().equals(target.outputSet());
  }

  private static BoxedUnit addAliases(LogicalPlan node, CharColumns columns) {
    if (isPadding(node, columns)) {
      for (NamedExpression column : CollectionConverters.asJava(((Project) node).projectList())) {
        if (column instanceof Alias alias) {
          columns.add(alias);
        }
      }
    }
    return BoxedUnit.UNIT;
  }

  /** Whether Spark has put the node above the target, to pad its columns. */
  private static boolean isPadding(LogicalPlan node, CharColumns columns) {
    return node instanceof Project project
        && project.child() instanceof DataSourceV2Relation relation
        && project.projectList().size() == relation.output().size()
        && CollectionConverters.asJava(project.projectList()).stream().anyMatch(columns::isPadded)
        && CollectionConverters.asJava(project.projectList()).stream()
            .allMatch(column -> column instanceof AttributeReference || columns.isPadded(column));
  }

  private static LogicalPlan changed(LogicalPlan node, CharColumns columns) {
    if (isPadding(node, columns)) {
      return ((Project) node).child();
    }
    if (node instanceof Join) {
      return (LogicalPlan) node.mapExpressions(columns::matched);
    }
    if (node instanceof Filter) {
      return (LogicalPlan) node.mapExpressions(columns::padded);
    }
    if (node instanceof Project) {
      return (LogicalPlan) node.mapExpressions(each -> each instanceof Alias ? value(each, "", columns) : columns.stored(each));
    }
    if (node instanceof Expand expand) {
      List<Seq<Expression>> rows = new ArrayList<>();
      for (Seq<Expression> row : CollectionConverters.asJava(expand.projections())) {
        rows.add(row(CollectionConverters.asJava(row), expand.output(), columns));
      }
      return new Expand(CollectionConverters.asScala(rows).toSeq(), expand.output(), expand.child());
    }
    if (node instanceof MergeRows merge) {
      return (LogicalPlan)
          merge.mapExpressions(
              each ->
                  each instanceof MergeRows.Instruction
                      ? instruction(each, merge.output(), columns)
                      : columns.padded(each));
    }
    return node;
  }

  /** The instruction, whose children are its condition and one or two rows. */
  private static Expression instruction(Expression instruction, Seq<Attribute> output, CharColumns columns) {
    List<Expression> parts = CollectionConverters.asJava(instruction.children());
    List<Expression> changed = new ArrayList<>();
    changed.add(columns.padded(parts.get(0)));
    for (int i = 1; i < parts.size(); i++) {
      changed.add(value(parts.get(i), output.apply((i - 1) % output.size()).name(), columns));
    }
    return (Expression) instruction.withNewChildren(seq(changed));
  }

  private static Seq<Expression> row(List<Expression> row, Seq<Attribute> output, CharColumns columns) {
    List<Expression> changed = new ArrayList<>();
    for (int i = 0; i < row.size(); i++) {
      changed.add(value(row.get(i), output.apply(i).name(), columns));
    }
    return seq(changed);
  }

  /** The value of an output column: the stored one of the same column, which is not set, or a padded one. */
  private static Expression value(Expression value, String name, CharColumns columns) {
    if (value instanceof Alias alias) {
      return (Expression) alias.withNewChildren(seq(List.of(value(alias.child(), alias.name(), columns))));
    }
    Expression bare = value instanceof AssertNotNull checked ? checked.child() : value;
    return bare instanceof AttributeReference column && !columns.isSet(column, name)
        ? columns.stored(value)
        : columns.padded(value);
  }

  private static <T> Seq<T> seq(List<T> elements) {
    return CollectionConverters.asScala(elements).toSeq();
  }
}
