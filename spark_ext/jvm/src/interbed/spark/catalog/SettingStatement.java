package interbed.spark.catalog;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * SET and RESET of an option of tables, in the syntax of Paimon's pages: SET spark.paimon.*.db.t.scan.snapshot-id=1.
 *
 * <p>Spark accepts hyphens and stars only in a key in backquotes, which are added here.
 */
public final class SettingStatement {
  private static final Pattern OF_OPTION =
      Pattern.compile(
          "\\s*(SET|RESET)\\s+(spark\\.(?:interbed|paimon)\\.[^\\s=`;]*[-*][^\\s=`;]*)(\\s*(?:=.*)?)",
          Pattern.CASE_INSENSITIVE | Pattern.DOTALL);

  private SettingStatement() {}

  /** The statement with its key in backquotes; other statements unchanged. */
  public static String quoted(String sql) {
    Matcher found = OF_OPTION.matcher(sql);
    return found.matches() ? found.group(1) + " `" + found.group(2) + "`" + found.group(3) : sql;
  }
}
