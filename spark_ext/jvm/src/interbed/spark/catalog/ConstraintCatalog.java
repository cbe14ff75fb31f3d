package interbed.spark.catalog;

import interbed.spark.planner.PlannerCatalog;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.catalog.constraints.PrimaryKey;

/**
 * The part of {@code SparkCatalog} that Spark 4.1 and later call to create a table with constraints: PRIMARY KEY is the
 * property of that name, others are refused, since they would not be enforced.
 *
 * <p>Spark 4.0 has none of these classes and calls none of these methods.
 */
public interface ConstraintCatalog extends PlannerCatalog, StagingTableCatalog {
  String PRIMARY_KEY = "primary-key";

  @Override
  default Table createTable(Identifier identifier, TableInfo table)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return createTable(identifier, table.columns(), table.partitions(), propertiesOf(table));
  }

  @Override
  default StagedTable stageCreate(Identifier identifier, TableInfo table)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return stageCreate(identifier, table.columns(), table.partitions(), propertiesOf(table));
  }

  @Override
  default StagedTable stageReplace(Identifier identifier, TableInfo table)
      throws NoSuchNamespaceException, NoSuchTableException {
    return stageReplace(identifier, table.columns(), table.partitions(), propertiesOf(table));
  }

  @Override
  default StagedTable stageCreateOrReplace(Identifier identifier, TableInfo table) throws NoSuchNamespaceException {
    return stageCreateOrReplace(identifier, table.columns(), table.partitions(), propertiesOf(table));
  }

  /** The table's properties, its primary key among them. Throws IllegalArgumentException for other constraints. */
  static Map<String, String> propertiesOf(TableInfo table) {
    Map<String, String> properties = new HashMap<>(table.properties());
    for (Constraint constraint : table.constraints()) {
      if (!(constraint instanceof PrimaryKey key)) {
        throw new UnsupportedOperationException(
            "Tables of interbed have a PRIMARY KEY and NOT NULL columns; nothing would hold " + constraint.toDDL());
      }
      String columns =
          Arrays.stream(key.columns())
              .map(column -> String.join(".", column.fieldNames()))
              .collect(Collectors.joining(","));
      if (properties.putIfAbsent(PRIMARY_KEY, columns) != null) {
        throw new IllegalArgumentException(
            "The primary key is given twice, by " + constraint.toDDL() + " and by the property " + PRIMARY_KEY);
      }
    }
    return properties;
  }
}
