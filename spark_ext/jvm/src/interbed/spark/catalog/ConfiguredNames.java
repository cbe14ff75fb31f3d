package interbed.spark.catalog;

import java.util.Set;

/**
 * Names of the classes in users' settings. These classes are at the top of the extension, so that lower packages can't refer to
 * them; no release may rename them.
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
