package interbed.spark.rewrite;

import interbed.spark.planner.PlannerTable;
import interbed.spark.table.Capabilities;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableCatalog;

/**
 * Lets a MERGE change the schema of a table with write.merge-schema, as if it had WITH SCHEMA EVOLUTION. From 4.1 on, Spark then
 * adds new columns of the source by itself.
 */
final class EvolvingMerge {
  /** The index of that flag among a MERGE's constructor arguments. */
  private static final int WITH_SCHEMA_EVOLUTION = 6;

  private EvolvingMerge() {}

  static LogicalPlan of(LogicalPlan plan, TableCatalog catalog, Identifier target) {
    if (!(plan instanceof MergeIntoTable merge)
        || merge.withSchemaEvolution()
        || Capabilities.OF_TABLES.isEmpty()
        || !mergesSchema(catalog, target)) {
      return plan;
    }
    Object[] parts = new Object[merge.productArity()];
    for (int i = 0; i < parts.length; i++) {
      parts[i] = i == WITH_SCHEMA_EVOLUTION ? true : merge.productElement(i);
    }
    return merge.makeCopy(parts);
  }

  private static boolean mergesSchema(TableCatalog catalog, Identifier target) {
    try {
      return catalog.loadTable(target) instanceof PlannerTable table && table.info().isMergesSchema();
    } catch (NoSuchTableException missing) {
      // Spark reports the error itself.
      return false;
    }
  }
}
