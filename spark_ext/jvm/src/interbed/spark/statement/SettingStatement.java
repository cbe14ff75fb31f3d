package interbed.spark.statement;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * SET and RESET of an option of tables, written as Paimon's pages write it: SET spark.paimon.*.db.t.scan.snapshot-id=1.
 *
 * <p>Spark takes neither a hyphen nor a star in a key that is not in backquotes; so they are put around it.
 */
public final class SettingStatement {
  private static final Pattern OF_OPTION =
      Pattern.compile(
          "\\s*(SET|RESET)\\s+(spark\\.(?:interbed|paimon)\\.[^\\s=`;]*[-*][^\\s=`;]*)(\\s*(?:=.*)?)",
          Pattern.CASE_INSENSITIVE | Pattern.DOTALL);

  private SettingStatement() {}

  /** The statement with its key in backquotes, and any other one as it is. */
  public static String quoted(String sql) {
    Matcher found = OF_OPTION.matcher(sql);
    return found.matches() ? found.group(1) + " `" + found.group(2) + "`" + found.group(3) : sql;
  }
}
