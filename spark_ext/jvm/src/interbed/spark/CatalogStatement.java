package interbed.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.internal.SQLConf;

/**
 * CREATE CATALOG [IF NOT EXISTS] name WITH ('key' = 'value', …) and DROP CATALOG [IF EXISTS] name.
 *
 * <p>A statement travels through Spark as CALL interbed_system.sys.create_catalog('…'), whose one argument is this record as
 * base64 of JSON: letters that no setting of the SQL parser reads differently.
 */
record CatalogStatement(Action action, String catalog, Map<String, String> options, boolean lenient) {
  /** The catalog whose procedures carry the statements out; it exists only while one runs. */
  static final String SYSTEM_CATALOG = "interbed_system";

  private static final ObjectMapper JSON = new ObjectMapper();

  enum Action {
    CREATE,
    DROP
  }

  /** The statement, or empty when the text is some other statement. Throws IllegalArgumentException. */
  static Optional<CatalogStatement> parse(String sql) {
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

  String toCall() {
    // Registered here, not by a setting of the user's, and removed again by the procedure.
    SQLConf.get().setConfString(CatalogRegistry.confKey(SYSTEM_CATALOG), SystemCatalog.class.getName());
    return "CALL " + SYSTEM_CATALOG + ".sys." + procedureName(action) + "('" + encoded() + "')";
  }

  static String procedureName(Action action) {
    return action == Action.CREATE ? "create_catalog" : "drop_catalog";
  }

  private String encoded() {
    try {
      byte[] json =
          JSON.writeValueAsBytes(Map.of("catalog", catalog, "options", options, "lenient", Boolean.toString(lenient)));
      return Base64.getEncoder().encodeToString(json);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }

  static CatalogStatement decode(Action action, String encoded) {
    try {
      Map<String, Object> fields =
          JSON.readValue(Base64.getDecoder().decode(encoded), new TypeReference<Map<String, Object>>() {});
      Map<String, String> options = JSON.convertValue(fields.get("options"), new TypeReference<>() {});
      return new CatalogStatement(
          action, (String) fields.get("catalog"), options, Boolean.parseBoolean((String) fields.get("lenient")));
    } catch (IOException error) {
      throw new IllegalArgumentException("Not an argument that " + procedureName(action) + " was given by its parser", error);
    }
  }
}
