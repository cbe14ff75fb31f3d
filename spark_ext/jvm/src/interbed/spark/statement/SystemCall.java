package interbed.spark.statement;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import interbed.spark.catalog.CatalogRegistry;
import java.io.IOException;
import java.util.Base64;
import java.util.Map;
import org.apache.spark.sql.internal.SQLConf;

/**
 * Text of a translated statement: CALL interbed_system.sys.procedure('…').
 *
 * <p>The only argument is base64 of JSON, whose characters have the same meaning with all settings of the SQL parser.
 */
final class SystemCall {
  /** The catalog of the procedures of statements; it exists only while one runs. */
  static final String CATALOG = "interbed_system";

  private static final ObjectMapper JSON = new ObjectMapper();

  private SystemCall() {}

  /** The statement that runs one of {@link SystemCatalog}'s procedures with these fields. */
  static String of(String procedure, Map<String, ?> fields) {
    // Registered here and not by a setting of the user's, and removed by the procedure.
    SQLConf.get().setConfString(CatalogRegistry.confKey(CATALOG), SystemCatalog.class.getName());
    try {
      String argument = Base64.getEncoder().encodeToString(JSON.writeValueAsBytes(fields));
      return "CALL " + CATALOG + ".sys." + procedure + "('" + argument + "')";
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }

  /** Decodes the fields. Throws IllegalArgumentException. */
  static Map<String, Object> fields(String argument) {
    try {
      return JSON.readValue(Base64.getDecoder().decode(argument), new TypeReference<>() {});
    } catch (IOException error) {
      throw new IllegalArgumentException("Not an argument that a parser of interbed's has written", error);
    }
  }
}
