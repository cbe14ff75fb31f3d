package interbed.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.classic.SparkSession;
import scala.jdk.javaapi.CollectionConverters;

/** Data that Spark keeps for CACHE TABLE and Dataset.cache, where something else than a write of Spark's changed the table. */
final class CachedTables {
  private CachedTables() {}

  /** Has Spark read anew what it keeps of a table, named as in a CALL of this catalog's procedures; nothing if it keeps none. */
  static void refresh(String catalog, String table) {
    SparkSession session = (SparkSession) org.apache.spark.sql.SparkSession.active();
    if (session.sharedState().cacheManager().isEmpty()) {
      return;
    }
    List<String> parts;
    try {
      parts =
          new ArrayList<>(
              CollectionConverters.asJava(session.sessionState().sqlParser().parseMultipartIdentifier(table)));
    } catch (Exception noName) {
      // The procedure has its own way to read it, and has done its work.
      return;
    }
    if (parts.size() == 1) {
      parts.add(0, CurrentNamespace.in(catalog));
    }
    if (parts.size() == 2) {
      parts.add(0, catalog);
    }
    String name = String.join(".", Names.quoted(parts));
    if (session.catalog().tableExists(name)) {
      session.catalog().refreshTable(name);
    }
  }
}
