package interbed.spark.statement;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import interbed.spark.catalog.CatalogRegistry;
import interbed.spark.catalog.QualifiedName;
import interbed.spark.planner.PlannerTable;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.PartitionSpec;
import org.apache.spark.sql.catalyst.analysis.UnresolvedPartitionSpec;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTable;
import org.apache.spark.sql.catalyst.plans.logical.DropPartitions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.Identifier;
import scala.jdk.javaapi.CollectionConverters;

/** ALTER TABLE … DROP PARTITION with only some of the partition columns, which Spark refuses for catalogs. */
public final class DropPartitionStatements implements StatementTranslation {
  private static final String PROCEDURE = "drop_partitions_statement";

  private static final ObjectMapper JSON = new ObjectMapper();

  static final List<SystemProcedure> PROCEDURES = List.of(PlannedStatement.silent(PROCEDURE));

  @Override
  public Optional<String> translate(String sql, LogicalPlan parsed) {
    if (!(parsed instanceof DropPartitions drop) || !(drop.table() instanceof UnresolvedTable named)) {
      return Optional.empty();
    }
    Optional<QualifiedName> table =
        CatalogRegistry.ofActiveSession().ours(CollectionConverters.asJava(named.multipartIdentifier()));
    if (table.isEmpty()) {
      return Optional.empty();
    }
    List<String> columns = partitionKeys(table.get());
    boolean complete = true;
    ArrayNode specs = JSON.createArrayNode();
    for (PartitionSpec part : CollectionConverters.asJava(drop.parts())) {
      if (!(part instanceof UnresolvedPartitionSpec spec)) {
        return Optional.empty();
      }
      ObjectNode node = specs.addObject();
      Map<String, String> values = CollectionConverters.asJava(spec.spec());
      values.forEach(node::put);
      complete = complete && values.size() >= columns.size();
    }
    // Spark carries out complete ones, and reports missing tables and tables without partitions.
    if (complete) {
      return Optional.empty();
    }
    Map<String, String> fields = new LinkedHashMap<>();
    PlannedStatement.putTable(table.get(), fields);
    fields.put("specs", specs.toString());
    fields.put("if_exists", Boolean.toString(drop.ifExists()));
    return Optional.of(SystemCall.of(PROCEDURE, fields));
  }

  private static List<String> partitionKeys(QualifiedName table) {
    try {
      return table.catalog().loadTable(Identifier.of(new String[] {table.database()}, table.name()))
              instanceof PlannerTable ours
          ? ours.info().getPartitionKeys()
          : List.of();
    } catch (NoSuchTableException error) {
      return List.of();
    }
  }
}
