package interbed.spark.catalog;

import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Secret options of catalogs of CREATE CATALOG. The event log has a session's settings with each of its jobs, and masks only the
 * settings with which the application was started. So the session's settings have a name in place of these options.
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
    open.keySet().removeIf(Redaction::isSecret);
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
      whole.putAll(secret);
    }
    return whole;
  }

  static void forget(String name) {
    if (name != null) {
      HELD.remove(name);
    }
  }
}
