package interbed.spark.catalog;

import java.net.URI;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;

/**
 * The login by Kerberos of the application: spark.kerberos.principal and spark.kerberos.keytab. It is that of each catalog without
 * a keytab or a principal of its own. It stays on the driver: handles for executors leave it out.
 */
public final class ApplicationLogin {
  static final String PREFIX = "security.kerberos.login.";

  private static final String PRINCIPAL = PREFIX + "principal";
  private static final String KEYTAB = PREFIX + "keytab";

  private ApplicationLogin() {}

  /** The options of a catalog with the login of the application, if they have none. */
  public static Map<String, String> added(Map<String, String> options) {
    SparkConf conf = SparkEnv.get().conf();
    String principal = conf.get("spark.kerberos.principal", "");
    String keytab = conf.get("spark.kerberos.keytab", "");
    if (principal.isEmpty() || keytab.isEmpty() || options.containsKey(PRINCIPAL) || options.containsKey(KEYTAB)) {
      return options;
    }
    Map<String, String> whole = new HashMap<>(options);
    whole.put(PRINCIPAL, principal);
    whole.put(KEYTAB, path(keytab));
    return whole;
  }

  /** The path of a keytab, which Spark also takes as `local:/path` and `file:/path`. */
  private static String path(String keytab) {
    return keytab.startsWith("local:") || keytab.startsWith("file:") ? URI.create(keytab).getPath() : keytab;
  }
}
