package interbed.spark.rewrite;

import interbed.spark.write.RowStatementScope;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Replaces `Dataset.mergeInto` of an interbed table by the CALL of a MERGE in SQL, so that it also runs again after conflicts.
 *
 * <p>It is a rule that runs before names are resolved, since no parser handles such a merge. Spark Connect has the same plan.
 */
public final class FrameMerge extends Rule<LogicalPlan> {
  private static final String WRITER = "org.apache.spark.sql.classic.MergeIntoWriter";

  private final SparkSession session;

  public FrameMerge(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (!(plan instanceof MergeIntoTable) || RowStatementScope.isOpen() || !isMergeOfFrame()) {
      return plan;
    }
    return RowStatement.translate(plan).map(this::parsed).orElse(plan);
  }

  /** A plan to be run and a plan for EXPLAIN are equal, and analysing the CALL runs it. */
  private static boolean isMergeOfFrame() {
    return StackWalker.getInstance().walk(frames -> frames.anyMatch(frame -> frame.getClassName().equals(WRITER)));
  }

  private LogicalPlan parsed(String call) {
    try {
      return session.sessionState().sqlParser().parsePlan(call);
    } catch (ParseException error) {
      throw new IllegalStateException("Not a statement: " + call, error);
    }
  }

  /**
   * Whether the source of a merge depends on rows of its target. These are of the snapshot at the creation of the frame; with a
   * newer one the merge would undo another writer's changes.
   */
  static boolean readsItsTarget(LogicalPlan plan, Table target) {
    return plan instanceof MergeIntoTable merge && reads(merge.sourceTable(), target);
  }

  /** Whether a plan, or a subquery in it, reads the table. */
  static boolean reads(LogicalPlan plan, Table target) {
    List<LogicalPlan> plans = new ArrayList<>(CollectionConverters.asJava(plan.subqueriesAll()));
    plans.add(plan);
    return plans.stream()
        .flatMap(each -> CollectionConverters.asJava(each.collectLeaves()).stream())
        .anyMatch(leaf -> leaf instanceof DataSourceV2Relation relation && isSame(relation.table(), target));
  }

  /** Whether two tables are the same one, possibly by different names. */
  private static boolean isSame(Table one, Table other) {
    String location = other.properties().get(TableCatalog.PROP_LOCATION);
    return location != null && location.equals(one.properties().get(TableCatalog.PROP_LOCATION));
  }
}
