package interbed.spark.catalog;

import java.util.Set;

/**
 * The classes that users name in settings, by the names that stand there. They are at the top of the extension, so that nothing
 * below them can name their classes themselves; no release may rename them.
 */
public final class ConfiguredNames {
  /** Of the setting spark.sql.extensions. */
  public static final String EXTENSIONS = "interbed.spark.SparkExtensions";

  /** Of a setting spark.sql.catalog.NAME. */
  static final String CATALOG = "interbed.spark.SparkCatalog";

  /** Of the setting spark.sql.catalog.spark_catalog. */
  static final String SESSION_CATALOG = "interbed.spark.SparkSessionCatalog";

  static final Set<String> CATALOGS = Set.of(CATALOG, SESSION_CATALOG);

  private ConfiguredNames() {}
}
