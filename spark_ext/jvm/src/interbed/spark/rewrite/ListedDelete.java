package interbed.spark.rewrite;

import interbed.spark.table.SparkTable;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InSubquery;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.KnownNotNull;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Lets a DELETE skip reading its target when a subquery lists the keys of the deleted rows, as in {@code DELETE FROM t WHERE id
 * IN (SELECT id FROM gone)}: it writes a deletion of each listed key, existing or not.
 */
final class ListedDelete {
  private ListedDelete() {}

  /** The analysed statement without the read of its target, or unchanged. */
  static LogicalPlan of(LogicalPlan analysed) {
    return (LogicalPlan)
        analysed.transformDown(
            new PlanRewrite(node -> node instanceof WriteDelta, node -> listed((WriteDelta) node).orElse(node)));
  }

  private static Optional<LogicalPlan> listed(WriteDelta write) {
    if (!(write.originalTable() instanceof DataSourceV2Relation target)
        || !(target.table() instanceof SparkTable table)
        || !table.info().getRowChanges().isDeletesByKey()
        || !(write.query() instanceof Project deleted)
        || !(deleted.child() instanceof Filter filter)
        || !(filter.child() instanceof DataSourceV2Relation)
        || !(filter.condition() instanceof InSubquery in)) {
      return Optional.empty();
    }
    LogicalPlan list = in.query().plan();
    List<Attribute> given = CollectionConverters.asJava(list.output());
    List<Expression> keys = CollectionConverters.asJava(in.values());
    // A statement that reads its own table needs one state of it, from its start to the commit.
    if (in.query().isCorrelated() || given.size() != keys.size() || FrameMerge.reads(list, table)) {
      return Optional.empty();
    }
    Set<String> names = new HashSet<>();
    List<NamedExpression> row = new ArrayList<>();
    Expression present = null;
    for (int i = 0; i < keys.size(); i++) {
      if (!(keys.get(i) instanceof AttributeReference key)
          || !KeyColumns.isExact(key)
          || !key.dataType().equals(given.get(i).dataType())) {
        return Optional.empty();
      }
      names.add(key.name());
      row.add(new Alias(new KnownNotNull(given.get(i)), key.name(), key.exprId(), seq(), Option.empty(), seq()));
      // IN never matches a null, and no key is null.
      Expression known = new IsNotNull(given.get(i));
      present = present == null ? known : new And(present, known);
    }
    Project rows = new Project(CollectionConverters.asScala(row).toSeq(), new Filter(present, list));
    // Other columns than those of the key would have to be read.
    if (!names.equals(Set.copyOf(table.info().getPrimaryKeys())) || !deleted.references().subsetOf(rows.outputSet())) {
      return Optional.empty();
    }
    LogicalPlan query = new Project(deleted.projectList(), rows);
    return Optional.of((LogicalPlan) write.withNewQuery(query));
  }

  private static <T> Seq<T> seq() {
    return CollectionConverters.asScala(List.<T>of()).toSeq();
  }
}
