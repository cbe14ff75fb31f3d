package interbed.spark.catalog;

import interbed.spark.planner.Planner;
import interbed.spark.planner.PlannerCatalog;
import interbed.spark.planner.PlannerException;
import interbed.spark.table.StagedSparkTable;
import interbed.spark.thrift.ErrorKind;
import interbed.spark.thrift.TableInfo;
import interbed.spark.thrift.TableRef;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.expressions.Transform;

/** The part of a catalog that creates and replaces tables together with their rows. */
public interface StagedTables extends PlannerCatalog, StagingTableCatalog {
  @Override
  default StagedTable stageCreate(
      Identifier identifier, Column[] columns, Transform[] partitioning, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    try {
      return staged(identifier, columns, partitioning, properties, false, true);
    } catch (NoSuchTableException error) {
      throw new IllegalStateException(error);
    }
  }

  @Override
  default StagedTable stageReplace(
      Identifier identifier, Column[] columns, Transform[] partitioning, Map<String, String> properties)
      throws NoSuchNamespaceException, NoSuchTableException {
    try {
      return staged(identifier, columns, partitioning, properties, true, false);
    } catch (TableAlreadyExistsException error) {
      throw new IllegalStateException(error);
    }
  }

  @Override
  default StagedTable stageCreateOrReplace(
      Identifier identifier, Column[] columns, Transform[] partitioning, Map<String, String> properties)
      throws NoSuchNamespaceException {
    try {
      return staged(identifier, columns, partitioning, properties, true, true);
    } catch (TableAlreadyExistsException | NoSuchTableException error) {
      throw new IllegalStateException(error);
    }
  }

  private StagedTable staged(
      Identifier identifier,
      Column[] columns,
      Transform[] partitioning,
      Map<String, String> properties,
      boolean replace,
      boolean create)
      throws TableAlreadyExistsException, NoSuchNamespaceException, NoSuchTableException {
    if (identifier.namespace().length != 1) {
      throw new NoSuchNamespaceException(identifier.namespace());
    }
    TableRef table = new TableRef(reference(), identifier.namespace()[0], identifier.name());
    try {
      TableInfo info =
          Planner.ask(
              planner ->
                  planner.stageTable(
                      table, Translation.toThrift(columns, partitioning, properties), replace, create));
      return new StagedSparkTable(name() + "." + identifier, info);
    } catch (PlannerException error) {
      if (error.kind() == ErrorKind.TABLE_EXISTS) {
        throw new TableAlreadyExistsException(identifier);
      }
      if (error.kind() == ErrorKind.NO_SUCH_NAMESPACE) {
        throw new NoSuchNamespaceException(identifier.namespace());
      }
      if (error.kind() == ErrorKind.NO_SUCH_TABLE) {
        throw new NoSuchTableException(identifier);
      }
      throw error.translated();
    }
  }
}
