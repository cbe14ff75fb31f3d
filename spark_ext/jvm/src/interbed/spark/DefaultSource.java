package interbed.spark;

import interbed.spark.thrift.CatalogRef;
import interbed.spark.thrift.TableRef;
import interbed.spark.thrift.TimeTravel;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * USING interbed, and DataFrames by a table's path: spark.read.format("interbed").load("/warehouse/db.db/table").
 *
 * <p>A path stands for the file-system catalog of the warehouse that it is in. Spark makes a table of the session's catalog
 * through {@link SparkSessionCatalog} only when it knows a source of the provider's name.
 */
public class DefaultSource implements TableProvider, DataSourceRegister {
  private static final List<String> NAMES = List.of("interbed", "paimon");
  private static final String DATABASE_SUFFIX = ".db";
  private static final String PATH = "path";

  /** Whether this is what USING says of interbed's tables. */
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
    String given = options.get(PATH);
    Path path = given == null ? null : new Path(given);
    Path database = path == null ? null : path.getParent();
    if (database == null || database.getParent() == null || !database.getName().endsWith(DATABASE_SUFFIX)) {
      throw new IllegalArgumentException(
          "The source interbed takes the path of a table, WAREHOUSE/DATABASE.db/TABLE, not " + given
              + "; tables elsewhere are read by their name in a catalog");
    }
    String name = database.getName();
    Map<String, String> ofCatalog = new HashMap<>(options.asCaseSensitiveMap());
    ofCatalog.keySet().removeIf(key -> !key.startsWith("fs.") && !key.startsWith("s3.") && !key.startsWith("hadoop."));
    ofCatalog.put("warehouse", database.getParent().toString());
    TableRef table =
        new TableRef(
                new CatalogRef(PATH, ofCatalog),
                name.substring(0, name.length() - DATABASE_SUFFIX.length()),
                path.getName())
            .setSettings(SessionSettings.current());
    return new SparkTable(given, Planner.askOrThrow(planner -> planner.loadTable(table, new TimeTravel())));
  }
}
