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
 * How a translated statement travels through Spark: CALL interbed_system.sys.procedure('…').
 *
 * <p>The one argument is base64 of JSON: letters that no setting of the SQL parser reads differently.
 */
final class SystemCall {
  /** The catalog whose procedures carry statements out; it exists only while one runs. */
  static final String CATALOG = "interbed_system";

  private static final ObjectMapper JSON = new ObjectMapper();

  private SystemCall() {}

  /** The statement that runs one of {@link SystemCatalog}'s procedures with these fields. */
  static String of(String procedure, Map<String, ?> fields) {
    // Registered here, not by a setting of the user's, and removed again by the procedure.
    SQLConf.get().setConfString(CatalogRegistry.confKey(CATALOG), SystemCatalog.class.getName());
    try {
      String argument = Base64.getEncoder().encodeToString(JSON.writeValueAsBytes(fields));
      return "CALL " + CATALOG + ".sys." + procedure + "('" + argument + "')";
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }

  /** The fields again. Throws IllegalArgumentException. */
  static Map<String, Object> fields(String argument) {
    try {
      return JSON.readValue(Base64.getDecoder().decode(argument), new TypeReference<>() {});
    } catch (IOException error) {
      throw new IllegalArgumentException("Not an argument that a parser of interbed's has written", error);
    }
  }
}
