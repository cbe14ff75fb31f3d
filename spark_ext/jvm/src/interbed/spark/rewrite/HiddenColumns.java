package interbed.spark.rewrite;

import interbed.spark.catalog.CatalogRegistry;
import interbed.spark.catalog.QualifiedName;
import interbed.spark.table.NamedColumnsTable;
import interbed.spark.table.SparkTable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias$;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Lets UPDATE, DELETE and MERGE INTO name hidden columns of their target, such as {@code _ROW_ID}.
 *
 * <p>Spark resolves hidden columns in them, and then fails for many statements with an internal error: it adds the columns to the
 * target, whose columns have to be those of the assignments, or it rewrites the statement without adding them. This rule resolves
 * the target before, to a table whose columns they are ({@link NamedColumnsTable}). It runs before names are resolved, so it
 * decides by the names alone: a name that turns out to be of another table does no harm.
 */
public final class HiddenColumns extends Rule<LogicalPlan> {
  /** Every hidden column begins with it; a statement without such a name needs no look at its table. */
  private static final String MARK = "_";

  private final SparkSession session;

  public HiddenColumns(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.resolveOperators(
        new PlanRewrite(
            node ->
                isChange(node)
                    && unresolvedTarget(node).isPresent()
                    && !marked(node).isEmpty(),
            this::withNamed));
  }

  private static boolean isChange(LogicalPlan node) {
    return node instanceof UpdateTable || node instanceof DeleteFromTable || node instanceof MergeIntoTable;
  }

  private static Optional<UnresolvedRelation> unresolvedTarget(LogicalPlan statement) {
    LogicalPlan target = statement.children().head();
    while (target instanceof SubqueryAlias alias) {
      target = alias.child();
    }
    return target instanceof UnresolvedRelation relation ? Optional.of(relation) : Optional.empty();
  }

  /** The parts of names in a statement that may be hidden columns, in lower case. A MERGE's source does not see the target. */
  private static Set<String> marked(LogicalPlan statement) {
    Set<String> found = new HashSet<>();
    CollectionConverters.asJava(statement.expressions()).forEach(each -> addMarked(each, found));
    return found;
  }

  /** Whether a plan names columns that may be hidden ones. */
  static boolean mayBeNamed(LogicalPlan plan) {
    Set<String> found = new HashSet<>();
    addMarked(plan, found);
    return !found.isEmpty();
  }

  private static void addMarked(Expression expression, Set<String> found) {
    if (expression instanceof AttributeReference column && column.name().startsWith(MARK)) {
      found.add(column.name().toLowerCase(Locale.ROOT));
    }
    if (expression instanceof UnresolvedAttribute name) {
      CollectionConverters.asJava(name.nameParts()).stream()
          .filter(part -> part.startsWith(MARK))
          .forEach(part -> found.add(part.toLowerCase(Locale.ROOT)));
    }
    if (expression instanceof SubqueryExpression subquery) {
      addMarked(subquery.plan(), found);
    }
    CollectionConverters.asJava(expression.children()).forEach(child -> addMarked(child, found));
  }

  private static void addMarked(LogicalPlan plan, Set<String> found) {
    CollectionConverters.asJava(plan.expressions()).forEach(each -> addMarked(each, found));
    CollectionConverters.asJava(plan.children()).forEach(child -> addMarked(child, found));
  }

  private LogicalPlan withNamed(LogicalPlan statement) {
    UnresolvedRelation relation = unresolvedTarget(statement).orElseThrow();
    Optional<QualifiedName> name = ownName(CollectionConverters.asJava(relation.multipartIdentifier()));
    Optional<SparkTable> table = name.flatMap(each -> load(each, relation));
    if (table.isEmpty()) {
      return statement;
    }
    Set<String> marked = marked(statement);
    List<MetadataColumn> named =
        Arrays.stream(table.get().metadataColumns())
            .filter(column -> marked.contains(column.name().toLowerCase(Locale.ROOT)))
            .filter(column -> !has(table.get(), column.name()))
            .toList();
    boolean hasKey = !table.get().info().getPrimaryKeys().isEmpty();
    if (named.isEmpty() || (hasKey && statement instanceof DeleteFromTable)) {
      return statement;
    }
    if (hasKey) {
      throw new UnsupportedOperationException(
          "The hidden column '"
              + named.get(0).name()
              + "' serves interbed itself, no UPDATE or MERGE can name it; name the columns of "
              + table.get().name());
    }
    DataSourceV2Relation target =
        DataSourceV2Relation.create(
            new NamedColumnsTable(table.get(), named), Option.apply(name.get().catalog()), Option.apply(name.get().identifier()));
    LogicalPlan qualified =
        SubqueryAlias$.MODULE$.apply(CollectionConverters.asScala(name.get().parts()).toSeq(), target);
    List<LogicalPlan> children = new ArrayList<>(CollectionConverters.asJava(statement.children()));
    children.set(
        0, (LogicalPlan) children.get(0).transformDown(new PlanRewrite(node -> node == relation, node -> qualified)));
    LogicalPlan changed = (LogicalPlan) statement.withNewChildren(CollectionConverters.asScala(children).toSeq());
    return NamedAssignments.of(changed, name.get(), table.get(), named);
  }

  private static boolean has(Table table, String column) {
    return Arrays.stream(table.columns()).anyMatch(own -> own.name().equalsIgnoreCase(column));
  }

  private Optional<QualifiedName> ownName(List<String> parts) {
    if (parts.size() == 1 && session.sessionState().catalog().getTempView(parts.get(0)).isDefined()) {
      return Optional.empty();
    }
    return CatalogRegistry.of(session).ours(parts);
  }

  private static Optional<SparkTable> load(QualifiedName name, UnresolvedRelation relation) {
    Set<TableWritePrivilege> privileges = new HashSet<>();
    String asked = relation.options().getOrDefault(UnresolvedRelation.REQUIRED_WRITE_PRIVILEGES(), "UPDATE");
    for (String privilege : asked.split(",")) {
      privileges.add(TableWritePrivilege.valueOf(privilege.trim()));
    }
    try {
      return name.catalog().loadTable(name.identifier(), privileges) instanceof SparkTable table
          ? Optional.of(table)
          : Optional.empty();
    } catch (NoSuchTableException missing) {
      // Spark reports the error itself.
      return Optional.empty();
    }
  }

  /** Whether two names are one for this session. */
  static boolean isSame(String one, String other) {
    return SQLConf.get().caseSensitiveAnalysis() ? one.equals(other) : one.equalsIgnoreCase(other);
  }
}
