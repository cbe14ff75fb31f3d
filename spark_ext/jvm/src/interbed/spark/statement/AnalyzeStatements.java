package interbed.spark.statement;

import interbed.spark.catalog.CatalogRegistry;
import interbed.spark.catalog.QualifiedName;
import interbed.spark.planner.Planner;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableOrView;
import org.apache.spark.sql.catalyst.plans.logical.AnalyzeColumn;
import org.apache.spark.sql.catalyst.plans.logical.AnalyzeTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.Identifier;
import scala.jdk.javaapi.CollectionConverters;

/** ANALYZE TABLE … COMPUTE STATISTICS of our tables, which Spark parses, but supports for its own tables only. */
public final class AnalyzeStatements implements StatementTranslation {
  static final List<SystemProcedure> PROCEDURES =
      List.of(SystemProcedure.silent("analyze_table", AnalyzeStatements::analyze));

  @Override
  public Optional<String> translate(String sql, LogicalPlan parsed) {
    if (parsed instanceof AnalyzeTable table) {
      return call(table.child(), List.of(), false, !table.partitionSpec().isEmpty());
    }
    if (parsed instanceof AnalyzeColumn column) {
      List<String> columns =
          column.columnNames().isDefined() ? CollectionConverters.asJava(column.columnNames().get()) : List.of();
      return call(column.child(), columns, column.allColumns(), false);
    }
    return Optional.empty();
  }

  private static Optional<String> call(LogicalPlan named, List<String> columns, boolean all, boolean ofPartition) {
    if (!(named instanceof UnresolvedTableOrView table)) {
      return Optional.empty();
    }
    Optional<QualifiedName> name =
        CatalogRegistry.ofActiveSession()
            .ours(CollectionConverters.asJava(table.multipartIdentifier()))
            .filter(QualifiedName::isTableOfOurs);
    if (name.isPresent() && ofPartition) {
      throw new UnsupportedOperationException(
          "Statistics are of whole tables: write ANALYZE TABLE " + name.get() + " COMPUTE STATISTICS");
    }
    return name.map(
        found -> {
          Map<String, Object> fields = new HashMap<>();
          fields.put("table", found.parts());
          fields.put("columns", columns);
          fields.put("all", all);
          return SystemCall.of("analyze_table", fields);
        });
  }

  @SuppressWarnings("unchecked")
  private static void analyze(Map<String, Object> fields) {
    QualifiedName name = CatalogRegistry.ofActiveSession().ours((List<String>) fields.get("table")).orElseThrow();
    List<String> columns = (List<String>) fields.get("columns");
    boolean all = (Boolean) fields.get("all");
    Planner.askOrThrow(
        planner -> {
          planner.analyzeTable(name.reference(), columns, all);
          return null;
        });
  }
}
