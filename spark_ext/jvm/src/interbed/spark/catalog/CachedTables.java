package interbed.spark.catalog;

import interbed.spark.value.Names;
import java.util.List;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;

/** Data that Spark caches for CACHE TABLE and Dataset.cache, after changes of a table that are no writes of Spark. */
public final class CachedTables {
  private CachedTables() {}

  /** Refreshes Spark's cached data of a table, named as in a CALL of this catalog's procedures; nothing if it has none. */
  public static void refresh(String catalog, String table) {
    if (!session().sharedState().cacheManager().isEmpty()) {
      QualifiedName.of(catalog, table).ifPresent(name -> refresh(name.parts()));
    }
  }

  /** Refreshes Spark's cached data of a table whose columns or options have changed, which Spark itself does not do. */
  public static void refresh(String catalog, Identifier table) {
    if (!session().sharedState().cacheManager().isEmpty()) {
      refresh(List.of(catalog, String.join(".", table.namespace()), table.name()));
    }
  }

  private static void refresh(List<String> parts) {
    String name = String.join(".", Names.quoted(parts));
    if (session().catalog().tableExists(name)) {
      session().catalog().refreshTable(name);
    }
  }

  private static SparkSession session() {
    return (SparkSession) org.apache.spark.sql.SparkSession.active();
  }
}
