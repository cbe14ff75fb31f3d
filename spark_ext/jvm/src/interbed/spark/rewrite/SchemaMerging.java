package interbed.spark.rewrite;

import interbed.spark.catalog.ConfiguredNames;
import interbed.spark.planner.Planner;
import interbed.spark.table.Capabilities;
import interbed.spark.table.SparkTable;
import interbed.spark.thrift.TableInfo;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Changes a write by name into one to the table as it will be, with the new columns and the column with the kinds of the rows;
 * Spark then compares the rows with that schema.
 *
 * <p>A write's options are only known after its table is loaded, and Spark compares both at once. So every table first accepts
 * any rows ({@link SparkTable#takesAnyRows}), which prevents the comparison. This rule gets the plan next, and replaces the target
 * by a table that does not. A table that is read stays, since its hidden columns are resolved by then. The schema is only changed
 * when the write's job is planned.
 */
public final class SchemaMerging extends Rule<LogicalPlan> {
  private static final String SETTING = "spark.sql.extensions";
  private static final String OPTION = "write.merge-schema";

  /** Whether this rule will get writes of the table: not without the extension, nor for a system table, which has no writes. */
  public static boolean isPossible(TableInfo info) {
    return info.isSetRowChanges()
        && SQLConf.get().getConfString(SETTING, "").contains(ConfiguredNames.EXTENSIONS);
  }

  /** Whether a statement with these privileges may be a write of whole rows. */
  public static boolean isFor(Set<TableWritePrivilege> privileges) {
    return privileges.contains(TableWritePrivilege.INSERT) && !privileges.contains(TableWritePrivilege.UPDATE);
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.resolveOperators(new PlanRewrite(SchemaMerging::isChange, SchemaMerging::intoTarget));
  }

  private static boolean isChange(LogicalPlan node) {
    return node instanceof V2WriteCommand write
        ? write.table() instanceof LogicalPlan target && openTable(target).isPresent() && write.query().resolved()
        : node instanceof MergeIntoTable || node instanceof UpdateTable || node instanceof DeleteFromTable;
  }

  private static LogicalPlan intoTarget(LogicalPlan node) {
    if (node instanceof V2WriteCommand write) {
      return intoTarget(write, (DataSourceV2Relation) write.table());
    }
    List<LogicalPlan> children = new ArrayList<>(CollectionConverters.asJava(node.children()));
    children.set(0, closed(children.get(0)));
    return (LogicalPlan) node.withNewChildren(CollectionConverters.asScala(children).toSeq());
  }

  /** The target of row changes, whose columns Spark resolves by itself: of a MERGE that only inserts, or one that was read. */
  private static LogicalPlan closed(LogicalPlan target) {
    return target.resolveOperators(
        new PlanRewrite(
            node -> openTable(node).isPresent(),
            node -> closed((DataSourceV2Relation) node, openTable(node).orElseThrow())));
  }

  private static Optional<SparkTable> openTable(LogicalPlan node) {
    return node instanceof DataSourceV2Relation relation
            && relation.table() instanceof SparkTable table
            && table.takesAnyRows()
        ? Optional.of(table)
        : Optional.empty();
  }

  private static LogicalPlan intoTarget(V2WriteCommand write, DataSourceV2Relation relation) {
    SparkTable table = openTable(relation).orElseThrow();
    Map<String, String> options = options(write);
    StructType rows = write.query().schema();
    boolean asks = table.info().isMergesSchema() || options.containsKey(OPTION) || !hasAll(table.schema(), rows);
    if (!write.isByName() || !asks) {
      return complete(write, closed(relation, table));
    }
    TableInfo target =
        Planner.askOrThrow(
            planner ->
                planner.targetOfRows(
                    table.info().bufferForHandle(),
                    rows.json(),
                    options,
                    SQLConf.get().caseSensitiveAnalysis()));
    SparkTable evolved = new SparkTable(table.name(), target);
    V2WriteCommand changed =
        target.isMergesSchema()
            ? write.withNewQuery(MissingFields.filled(write.query(), evolved.schema()))
            : write;
    return complete(changed, evolved(relation, evolved));
  }

  /** The write into the target, with all columns of it where they are matched by name. */
  private static LogicalPlan complete(V2WriteCommand write, DataSourceV2Relation target) {
    V2WriteCommand into = write.withNewTable(target);
    return (LogicalPlan)
        (write.isByName() && !Capabilities.FILLS_COLUMNS && hasAll(target.schema(), write.query().schema())
            ? into.withNewQuery(MissingFields.withColumns(write.query(), CollectionConverters.asJava(target.output())))
            : into);
  }

  private static boolean hasAll(StructType table, StructType rows) {
    Set<String> names = new HashSet<>();
    for (String name : table.fieldNames()) {
      names.add(name.toLowerCase(Locale.ROOT));
    }
    return Arrays.stream(rows.fieldNames()).allMatch(name -> names.contains(name.toLowerCase(Locale.ROOT)));
  }

  private static Map<String, String> options(V2WriteCommand write) {
    if (write instanceof AppendData append) {
      return new HashMap<>(CollectionConverters.asJava(append.writeOptions()));
    }
    if (write instanceof OverwriteByExpression overwrite) {
      return new HashMap<>(CollectionConverters.asJava(overwrite.writeOptions()));
    }
    return write instanceof OverwritePartitionsDynamic overwrite
        ? new HashMap<>(CollectionConverters.asJava(overwrite.writeOptions()))
        : Map.of();
  }

  /** The relation with another table; common columns keep their ids, to which conditions of the write refer. */
  private static DataSourceV2Relation evolved(DataSourceV2Relation relation, SparkTable table) {
    DataSourceV2Relation fresh = DataSourceV2Relation.create(table, relation.catalog(), relation.identifier());
    Map<String, AttributeReference> known = new HashMap<>();
    CollectionConverters.asJava(relation.output()).forEach(column -> known.put(column.name(), column));
    List<AttributeReference> output = new ArrayList<>();
    for (AttributeReference column : CollectionConverters.asJava(fresh.output())) {
      AttributeReference old = known.get(column.name());
      output.add(old == null ? column : (AttributeReference) column.withExprId(old.exprId()));
    }
    return with(relation, table, CollectionConverters.asScala(output).toSeq());
  }

  private static DataSourceV2Relation closed(DataSourceV2Relation relation, SparkTable table) {
    return with(relation, new SparkTable(table.name(), table.info()), relation.output());
  }

  /** The relation with another table and output. */
  static DataSourceV2Relation with(DataSourceV2Relation relation, SparkTable table, Object output) {
    // Its constructor gets more parameters from version to version, but these two are always the first.
    Object[] arguments = new Object[relation.productArity()];
    for (int i = 0; i < arguments.length; i++) {
      arguments[i] = i == 0 ? table : i == 1 ? output : relation.productElement(i);
    }
    return (DataSourceV2Relation) relation.makeCopy(arguments);
  }
}
