package interbed.spark.catalog;

import java.util.regex.Pattern;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;

/**
 * The settings and options that Spark masks in its pages, its event log and the results of SET and DESCRIBE. Spark's own pattern
 * lacks the names of object stores' credentials.
 */
public final class Redaction {
  /** The pattern of interbed.spark_ext.session. */
  public static final String SECRETS =
      "(?i)secret|password|token|credential|access.?key|account.?key|private.?key|encryption.?key|api.?key|[.]sas[.]";

  private static final String SETTING = "spark.redaction.regex";
  private static final Pattern PATTERN = Pattern.compile(SECRETS);

  private Redaction() {}

  /** Whether an option by this name is secret. */
  static boolean isSecret(String key) {
    return PATTERN.matcher(key).find();
  }

  /** Extends the pattern of an application that was not started with interbed's settings. */
  public static void widen() {
    SparkEnv env = SparkEnv.get();
    if (env == null) {
      return;
    }
    SparkConf conf = env.conf();
    String pattern = conf.get(SETTING, "");
    if (!pattern.contains(SECRETS)) {
      conf.set(SETTING, pattern.isEmpty() ? SECRETS : pattern + "|" + SECRETS);
    }
  }
}
