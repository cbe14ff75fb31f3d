package interbed.spark.statement;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import interbed.spark.catalog.CatalogRegistry;
import interbed.spark.catalog.QualifiedName;
import interbed.spark.planner.Unchecked;
import interbed.spark.value.Names;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.types.StructType;

/**
 * CREATE TABLE [IF NOT EXISTS] name LIKE name [USING interbed] [TBLPROPERTIES ('key' = 'value', …)].
 *
 * <p>Spark only parses it for tables of its own catalog, whose names have no catalog before them. There the statement is ours
 * when the source table is one of ours.
 */
public record LikeStatement(Map<String, String> fields) {
  private static final String PROCEDURE = "create_table_like_statement";

  private static final String USAGE =
      "Write CREATE TABLE [IF NOT EXISTS] name LIKE name [USING interbed] [TBLPROPERTIES ('key' = 'value', …)].";

  private static final ObjectMapper JSON = new ObjectMapper();

  static final List<SystemProcedure> PROCEDURES =
      List.of(SystemProcedure.silent(PROCEDURE, LikeStatement::create));

  /** The statement, or empty when the text is some other statement. Throws IllegalArgumentException. */
  public static Optional<LikeStatement> parse(String sql) {
    SqlScanner scanner = new SqlScanner(sql, USAGE);
    if (!scanner.takeWords("CREATE", "TABLE")) {
      return Optional.empty();
    }
    Map<String, String> fields = new LinkedHashMap<>();
    fields.put("if_not_exists", Boolean.toString(scanner.takeWords("IF", "NOT", "EXISTS")));
    if (!PlannedStatement.takeTable(scanner, fields) || !scanner.takeWords("LIKE")) {
      return Optional.empty();
    }
    List<String> source = PlannedStatement.takeName(scanner);
    if (source.isEmpty()) {
      throw scanner.error("the name of a table");
    }
    if (!CatalogRegistry.ofActiveSession().ours(source).map(QualifiedName::isTableOfOurs).orElse(true)) {
      return Optional.empty();
    }
    fields.put("source", String.join(".", Names.quoted(source)));
    ObjectNode properties = JSON.createObjectNode();
    if (scanner.takeWords("USING")) {
      properties.put("provider", scanner.identifier("interbed"));
    }
    if (scanner.takeWords("TBLPROPERTIES")) {
      scanner.expect('(');
      do {
        String key = scanner.optionKey();
        scanner.expect('=');
        properties.put(key, scanner.optionValue());
      } while (scanner.take(','));
      scanner.expect(')');
    }
    scanner.expectEnd();
    fields.put("properties", properties.toString());
    return Optional.of(new LikeStatement(fields));
  }

  private static void create(Map<String, Object> fields) {
    String catalog = (String) fields.get(PlannedStatement.CATALOG);
    QualifiedName name = QualifiedName.of(catalog, (String) fields.get(PlannedStatement.TABLE)).orElseThrow();
    try {
      if (!name.catalog().prepareFor(name.identifier())) {
        if (Boolean.parseBoolean((String) fields.get("if_not_exists"))) {
          return;
        }
        throw new TableAlreadyExistsException(name.identifier());
      }
    } catch (NoSuchNamespaceException | TableAlreadyExistsException error) {
      throw Unchecked.rethrow(error);
    }
    PlannedStatement.call(PROCEDURE, new StructType(), fields);
  }

  public String toCall() {
    return SystemCall.of(PROCEDURE, fields);
  }
}
