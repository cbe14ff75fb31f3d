package interbed.spark.function;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import interbed.spark.planner.Planner;
import interbed.spark.thrift.CatalogRef;
import interbed.spark.thrift.ProcedureCall;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** The functions that a catalog keeps, by unlisted procedures of the planner. */
public final class CatalogFunctions {
  private static final ObjectMapper JSON = new ObjectMapper();

  private CatalogFunctions() {}

  /** The names of the functions of a database. */
  public static List<String> list(CatalogRef catalog, String database) {
    return call(catalog, "list_functions_statement", Map.of("database", database)).stream()
        .map(row -> row.get(0).textValue())
        .toList();
  }

  /** A function of that name, if there is one. */
  public static Optional<PlannedFunction> load(CatalogRef catalog, String database, String function) {
    return call(catalog, "load_function_statement", Map.of("database", database, "function", function)).stream()
        .findFirst()
        .map(
            row ->
                new PlannedFunction(
                    catalog.getName() + "." + database + "." + function, parsed(row.get(0).textValue())));
  }

  /** Creates a function; the definition has its parameters, its result and its expression as JSON. */
  public static void create(CatalogRef catalog, String database, String function, String definition) {
    call(
        catalog,
        "create_function_statement",
        Map.of("database", database, "function", function, "definition", definition));
  }

  /** Drops a function. */
  public static void drop(CatalogRef catalog, String database, String function, boolean ifExists) {
    call(
        catalog,
        "drop_function_statement",
        Map.of("database", database, "function", function, "ifExists", Boolean.toString(ifExists)));
  }

  private static List<JsonNode> call(CatalogRef catalog, String procedure, Map<String, String> fields) {
    ObjectNode arguments = JSON.createObjectNode();
    fields.forEach(arguments::put);
    ProcedureCall call = new ProcedureCall(catalog, procedure, fields.get("database"), arguments.toString());
    List<JsonNode> rows = new ArrayList<>();
    for (String row : Planner.askOrThrow(planner -> planner.callProcedure(call)).getRows()) {
      rows.add(parsed(row));
    }
    return rows;
  }

  private static JsonNode parsed(String text) {
    try {
      return JSON.readTree(text);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException("The planner answered with a function that is no JSON: " + text, error);
    }
  }
}
