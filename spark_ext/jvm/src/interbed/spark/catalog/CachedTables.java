package interbed.spark.catalog;

import interbed.spark.value.Names;
import org.apache.spark.sql.classic.SparkSession;

/** Data that Spark caches for CACHE TABLE and Dataset.cache, after changes of a table that are no writes of Spark. */
public final class CachedTables {
  private CachedTables() {}

  /** Refreshes Spark's cached data of a table, named as in a CALL of this catalog's procedures; nothing if it has none. */
  public static void refresh(String catalog, String table) {
    SparkSession session = (SparkSession) org.apache.spark.sql.SparkSession.active();
    if (session.sharedState().cacheManager().isEmpty()) {
      return;
    }
    QualifiedName.of(catalog, table)
        .map(name -> String.join(".", Names.quoted(name.parts())))
        .filter(session.catalog()::tableExists)
        .ifPresent(session.catalog()::refreshTable);
  }
}
