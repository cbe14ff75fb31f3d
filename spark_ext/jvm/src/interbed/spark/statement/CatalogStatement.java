package interbed.spark.statement;

import interbed.spark.catalog.CatalogRegistry;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * CREATE CATALOG [IF NOT EXISTS] name WITH ('key' = 'value', …) and DROP CATALOG [IF EXISTS] name.
 *
 * <p>Spark does not parse them: they become a {@link SystemCall} before it sees them. USE CATALOG name becomes its own
 * SET CATALOG.
 */
public record CatalogStatement(Action action, String catalog, Map<String, String> options, boolean lenient) {
  /** The procedures of the statements. */
  static final List<SystemProcedure> PROCEDURES =
      List.of(
          SystemProcedure.silent(procedureName(Action.CREATE), CatalogStatement::create),
          SystemProcedure.silent(procedureName(Action.DROP), CatalogStatement::drop));

  enum Action {
    CREATE,
    DROP
  }

  /** The statement, or empty when the text is some other statement. Throws IllegalArgumentException. */
  public static Optional<CatalogStatement> parse(String sql) {
    SqlScanner scanner = new SqlScanner(sql);
    boolean create = scanner.takeWords("CREATE", "CATALOG");
    if (!create && !scanner.takeWords("DROP", "CATALOG")) {
      return Optional.empty();
    }
    boolean lenient = create ? scanner.takeWords("IF", "NOT", "EXISTS") : scanner.takeWords("IF", "EXISTS");
    String catalog = scanner.identifier("the catalog's name");
    Map<String, String> options = new LinkedHashMap<>();
    if (create) {
      scanner.expectWord("WITH");
      scanner.expect('(');
      do {
        String key = scanner.optionKey();
        scanner.expect('=');
        if (options.put(key, scanner.optionValue()) != null) {
          throw scanner.error("the option '" + key + "' once, not twice");
        }
      } while (scanner.take(','));
      scanner.expect(')');
    }
    scanner.expectEnd();
    return Optional.of(new CatalogStatement(create ? Action.CREATE : Action.DROP, catalog, options, lenient));
  }

  /** Spark's statement for USE CATALOG name, which is Flink's; empty for other statements, such as USE catalog. */
  public static Optional<String> use(String sql) {
    SqlScanner scanner = new SqlScanner(sql);
    if (!scanner.takeWords("USE", "CATALOG") || !scanner.isBeforeName()) {
      return Optional.empty();
    }
    String catalog = scanner.identifier("the catalog's name");
    scanner.expectEnd();
    return Optional.of("SET CATALOG `" + catalog.replace("`", "``") + "`");
  }

  public String toCall() {
    return SystemCall.of(
        procedureName(action),
        Map.of("catalog", catalog, "options", options, "lenient", Boolean.toString(lenient)));
  }

  private static String procedureName(Action action) {
    return action == Action.CREATE ? "create_catalog" : "drop_catalog";
  }

  private static void create(Map<String, Object> fields) {
    Map<String, String> options = new LinkedHashMap<>();
    ((Map<?, ?>) fields.get("options")).forEach((key, value) -> options.put((String) key, (String) value));
    CatalogRegistry.ofActiveSession().create((String) fields.get("catalog"), options, isLenient(fields));
  }

  private static void drop(Map<String, Object> fields) {
    CatalogRegistry.ofActiveSession().drop((String) fields.get("catalog"), isLenient(fields));
  }

  private static boolean isLenient(Map<String, Object> fields) {
    return Boolean.parseBoolean((String) fields.get("lenient"));
  }
}
