package interbed.spark;

import interbed.spark.catalog.SessionCatalogOptions;
import interbed.spark.planner.PlannerException;
import interbed.spark.planner.Unchecked;
import interbed.spark.procedure.CatalogProcedures;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.CatalogExtension;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * An interbed catalog as spark_catalog: its tables and those of Spark's own catalog are in the same namespaces.
 *
 * <p>The delegate, Spark's own catalog, has all other tables (Parquet, Hive), views and functions. It also has the namespaces;
 * interbed's catalog follows it, unless both use one metastore.
 */
public final class SparkSessionCatalog extends SparkCatalog implements CatalogExtension {
  private static final String SESSION_CATALOG = "spark_catalog";

  private CatalogPlugin delegate;

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    if (!SESSION_CATALOG.equals(name)) {
      throw new IllegalArgumentException(
          "interbed.spark.SparkSessionCatalog is for spark_catalog alone; for " + name + " use interbed.spark.SparkCatalog");
    }
    super.initialize(name, new CaseInsensitiveStringMap(SessionCatalogOptions.asSparkHasThem(options)));
  }

  @Override
  public void setDelegateCatalog(CatalogPlugin catalog) {
    delegate = catalog;
  }

  private TableCatalog tables() {
    return (TableCatalog) delegate;
  }

  private SupportsNamespaces namespaces() {
    return (SupportsNamespaces) delegate;
  }

  private FunctionCatalog functions() {
    return (FunctionCatalog) delegate;
  }

  // Namespaces: the delegate's first, since tables of either kind may be created in any of them.

  @Override
  public String[] defaultNamespace() {
    return delegate.defaultNamespace();
  }

  @Override
  public String[][] listNamespaces() {
    try {
      return namespaces().listNamespaces();
    } catch (NoSuchNamespaceException error) {
      throw Unchecked.rethrow(error);
    }
  }

  @Override
  public String[][] listNamespaces(String[] parent) throws NoSuchNamespaceException {
    return namespaces().listNamespaces(parent);
  }

  @Override
  public boolean namespaceExists(String[] namespace) {
    return namespaces().namespaceExists(namespace) || isOfSystemTables(namespace);
  }

  /** interbed's own namespace, unless the delegate has one of that name; its tables are found before the delegate's. */
  private boolean isOfSystemTables(String[] namespace) {
    return namespace.length == 1
        && CatalogProcedures.NAMESPACE.equals(namespace[0])
        && !namespaces().namespaceExists(namespace);
  }

  /** Whether interbed's catalog has the namespace, too. */
  private boolean isOurs(String[] namespace) {
    try {
      super.loadNamespaceMetadata(namespace);
      return true;
    } catch (NoSuchNamespaceException error) {
      return false;
    }
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    return isOfSystemTables(namespace)
        ? super.loadNamespaceMetadata(namespace)
        : namespaces().loadNamespaceMetadata(namespace);
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> metadata) throws NamespaceAlreadyExistsException {
    namespaces().createNamespace(namespace, metadata);
    if (!isOurs(namespace)) {
      super.createNamespace(namespace, metadata);
    }
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes) throws NoSuchNamespaceException {
    namespaces().alterNamespace(namespace, changes);
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade)
      throws NoSuchNamespaceException, NonEmptyNamespaceException {
    Identifier[] ours = isOurs(namespace) ? super.listTables(namespace) : new Identifier[0];
    if (ours.length > 0 && !cascade) {
      throw new NonEmptyNamespaceException(namespace);
    }
    for (Identifier table : ours) {
      super.dropTable(table);
    }
    boolean dropped = namespaces().dropNamespace(namespace, cascade);
    if (isOurs(namespace)) {
      super.dropNamespace(namespace, cascade);
    }
    return dropped;
  }

  // Tables: interbed's if it has one of that name, otherwise the delegate's.

  @Override
  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    if (isOfSystemTables(namespace)) {
      return super.listTables(namespace);
    }
    // A set, because both catalogs list every table of a shared metastore.
    Set<Identifier> found = new HashSet<>(Arrays.asList(tables().listTables(namespace)));
    if (isOurs(namespace)) {
      found.addAll(Arrays.asList(super.listTables(namespace)));
    }
    return found.stream().sorted(Comparator.comparing(Identifier::name)).toArray(Identifier[]::new);
  }

  @Override
  public Table loadTable(Identifier identifier) throws NoSuchTableException {
    return ownersTable(identifier, super::loadTable, tables()::loadTable);
  }

  @Override
  public Table loadTable(Identifier identifier, Set<TableWritePrivilege> privileges) throws NoSuchTableException {
    return ownersTable(
        identifier, table -> super.loadTable(table, privileges), table -> tables().loadTable(table, privileges));
  }

  @Override
  public Table loadTable(Identifier identifier, String version) throws NoSuchTableException {
    return ownersTable(
        identifier, table -> super.loadTable(table, version), table -> tables().loadTable(table, version));
  }

  @Override
  public Table loadTable(Identifier identifier, long timestampMicros) throws NoSuchTableException {
    return ownersTable(
        identifier,
        table -> super.loadTable(table, timestampMicros),
        table -> tables().loadTable(table, timestampMicros));
  }

  /** One of the ways to load a table. */
  @FunctionalInterface
  private interface Loading {
    Table load(Identifier identifier) throws NoSuchTableException;
  }

  private static Table ownersTable(Identifier identifier, Loading ours, Loading delegates) throws NoSuchTableException {
    try {
      return ours.load(identifier);
    } catch (NoSuchTableException missing) {
      return delegates.load(identifier);
    }
  }

  /** A metastore's table of another format is the delegate's, and counts as missing for interbed. */
  @Override
  boolean isMissing(PlannerException error) {
    return super.isMissing(error) || error.isOfForeignTable();
  }

  @Override
  public boolean tableExists(Identifier identifier) {
    return super.tableExists(identifier) || tables().tableExists(identifier);
  }

  @Override
  public void invalidateTable(Identifier identifier) {
    tables().invalidateTable(identifier);
  }

  @Override
  public Table createTable(
      Identifier identifier, Column[] columns, Transform[] partitioning, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    if (!DefaultSource.isNamed(properties.get(PROP_PROVIDER))) {
      return tables().createTable(identifier, columns, partitioning, properties);
    }
    if (!prepareFor(identifier)) {
      throw new TableAlreadyExistsException(identifier);
    }
    return super.createTable(identifier, columns, partitioning, properties);
  }

  @Override
  public boolean hasForeignTables() {
    return true;
  }

  /** Creates the delegate's namespace in interbed's catalog; false when the delegate has a table of that name. */
  @Override
  public boolean prepareFor(Identifier identifier) throws NoSuchNamespaceException {
    // Ours first: in a metastore Spark finds our tables, too, and fails on their storage handler for Hive.
    if (!super.tableExists(identifier) && tables().tableExists(identifier)) {
      return false;
    }
    if (!isOurs(identifier.namespace())) {
      follow(identifier.namespace());
    }
    return true;
  }

  /** Creates the delegate's namespace in interbed's catalog, which lacks namespaces that are older than this setting. */
  private void follow(String[] namespace) throws NoSuchNamespaceException {
    Map<String, String> metadata = new HashMap<>(namespaces().loadNamespaceMetadata(namespace));
    // Spark's own catalog has the tables of the default namespace in the warehouse's root.
    metadata.remove(SupportsNamespaces.PROP_LOCATION);
    try {
      super.createNamespace(namespace, metadata);
    } catch (NamespaceAlreadyExistsException raced) {
      // Another session has created it meanwhile.
    }
  }

  @Override
  public Table alterTable(Identifier identifier, TableChange... changes) throws NoSuchTableException {
    return ownersTable(
        identifier, table -> super.alterTable(table, changes), table -> tables().alterTable(table, changes));
  }

  @Override
  public boolean dropTable(Identifier identifier) {
    return super.dropTable(identifier) || tables().dropTable(identifier);
  }

  @Override
  public boolean purgeTable(Identifier identifier) {
    return super.dropTable(identifier) || tables().purgeTable(identifier);
  }

  @Override
  public void renameTable(Identifier from, Identifier to) throws NoSuchTableException, TableAlreadyExistsException {
    if (!super.tableExists(from)) {
      tables().renameTable(from, to);
      return;
    }
    if (to.namespace().length == 1 && tables().tableExists(to)) {
      throw new TableAlreadyExistsException(to);
    }
    super.renameTable(from, to);
  }

  // Functions.

  @Override
  public Identifier[] listFunctions(String[] namespace) {
    try {
      List<Identifier> found = new ArrayList<>(Arrays.asList(functions().listFunctions(namespace)));
      found.addAll(Arrays.asList(super.listFunctions(namespace)));
      return found.toArray(Identifier[]::new);
    } catch (NoSuchNamespaceException error) {
      throw Unchecked.rethrow(error);
    }
  }

  @Override
  public UnboundFunction loadFunction(Identifier identifier) throws NoSuchFunctionException {
    try {
      return super.loadFunction(identifier);
    } catch (NoSuchFunctionException missing) {
      return functions().loadFunction(identifier);
    }
  }
}
