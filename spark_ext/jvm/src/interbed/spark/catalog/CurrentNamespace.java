package interbed.spark.catalog;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalog.Catalog;

/** Where a name without its database is looked for. */
public final class CurrentNamespace {
  private static final String DEFAULT = "default";

  private CurrentNamespace() {}

  /** The session's namespace while the catalog is its current one, else the default one of our catalogs. */
  public static String in(String catalog) {
    Catalog session = SparkSession.active().catalog();
    return session.currentCatalog().equalsIgnoreCase(catalog) ? session.currentDatabase() : DEFAULT;
  }
}
