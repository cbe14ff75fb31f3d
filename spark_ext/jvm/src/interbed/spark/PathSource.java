package interbed.spark;

import interbed.spark.thrift.TableInfo;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Tables by their paths: format("interbed").load("/lake/db.db/t"), for reads, writes and streams of both kinds. */
public class PathSource implements TableProvider, DataSourceRegister {
  @Override
  public String shortName() {
    return "interbed";
  }

  /** None, since the table has its schema, and looking it up twice might find two. */
  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return null;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    String path = new CaseInsensitiveStringMap(properties).get("path");
    if (path == null || path.isBlank()) {
      throw new IllegalArgumentException(
          "The format " + shortName() + " needs the path of a table: load(path), save(path) or option(\"path\", …)."
              + " A table of a catalog is named by table(name) and toTable(name).");
    }
    TableInfo info = Planner.askOrThrow(planner -> planner.loadPath(path, new HashMap<>(properties)));
    return new SparkTable(shortName() + ".`" + path + "`", info);
  }

  /** The same under Paimon's name. */
  public static final class Paimon extends PathSource {
    @Override
    public String shortName() {
      return "paimon";
    }
  }
}
