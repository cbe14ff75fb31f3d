package interbed.spark.catalog;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalog.Catalog;

/** The namespace of names without a database. */
public final class CurrentNamespace {
  private static final String DEFAULT = "default";

  private CurrentNamespace() {}

  /** The session's namespace if the catalog is its current one, otherwise the default one of our catalogs. */
  public static String in(String catalog) {
    Catalog session = SparkSession.active().catalog();
    return session.currentCatalog().equalsIgnoreCase(catalog) ? session.currentDatabase() : DEFAULT;
  }
}
