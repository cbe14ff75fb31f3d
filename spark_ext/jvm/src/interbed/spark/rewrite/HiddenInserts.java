package interbed.spark.rewrite;

import interbed.spark.table.NamedColumnsTable;
import interbed.spark.table.SparkTable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.RewriteMergeIntoTable$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Removes the hidden columns that {@link HiddenColumns} added to the target of a MERGE INTO that only inserts. Spark plans it as
 * an INSERT, which writes all columns of its target.
 */
public final class HiddenInserts extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    // Spark 4.0 rewrites a MERGE only after the rules of extensions; if Spark has rewritten it, this changes nothing.
    LogicalPlan written = RewriteMergeIntoTable$.MODULE$.apply(plan);
    return written.resolveOperators(
        new PlanRewrite(
            node ->
                node instanceof V2WriteCommand write
                    && write.query().resolved()
                    && write.table() instanceof DataSourceV2Relation target
                    && target.table() instanceof NamedColumnsTable,
            node -> withOwnColumns((V2WriteCommand) node)));
  }

  private static LogicalPlan withOwnColumns(V2WriteCommand write) {
    DataSourceV2Relation target = (DataSourceV2Relation) write.table();
    SparkTable table = ((NamedColumnsTable) target.table()).table();
    int own = table.schema().length();
    LogicalPlan query =
        (LogicalPlan)
            write
                .query()
                .transformDown(
                    new PlanRewrite(
                        node -> node instanceof DataSourceV2Relation read && read.table() instanceof NamedColumnsTable,
                        node -> withHidden((DataSourceV2Relation) node)));
    List<NamedExpression> columns = new ArrayList<>();
    for (Attribute column : CollectionConverters.asJava(query.output()).subList(0, own)) {
      columns.add(column);
    }
    LogicalPlan rows = new Project(CollectionConverters.asScala(columns).toSeq(), query);
    V2WriteCommand into = write.withNewTable(SchemaMerging.with(target, table, target.output().take(own)));
    return (LogicalPlan) into.withNewQuery(rows);
  }

  /** A read of the target, which Spark may load again before it runs: the added columns are hidden ones of the table. */
  private static DataSourceV2Relation withHidden(DataSourceV2Relation read) {
    SparkTable table = ((NamedColumnsTable) read.table()).table();
    DataSourceV2Relation plain = DataSourceV2Relation.create(table, read.catalog(), read.identifier());
    Map<String, AttributeReference> hidden = new HashMap<>();
    CollectionConverters.asJava(plain.metadataOutput()).forEach(column -> hidden.put(column.name(), column));
    List<AttributeReference> output = new ArrayList<>();
    for (AttributeReference column : CollectionConverters.asJava(read.output())) {
      AttributeReference of = hidden.get(column.name());
      output.add(of == null ? column : (AttributeReference) of.withExprId(column.exprId()));
    }
    return SchemaMerging.with(read, table, CollectionConverters.asScala(output).toSeq());
  }
}
