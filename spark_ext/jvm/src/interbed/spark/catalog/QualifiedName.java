package interbed.spark.catalog;

import interbed.spark.planner.PlannerTable;
import interbed.spark.thrift.TableRef;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import scala.jdk.javaapi.CollectionConverters;

/** A table or view of a catalog of ours. */
public record QualifiedName(InterbedCatalog catalog, String database, String name) {
  /** Parses a table's name for one of our catalogs; empty when it is no name of a table there. */
  public static Optional<QualifiedName> of(String catalog, String text) {
    SparkSession session = (SparkSession) org.apache.spark.sql.SparkSession.active();
    List<String> parts;
    try {
      parts =
          new ArrayList<>(CollectionConverters.asJava(session.sessionState().sqlParser().parseMultipartIdentifier(text)));
    } catch (Exception noName) {
      // Spark's ParseException, which Scala does not declare.
      return Optional.empty();
    }
    if (parts.size() == 1) {
      parts.add(0, CurrentNamespace.in(catalog));
    }
    if (parts.size() == 2) {
      parts.add(0, catalog);
    }
    return CatalogRegistry.ofActiveSession().ours(parts);
  }

  public TableRef reference() {
    return new TableRef(catalog.reference(), database, name);
  }

  public Identifier identifier() {
    return Identifier.of(new String[] {database}, name);
  }

  /** Whether it may be a table of interbed's: spark_catalog has other tables, too. */
  public boolean isTableOfOurs() {
    try {
      return !catalog.hasForeignTables() || catalog.loadTable(identifier()) instanceof PlannerTable;
    } catch (NoSuchTableException error) {
      return false;
    }
  }

  public List<String> parts() {
    return List.of(catalog.name(), database, name);
  }

  @Override
  public String toString() {
    return String.join(".", parts());
  }
}
