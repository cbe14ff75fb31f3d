package interbed.spark.catalog;

import interbed.spark.planner.PlannerCatalog;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableCatalog;

/** A catalog of interbed among the session's catalogs: one of its own name, or spark_catalog. */
public interface InterbedCatalog extends PlannerCatalog, TableCatalog {
  /** Whether it has also tables and views that are not interbed's, as spark_catalog. */
  default boolean hasForeignTables() {
    return false;
  }

  /**
   * Prepares the creation of a table of interbed's under this name.
   *
   * @return false when a table that is not interbed's has the name
   */
  default boolean prepareFor(Identifier identifier) throws NoSuchNamespaceException {
    return true;
  }
}
