package interbed.spark.catalog;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The options of the catalog as spark_catalog: by default it has Spark's own warehouse and metastore. */
public final class SessionCatalogOptions {
  private SessionCatalogOptions() {}

  /** The options, with Spark's own values for missing ones. */
  public static Map<String, String> asSparkHasThem(CaseInsensitiveStringMap options) {
    Map<String, String> filled = new HashMap<>(options.asCaseSensitiveMap());
    SparkSession session = (SparkSession) org.apache.spark.sql.SparkSession.active();
    String uris = session.sessionState().newHadoopConf().get("hive.metastore.uris");
    boolean hive = "hive".equals(SQLConf.get().getConfString("spark.sql.catalogImplementation", "in-memory"));
    if (hive && uris != null && !uris.isEmpty()) {
      filled.putIfAbsent("metastore", "hive");
      String uri = filled.putIfAbsent("uri", uris);
      if (uri != null && filled.get("metastore").equals("hive") && !uri.equals(uris)) {
        throw new IllegalArgumentException(
            "spark_catalog would have two metastores: hive.metastore.uris is " + uris + ", its option 'uri' is " + uri);
      }
    }
    filled.putIfAbsent("warehouse", SQLConf.get().warehousePath());
    return filled;
  }
}
