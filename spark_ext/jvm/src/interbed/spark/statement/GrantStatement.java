package interbed.spark.statement;

import interbed.spark.catalog.CatalogRegistry;
import interbed.spark.value.Names;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * GRANT, REVOKE, SHOW GRANTS, CREATE ROLE, DROP ROLE, SHOW ROLES, SHOW CURRENT ROLES and SHOW PRINCIPALS: Hive's statements,
 * which Spark refuses.
 *
 * <p>They become a {@link SystemCall} when their object, or the current catalog, is in one of our catalogs. The catalog's server
 * decides what the user may do.
 */
public record GrantStatement(String procedure, Map<String, String> fields) {
  private static final String CHANGE = "change_grants_statement";
  private static final String SHOW_ROLES = "show_roles_statement";
  private static final String SHOW_MEMBERS = "show_principals_statement";
  private static final String SHOW_GRANTS = "show_grants_statement";

  private static final String USAGE =
      "Write GRANT privilege [(column, …)], … ON [TABLE | DATABASE | FUNCTION] name TO [USER | GROUP | ROLE] name [WITH GRANT"
          + " OPTION],"
          + " REVOKE [GRANT OPTION FOR] privilege, … ON name FROM [USER | GROUP | ROLE] name [CASCADE], GRANT role TO"
          + " [USER | GROUP | ROLE] name [WITH ADMIN OPTION], REVOKE [ADMIN OPTION FOR] role FROM name, SHOW GRANTS [ON name]"
          + " [TO name], CREATE ROLE name, DROP ROLE name, SHOW [CURRENT] ROLES or SHOW PRINCIPALS role; those without ON may"
          + " end with IN catalog.";

  /** The procedures of the statements. */
  static final List<SystemProcedure> PROCEDURES =
      List.of(
          PlannedStatement.silent(CHANGE),
          PlannedStatement.showing(SHOW_ROLES, new StructType().add("role", DataTypes.StringType, false)),
          PlannedStatement.showing(
              SHOW_MEMBERS,
              new StructType()
                  .add("principal_type", DataTypes.StringType, false)
                  .add("principal", DataTypes.StringType, false)
                  .add("admin_option", DataTypes.BooleanType, false)
                  .add("grantor", DataTypes.StringType, true)),
          PlannedStatement.showing(
              SHOW_GRANTS,
              new StructType()
                  .add("privilege", DataTypes.StringType, false)
                  .add("object_type", DataTypes.StringType, false)
                  .add("object", DataTypes.StringType, true)
                  .add("principal_type", DataTypes.StringType, false)
                  .add("principal", DataTypes.StringType, false)
                  .add("grant_option", DataTypes.BooleanType, false)
                  .add("grantor", DataTypes.StringType, true)));

  /** The statement, or empty when the text is some other statement. Throws IllegalArgumentException. */
  public static Optional<GrantStatement> parse(String sql) {
    Map<String, String> fields = new LinkedHashMap<>();
    try {
      return parse(sql, fields);
    } catch (IllegalArgumentException error) {
      // Extensions of other catalogs have statements with the same words.
      if (isOurs(fields.getOrDefault(PlannedStatement.CATALOG, currentCatalog()))) {
        throw error;
      }
      return Optional.empty();
    }
  }

  private static Optional<GrantStatement> parse(String sql, Map<String, String> fields) {
    SqlScanner scanner = new SqlScanner(sql, USAGE);
    String procedure = CHANGE;
    if (scanner.takeWords("CREATE", "ROLE") || scanner.takeWords("DROP", "ROLE")) {
      fields.put("action", new SqlScanner(sql).takeWords("CREATE") ? "create role" : "drop role");
      fields.put("role", scanner.identifier("the role's name"));
    } else if (scanner.takeWords("SHOW", "CURRENT", "ROLES")) {
      procedure = SHOW_ROLES;
      fields.put("current", "true");
    } else if (scanner.takeWords("SHOW", "ROLES")) {
      procedure = SHOW_ROLES;
    } else if (scanner.takeWords("SHOW", "PRINCIPALS")) {
      procedure = SHOW_MEMBERS;
      fields.put("role", scanner.identifier("the role's name"));
    } else if (scanner.takeWords("SHOW", "GRANTS") || scanner.takeWords("SHOW", "GRANT")) {
      procedure = SHOW_GRANTS;
      if (scanner.takeWords("ON")) {
        takeObject(scanner, fields);
      }
      if (scanner.takeWords("TO")) {
        takeGrantee(scanner, fields);
      }
    } else if (scanner.takeWords("GRANT")) {
      change(scanner, fields, "grant");
    } else if (scanner.takeWords("REVOKE")) {
      change(scanner, fields, "revoke");
    } else {
      return Optional.empty();
    }
    if (!fields.containsKey(PlannedStatement.CATALOG)) {
      String catalog = scanner.takeWords("IN") ? scanner.identifier("the catalog's name") : currentCatalog();
      fields.put(PlannedStatement.CATALOG, catalog);
    }
    if (!isOurs(fields.get(PlannedStatement.CATALOG))) {
      return Optional.empty();
    }
    scanner.expectEnd();
    return Optional.of(new GrantStatement(procedure, fields));
  }

  /** Parses what follows GRANT or REVOKE: privileges on an object, or roles. */
  private static void change(SqlScanner scanner, Map<String, String> fields, String action) {
    boolean revoking = action.equals("revoke");
    boolean option =
        revoking && (scanner.takeWords("GRANT", "OPTION", "FOR") || scanner.takeWords("ADMIN", "OPTION", "FOR"));
    scanner.takeWords("ROLE");
    List<String> names = new ArrayList<>();
    List<List<String>> columns = new ArrayList<>();
    do {
      names.add(scanner.identifier("a privilege or a role"));
      scanner.takeWords("PRIVILEGES");
      columns.add(takeColumns(scanner));
    } while (scanner.take(','));
    boolean onObject = scanner.takeWords("ON");
    if (onObject) {
      takeObject(scanner, fields);
    }
    putColumns(scanner, fields, columns, onObject);
    fields.put("action", onObject ? action : action + " role");
    fields.put("names", String.join(",", names));
    scanner.expectWord(revoking ? "FROM" : "TO");
    takeGrantee(scanner, fields);
    if (!revoking) {
      option = scanner.takeWords("WITH", onObject ? "GRANT" : "ADMIN", "OPTION");
    } else if (scanner.takeWords("CASCADE")) {
      fields.put("cascade", "true");
    }
    fields.put("option", Boolean.toString(option));
  }

  /** Parses the columns of a privilege, (column, …); none when there are no parentheses. */
  private static List<String> takeColumns(SqlScanner scanner) {
    List<String> found = new ArrayList<>();
    if (scanner.take('(')) {
      do {
        found.add(scanner.identifier("the name of a column"));
      } while (scanner.take(','));
      scanner.expect(')');
    }
    return found;
  }

  /** Puts the columns of the privileges, which are the same for all of them: a statement has one list. */
  private static void putColumns(
      SqlScanner scanner, Map<String, String> fields, List<List<String>> columns, boolean onObject) {
    List<String> first = columns.get(0);
    if (columns.stream().anyMatch(each -> !each.equals(first))) {
      throw scanner.error("the same columns for each privilege, or a statement for each");
    }
    if (first.isEmpty()) {
      return;
    }
    if (!onObject || !fields.get("kind").equals("table")) {
      throw scanner.error("a table or a view, which has columns");
    }
    fields.put("columns", String.join(".", Names.quoted(first)));
  }

  /** Parses an object and its catalog: TABLE name, DATABASE name, CATALOG [name], SERVER, or the name of a table. */
  private static void takeObject(SqlScanner scanner, Map<String, String> fields) {
    String kind = "table";
    for (String word : List.of("TABLE", "VIEW", "FUNCTION", "DATABASE", "SCHEMA", "NAMESPACE", "CATALOG", "SERVER")) {
      if (scanner.takeWords(word)) {
        kind = word.toLowerCase(Locale.ROOT);
        break;
      }
    }
    boolean ofDatabase = List.of("database", "schema", "namespace").contains(kind);
    fields.put("kind", ofDatabase ? "database" : kind.equals("view") ? "table" : kind);
    if (kind.equals("server")) {
      return;
    }
    int most = kind.equals("catalog") ? 1 : ofDatabase ? 2 : 3;
    List<String> parts = PlannedStatement.takeName(scanner);
    if (parts.isEmpty() || parts.size() > most) {
      throw scanner.error("the name of a " + fields.get("kind"));
    }
    fields.put(PlannedStatement.CATALOG, parts.size() == most ? parts.remove(0) : currentCatalog());
    if (!parts.isEmpty()) {
      fields.put("on", String.join(".", Names.quoted(parts)));
    }
  }

  /** Parses [USER | GROUP | ROLE] name; a name alone is a user's. */
  private static void takeGrantee(SqlScanner scanner, Map<String, String> fields) {
    String kind = "user";
    for (String word : List.of("USER", "GROUP", "ROLE")) {
      if (scanner.takeWords(word)) {
        kind = word.toLowerCase(Locale.ROOT);
        break;
      }
    }
    fields.put("grantee_kind", kind);
    fields.put("grantee", scanner.identifier("the name of a user, a group or a role"));
  }

  private static boolean isOurs(String catalog) {
    return CatalogRegistry.ofActiveSession().isOurs(catalog);
  }

  private static String currentCatalog() {
    return SparkSession.active().catalog().currentCatalog();
  }

  public String toCall() {
    return SystemCall.of(procedure, fields);
  }
}
