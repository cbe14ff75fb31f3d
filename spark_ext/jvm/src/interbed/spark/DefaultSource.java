package interbed.spark;

import interbed.spark.catalog.SessionSettings;
import interbed.spark.planner.Planner;
import interbed.spark.rewrite.SchemaMerging;
import interbed.spark.table.SparkTable;
import interbed.spark.thrift.TableInfo;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * USING interbed, and DataFrames by a table's path: spark.read.format("interbed").load("/warehouse/db.db/table").
 *
 * <p>A table that is named by its path has no catalog, and so no lock but that of its file system. Spark creates a table of
 * the session's catalog through {@link SparkSessionCatalog} only when it knows a source of the provider's name.
 */
public class DefaultSource implements TableProvider, DataSourceRegister {
  private static final List<String> NAMES = List.of("interbed", "paimon");
  private static final String PATH = "path";

  /** Whether USING with this provider means interbed's tables. */
  static boolean isNamed(String provider) {
    return provider != null && NAMES.stream().anyMatch(provider::equalsIgnoreCase);
  }

  @Override
  public String shortName() {
    return NAMES.get(0);
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return load(options).schema();
  }

  @Override
  public Transform[] inferPartitioning(CaseInsensitiveStringMap options) {
    return load(options).partitioning();
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return load(new CaseInsensitiveStringMap(properties));
  }

  private static Table load(CaseInsensitiveStringMap options) {
    String path = options.get(PATH);
    if (path == null || path.isBlank()) {
      throw new IllegalArgumentException(
          "The source interbed takes the path of a table, such as WAREHOUSE/DATABASE.db/TABLE; tables of a catalog are"
              + " named by table(name) and toTable(name)");
    }
    Map<String, String> given = new HashMap<>(options.asCaseSensitiveMap());
    TableInfo info = Planner.askOrThrow(planner -> planner.loadPath(path, given, SessionSettings.current()));
    return new SparkTable(path, info, SchemaMerging.isPossible(info));
  }
}
