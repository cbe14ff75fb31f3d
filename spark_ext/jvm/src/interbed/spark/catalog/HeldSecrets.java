package interbed.spark.catalog;

import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.internal.SQLConf;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Options of catalogs that stay on the driver: secrets, and logins by Kerberos. Spark sends a session's settings to executors with
 * each task. The event log has them with each job, and masks only the settings with which the application was started. So the
 * session's settings have a name in place of these options. Of a catalog by settings, the options of the file system stay in
 * them.
 */
public final class HeldSecrets {
  /** The option of a catalog with that name. */
  static final String KEY = "interbed.held-options";

  private static final Map<String, Map<String, String>> HELD = new ConcurrentHashMap<>();

  private HeldSecrets() {}

  /** The options with a name for those that are secret. */
  static Map<String, String> withoutSecrets(Map<String, String> options) {
    Map<String, String> open = new HashMap<>(options);
    Map<String, String> secret = new HashMap<>(options);
    open.entrySet().removeIf(option -> Redaction.isOfDriver(option.getKey(), option.getValue()));
    secret.keySet().removeAll(open.keySet());
    if (!secret.isEmpty()) {
      String name = UUID.randomUUID().toString();
      HELD.put(name, secret);
      open.put(KEY, name);
    }
    return open;
  }

  /** The options as they were given. Streams have the catalog's settings in a copy of the session. */
  public static Map<String, String> withSecrets(Map<String, String> options) {
    Map<String, String> whole = new HashMap<>(options);
    String name = whole.remove(KEY);
    if (name != null) {
      Map<String, String> secret = HELD.get(name);
      if (secret == null) {
        throw new IllegalStateException("The catalog was dropped, and its secret options with it; create it again");
      }
      // A setting that was made later wins.
      secret.forEach(whole::putIfAbsent);
    }
    return whole;
  }

  /** Takes the secrets of all catalogs of ours by settings out of the settings of the session, before its first job. */
  public static void holdBack() {
    CollectionConverters.asJava(SQLConf.get().getAllConfs())
        .forEach(
            (key, value) -> {
              if (ConfiguredNames.CATALOGS.contains(value) && key.startsWith(CatalogRegistry.confKey(""))) {
                holdBack(key.substring(CatalogRegistry.confKey("").length()));
              }
            });
  }

  /** Takes the secrets of a catalog by settings out of the settings of its session, when the catalog is opened. */
  public static void holdBack(String catalog) {
    SQLConf conf = SQLConf.get();
    String prefix = CatalogRegistry.confKey(catalog) + ".";
    Map<String, String> secret = new HashMap<>();
    CollectionConverters.asJava(conf.getAllConfs())
        .forEach(
            (key, value) -> {
              String option = key.startsWith(prefix) ? key.substring(prefix.length()) : "";
              if (Redaction.isOfDriver(option, value) && !Redaction.isOfFileSystem(option)) {
                secret.put(option, value);
              }
            });
    if (secret.isEmpty()) {
      return;
    }
    Map<String, String> before = HELD.get(conf.getConfString(prefix + KEY, ""));
    if (before != null) {
      before.forEach(secret::putIfAbsent);
    }
    String name = UUID.randomUUID().toString();
    HELD.put(name, secret);
    conf.setConfString(prefix + KEY, name);
    secret.keySet().forEach(option -> conf.unsetConf(prefix + option));
  }

  static void forget(String name) {
    if (name != null) {
      HELD.remove(name);
    }
  }
}
