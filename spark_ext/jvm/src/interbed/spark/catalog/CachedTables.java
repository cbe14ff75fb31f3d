package interbed.spark.catalog;

import interbed.spark.value.Names;
import org.apache.spark.sql.classic.SparkSession;

/** Data that Spark keeps for CACHE TABLE and Dataset.cache, where something else than a write of Spark's changed the table. */
public final class CachedTables {
  private CachedTables() {}

  /** Has Spark read anew what it keeps of a table, named as in a CALL of this catalog's procedures; nothing if it keeps none. */
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
