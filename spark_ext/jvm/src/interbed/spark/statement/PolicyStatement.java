package interbed.spark.statement;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * ALTER TABLE … SET and UNSET ROW FILTER, ALTER TABLE … ALTER COLUMN … SET and UNSET MASK, and SHOW POLICIES, which Spark does not
 * parse.
 *
 * <p>They become a {@link SystemCall} when their table is in one of our catalogs. The catalog's server decides what the user may
 * do, and what a condition or an expression may be.
 */
public record PolicyStatement(String procedure, Map<String, String> fields) {
  private static final String CHANGE = "change_policies_statement";
  private static final String SHOW = "show_policies_statement";
  private static final ObjectMapper JSON = new ObjectMapper();

  private static final String USAGE =
      "Write ALTER TABLE name SET ROW FILTER [policy] (condition) [TO [USER | GROUP | ROLE] name, …] [EXCEPT name, …], ALTER"
          + " TABLE name UNSET ROW FILTER [policy], ALTER TABLE name ALTER COLUMN column SET MASK [policy] (expression) [TO …]"
          + " [EXCEPT …], ALTER TABLE name ALTER COLUMN column UNSET MASK [policy] or SHOW POLICIES ON name.";

  /** The procedures of the statements. */
  static final List<SystemProcedure> PROCEDURES =
      List.of(
          PlannedStatement.silent(CHANGE),
          PlannedStatement.showing(
              SHOW,
              new StructType()
                  .add("policy", DataTypes.StringType, false)
                  .add("kind", DataTypes.StringType, false)
                  .add("column", DataTypes.StringType, true)
                  .add("expression", DataTypes.StringType, false)
                  .add("bound", DataTypes.StringType, false)
                  .add("exempt", DataTypes.StringType, false)
                  .add("set_by", DataTypes.StringType, true)));

  /** The statement, or empty when the text is some other statement. Throws IllegalArgumentException. */
  public static Optional<PolicyStatement> parse(String sql) {
    SqlScanner scanner = new SqlScanner(sql, USAGE);
    boolean shows = scanner.takeWords("SHOW", "POLICIES", "ON");
    if (!shows && !scanner.takeWords("ALTER", "TABLE")) {
      return Optional.empty();
    }
    Map<String, String> fields = new LinkedHashMap<>();
    if (!PlannedStatement.takeTable(scanner, fields) || !(shows || takesChange(scanner, fields))) {
      return Optional.empty();
    }
    scanner.expectEnd();
    return Optional.of(new PolicyStatement(shows ? SHOW : CHANGE, fields));
  }

  /** Parses what follows the table; false when it is no change of a policy. */
  private static boolean takesChange(SqlScanner scanner, Map<String, String> fields) {
    if (scanner.takeWords("SET", "ROW", "FILTER")) {
      takePolicy(scanner, fields);
      return true;
    }
    if (scanner.takeWords("UNSET", "ROW", "FILTER") || scanner.takeWords("DROP", "ROW", "FILTER")) {
      takeName(scanner, fields);
      return true;
    }
    if (!scanner.takeWords("ALTER") || !(scanner.takeWords("COLUMN") | scanner.isBeforeName())) {
      return false;
    }
    fields.put("column", scanner.identifier("the column's name"));
    if (scanner.takeWords("SET", "MASK")) {
      takePolicy(scanner, fields);
      return true;
    }
    if (scanner.takeWords("UNSET", "MASK") || scanner.takeWords("DROP", "MASK")) {
      takeName(scanner, fields);
      return true;
    }
    return false;
  }

  private static void takeName(SqlScanner scanner, Map<String, String> fields) {
    if (scanner.isBeforeName()) {
      fields.put("policy", scanner.identifier("the policy's name"));
    }
  }

  private static void takePolicy(SqlScanner scanner, Map<String, String> fields) {
    takeName(scanner, fields);
    fields.put("expression", scanner.parenthesized());
    if (scanner.takeWords("TO")) {
      fields.put("bound", takeGrantees(scanner));
    }
    if (scanner.takeWords("EXCEPT")) {
      fields.put("exempt", takeGrantees(scanner));
    }
  }

  /** Parses [USER | GROUP | ROLE] name, …; a name alone is a user's. */
  private static String takeGrantees(SqlScanner scanner) {
    ArrayNode grantees = JSON.createArrayNode();
    do {
      String kind = "user";
      for (String word : List.of("USER", "GROUP", "ROLE")) {
        if (scanner.takeWords(word)) {
          kind = word.toLowerCase(Locale.ROOT);
          break;
        }
      }
      grantees.add(kind + " " + scanner.identifier("the name of a user, a group or a role"));
    } while (scanner.take(','));
    return grantees.toString();
  }

  public String toCall() {
    return SystemCall.of(procedure, fields);
  }
}
