package interbed.spark.catalog;

import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.internal.SQLConf;
import scala.jdk.javaapi.CollectionConverters;

/** The session's settings that may be options of tables: SET spark.interbed.KEY, and Paimon's prefix. */
public final class SessionSettings {
  private static final String OURS = "spark.interbed.";
  private static final String PAIMONS = "spark.paimon.";

  private SessionSettings() {}

  public static Map<String, String> current() {
    Map<String, String> settings = new TreeMap<>();
    CollectionConverters.asJava(SQLConf.get().getAllConfs())
        .forEach(
            (key, value) -> {
              if (key.startsWith(OURS) || key.startsWith(PAIMONS)) {
                settings.put(key, value);
              }
            });
    return settings;
  }
}
