package interbed.spark.catalog;

import java.util.regex.Pattern;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;

/**
 * The settings and options that Spark masks in its pages, its event log and the results of SET and DESCRIBE. Spark's own pattern
 * lacks the names of object stores' credentials. Python has the list, interbed.storage.base.shown_text.
 */
public final class Redaction {
  /** The pattern of interbed.spark_ext.session, on one line, because a test compares the texts. */
  public static final String SECRETS =
      "(?i)password|passphrase|token|authorization|cookie|secret|credential|private.?key|encryption.?key|api.?key|account.?key|key[.]pem|oauthbearer[.]config|hms.?jwt|(?:(?<![\\w.-])|catalog[.][\\w-]{1,99}[.])header[.]|access.?key|(?<![a-z])sas(?![a-z])|(?-i:[a-z]S(?:as|AS)(?![a-z]))";

  private static final String NAME = "[\\w.-]{0,99}(?:" + SECRETS.substring("(?i)".length()) + ")[\\w.-]{0,99}";
  private static final String QUOTE = "\\\\*['\"]";

  /** Secret options with their values in the texts of statements and plans: also a pattern of interbed.spark_ext.session. */
  public static final String SECRET_TEXTS =
      "(?i)" + QUOTE + NAME + QUOTE + "\\s*(?:=>?|,|:|value:)?\\s*" + QUOTE + "[^'\"\\\\]*"
          + "|\\bspark[.]" + NAME + "\\s*=\\s*[^\\s'\";,)]+";

  private static final Pattern PATTERN = Pattern.compile(SECRETS);

  /** User and password before the host of an address. */
  private static final Pattern USER = Pattern.compile(":/{1,3}[^/@\\s]*:[^@\\s]*@");

  /** Options of the file system, which executors need: the prefixes of interbed.spark_ext.handle.table_handle. */
  private static final Pattern FILE_SYSTEM =
      Pattern.compile("^(?:fs[.]|s3[.]|google[.]|hadoop[.]|dfs[.]|hadoop-conf-dir|hive-conf-dir|store[.]|local-cache[.])");

  private Redaction() {}

  /** Whether an option of a catalog is secret: by its name, or by a password in its value. */
  static boolean isSecret(String key, String value) {
    return PATTERN.matcher(key).find() || (value != null && USER.matcher(value).find());
  }

  /** Whether an option of a catalog stays on the driver: a secret, or part of a login by Kerberos. */
  static boolean isOfDriver(String key, String value) {
    return isSecret(key, value) || key.startsWith(ApplicationLogin.PREFIX);
  }

  /** Whether an option of a catalog is one of its file system. */
  static boolean isOfFileSystem(String key) {
    return FILE_SYSTEM.matcher(key).find();
  }

  /** Extends the patterns of an application that was not started with interbed's settings. */
  public static void widen() {
    SparkEnv env = SparkEnv.get();
    if (env != null) {
      widen(env.conf(), "spark.redaction.regex", SECRETS);
      widen(env.conf(), "spark.redaction.string.regex", SECRET_TEXTS);
    }
  }

  private static void widen(SparkConf conf, String setting, String ours) {
    String pattern = conf.get(setting, "");
    if (!pattern.contains(ours)) {
      conf.set(setting, pattern.isEmpty() ? ours : pattern + "|" + ours);
    }
  }
}
