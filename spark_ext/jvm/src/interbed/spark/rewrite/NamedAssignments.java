package interbed.spark.rewrite;

import interbed.spark.catalog.QualifiedName;
import interbed.spark.table.SparkTable;
import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedStar;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.InsertAction;
import org.apache.spark.sql.catalyst.plans.logical.InsertStarAction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UpdateAction;
import org.apache.spark.sql.catalyst.plans.logical.UpdateStarAction;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The assignments of an UPDATE or MERGE INTO whose target has the named hidden columns: these keep their values, or are null in
 * an inserted row. A star means the table's own columns, and an assignment to a hidden column is refused.
 */
final class NamedAssignments {
  private static final int SOURCE = 1;
  private static final int ACTIONS = 3;
  private static final int ACTIONS_END = 6;
  private static final int WITH_SCHEMA_EVOLUTION = 6;
  private static final String OF_SOURCE = "__interbed_source_";

  private final LogicalPlan target;
  private final QualifiedName name;
  private final SparkTable table;
  private final List<MetadataColumn> named;
  private boolean hasStars;
  private boolean usesSource;

  private NamedAssignments(LogicalPlan target, QualifiedName name, SparkTable table, List<MetadataColumn> named) {
    this.target = target;
    this.name = name;
    this.table = table;
    this.named = named;
  }

  /** The statement with changed assignments. Throws for an assignment to a hidden column. */
  static LogicalPlan of(LogicalPlan statement, QualifiedName name, SparkTable table, List<MetadataColumn> named) {
    NamedAssignments assignments = new NamedAssignments(statement.children().head(), name, table, named);
    if (statement instanceof UpdateTable update) {
      CollectionConverters.asJava(update.assignments()).forEach(assignments::check);
    }
    return statement instanceof MergeIntoTable merge ? assignments.in(merge) : statement;
  }

  private LogicalPlan in(MergeIntoTable merge) {
    Object[] parts = new Object[merge.productArity()];
    for (int i = 0; i < parts.length; i++) {
      parts[i] = i >= ACTIONS && i < ACTIONS_END ? actions((Seq<?>) merge.productElement(i)) : merge.productElement(i);
    }
    if (hasStars && merge.withSchemaEvolution()) {
      throw new UnsupportedOperationException(
          "A MERGE that names the hidden column '"
              + named.get(0).name()
              + "' can't add columns to "
              + name
              + ". Add them by ALTER TABLE first, and list the assigned columns instead of *.");
    }
    // Without a star no column is added. Spark would load the target again, and without the named columns.
    parts[WITH_SCHEMA_EVOLUTION] = false;
    if (usesSource) {
      parts[SOURCE] = withOwnNames(merge.sourceTable());
    }
    return merge.makeCopy(parts);
  }

  private Seq<Object> actions(Seq<?> actions) {
    List<Object> changed = new ArrayList<>();
    for (Object action : CollectionConverters.asJava(actions)) {
      changed.add(action(action));
    }
    return seq(changed);
  }

  private Object action(Object action) {
    if (action instanceof UpdateAction update) {
      CollectionConverters.asJava(update.assignments()).forEach(this::check);
      return update;
    }
    if (action instanceof UpdateStarAction star) {
      hasStars = true;
      usesSource = true;
      return create(UpdateAction.class, star.condition(), seq(own(true)), true);
    }
    if (action instanceof InsertStarAction star) {
      hasStars = true;
      return create(InsertAction.class, star.condition(), inserted(own(false)));
    }
    if (action instanceof InsertAction insert) {
      CollectionConverters.asJava(insert.assignments()).forEach(this::check);
      return create(InsertAction.class, insert.condition(), inserted(CollectionConverters.asJava(insert.assignments())));
    }
    return action;
  }

  /** The assignments of a star: the source's column of the same name to each of the table's own columns. */
  private List<Assignment> own(boolean update) {
    List<Assignment> assignments = new ArrayList<>();
    String[] columns = table.schema().fieldNames();
    for (int i = 0; i < columns.length; i++) {
      // Values of an update see the target, too.
      assignments.add(new Assignment(column(columns[i]), column(update ? OF_SOURCE + i : columns[i])));
    }
    return assignments;
  }

  private Seq<Assignment> inserted(List<Assignment> assignments) {
    List<Assignment> all = new ArrayList<>(assignments);
    for (MetadataColumn column : named) {
      all.add(new Assignment(column(column.name()), new Literal(null, column.dataType())));
    }
    return seq(all);
  }

  /** The source with one more name for each of its columns that a star assigns. */
  private LogicalPlan withOwnNames(LogicalPlan source) {
    List<NamedExpression> columns = new ArrayList<>();
    columns.add(new UnresolvedStar(Option.empty()));
    String[] own = table.schema().fieldNames();
    for (int i = 0; i < own.length; i++) {
      columns.add(
          new Alias(
              (Expression) column(own[i]),
              OF_SOURCE + i,
              NamedExpression.newExprId(),
              seq(List.of()),
              Option.empty(),
              seq(List.of())));
    }
    return new Project(seq(columns), source);
  }

  private void check(Assignment assignment) {
    if (!(assignment.key() instanceof UnresolvedAttribute key)) {
      return;
    }
    List<String> parts = CollectionConverters.asJava(key.nameParts());
    String last = parts.get(parts.size() - 1);
    List<String> before = parts.subList(0, parts.size() - 1);
    boolean isHidden = named.stream().anyMatch(column -> HiddenColumns.isSame(column.name(), last));
    // Otherwise it is a field of one of the table's columns, or unknown.
    if (isHidden && (before.isEmpty() || qualifies(before))) {
      throw new UnsupportedOperationException(
          "The hidden column '"
              + last
              + "' of "
              + name
              + " can't be assigned: interbed itself keeps it. Assign the table's own columns.");
    }
  }

  /** Whether these parts of a name are the target: its alias, or the end of the table's whole name. */
  private boolean qualifies(List<String> parts) {
    if (target instanceof SubqueryAlias alias && alias.child() instanceof SubqueryAlias) {
      return parts.size() == 1 && HiddenColumns.isSame(alias.alias(), parts.get(0));
    }
    List<String> whole = name.parts();
    int skipped = whole.size() - parts.size();
    if (skipped < 0) {
      return false;
    }
    for (int i = 0; i < parts.size(); i++) {
      if (!HiddenColumns.isSame(whole.get(skipped + i), parts.get(i))) {
        return false;
      }
    }
    return true;
  }

  private static UnresolvedAttribute column(String name) {
    return new UnresolvedAttribute(seq(List.of(name)));
  }

  /** An action, with as many of the arguments as this version of Spark takes. */
  private static Object create(Class<?> action, Object... arguments) {
    Constructor<?> constructor = action.getConstructors()[0];
    try {
      return constructor.newInstance(Arrays.copyOf(arguments, constructor.getParameterCount()));
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException("This version of Spark has other actions of a MERGE", error);
    }
  }

  private static <T> Seq<T> seq(List<T> elements) {
    return CollectionConverters.asScala(elements).toSeq();
  }
}
