package interbed.spark.catalog;

import java.util.regex.Pattern;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;

/**
 * Which settings and options Spark hides in its pages, its event log and what SET and DESCRIBE say. Its own pattern does not
 * know what stores call their keys.
 */
public final class Redaction {
  /** As interbed.spark_ext.session has it. */
  public static final String SECRETS =
      "(?i)secret|password|token|access.?key|account.?key|private.?key|encryption.?key|api.?key|[.]sas[.]";

  private static final String SETTING = "spark.redaction.regex";
  private static final Pattern PATTERN = Pattern.compile(SECRETS);

  private Redaction() {}

  /** Whether an option by this name is secret. */
  static boolean isSecret(String key) {
    return PATTERN.matcher(key).find();
  }

  /** Adds to the pattern of the application, for those whose settings are not interbed's own. */
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
