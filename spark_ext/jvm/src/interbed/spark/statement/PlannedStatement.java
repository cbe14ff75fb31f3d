package interbed.spark.statement;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import interbed.spark.catalog.CachedTables;
import interbed.spark.catalog.CatalogRegistry;
import interbed.spark.catalog.CurrentNamespace;
import interbed.spark.catalog.QualifiedName;
import interbed.spark.planner.Planner;
import interbed.spark.procedure.ProcedureJson;
import interbed.spark.thrift.ProcedureCall;
import interbed.spark.value.Names;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;

/**
 * A statement that Spark does not parse, or not for catalogs, mostly about one table. An unlisted procedure of the planner carries it
 * out.
 */
final class PlannedStatement {
  static final String CATALOG = "catalog";
  static final String TABLE = "table";
  private static final ObjectMapper JSON = new ObjectMapper();

  private PlannedStatement() {}

  /** The procedure of a statement without a result. */
  static SystemProcedure silent(String procedure) {
    return showing(procedure, new StructType());
  }

  /** The procedure of a statement with a result of these columns. */
  static SystemProcedure showing(String procedure, StructType columns) {
    return new SystemProcedure(procedure, columns, fields -> call(procedure, columns, fields));
  }

  /** Parses the statement's table; false when it is no name, or when its catalog is not ours. */
  static boolean takeTable(SqlScanner scanner, Map<String, String> fields) {
    List<String> parts = takeName(scanner);
    if (parts.isEmpty() || parts.size() > 3) {
      return false;
    }
    String catalog = parts.size() == 3 ? parts.remove(0) : SparkSession.active().catalog().currentCatalog();
    fields.put(CATALOG, catalog);
    fields.put(TABLE, String.join(".", Names.quoted(parts)));
    return CatalogRegistry.ofActiveSession().isOurs(catalog);
  }

  /** Parses the parts of a name; none when there is no name here. */
  static List<String> takeName(SqlScanner scanner) {
    List<String> parts = new ArrayList<>();
    try {
      do {
        parts.add(scanner.identifier("a table's name"));
      } while (scanner.take('.'));
    } catch (IllegalArgumentException noName) {
      return new ArrayList<>();
    }
    return parts;
  }

  /** Sets the table by a name that Spark has parsed. */
  static void putTable(QualifiedName table, Map<String, String> fields) {
    fields.put(CATALOG, table.catalog().name());
    fields.put(TABLE, String.join(".", Names.quoted(List.of(table.database(), table.name()))));
  }

  /** Calls the planner's procedure of the statement. */
  static List<InternalRow> call(String procedure, StructType columns, Map<String, Object> fields) {
    String catalog = (String) fields.get(CATALOG);
    ObjectNode arguments = JSON.createObjectNode();
    fields.forEach((name, value) -> arguments.put(name, (String) value));
    arguments.remove(CATALOG);
    ProcedureCall call =
        new ProcedureCall(
            CatalogRegistry.ofActiveSession().reference(catalog),
            procedure,
            CurrentNamespace.in(catalog),
            arguments.toString());
    List<String> rows = Planner.askOrThrow(planner -> planner.callProcedure(call)).getRows();
    if (fields.get(TABLE) != null) {
      CachedTables.refresh(catalog, (String) fields.get(TABLE));
    }
    return columns.isEmpty() ? List.of() : List.of(ProcedureJson.rows(columns, rows));
  }
}
