package interbed.spark;

import interbed.spark.catalog.ApplicationLogin;
import interbed.spark.catalog.CachedTables;
import interbed.spark.catalog.ConstraintCatalog;
import interbed.spark.catalog.HeldSecrets;
import interbed.spark.catalog.NamespaceCatalog;
import interbed.spark.catalog.SessionSettings;
import interbed.spark.catalog.StagedTables;
import interbed.spark.catalog.Translation;
import interbed.spark.function.BucketFunction;
import interbed.spark.function.CatalogFunctions;
import interbed.spark.function.PlaceOfChange;
import interbed.spark.planner.Planner;
import interbed.spark.planner.PlannerException;
import interbed.spark.procedure.CatalogProcedures;
import interbed.spark.rewrite.OptionedReads;
import interbed.spark.rewrite.SchemaMerging;
import interbed.spark.table.Capabilities;
import interbed.spark.table.SparkTable;
import interbed.spark.thrift.CatalogRef;
import interbed.spark.thrift.ErrorKind;
import interbed.spark.thrift.TableInfo;
import interbed.spark.thrift.TableRef;
import interbed.spark.thrift.TimeTravel;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * An interbed catalog in Spark: it sends every call to the planner, and translates the answers to Spark's types.
 *
 * <p>Configured by spark.sql.catalog.NAME, or created by CREATE CATALOG.
 */
public class SparkCatalog
    implements CatalogProcedures, StagedTables, ConstraintCatalog, NamespaceCatalog, FunctionCatalog {
  private static final TimeTravel AS_THE_SESSION_SAYS = new TimeTravel();
  private static final TimeTravel NEWEST = new TimeTravel().setNewest(true);

  private CatalogRef reference;

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    reference =
        new CatalogRef(name, ApplicationLogin.added(HeldSecrets.withSecrets(options.asCaseSensitiveMap())));
    Planner.askOrThrow(
        planner -> {
          planner.openCatalog(reference);
          return null;
        });
    HeldSecrets.holdBack(name);
  }

  @Override
  public CatalogRef reference() {
    return reference;
  }

  @Override
  public String name() {
    return reference.getName();
  }

  @Override
  public Set<TableCatalogCapability> capabilities() {
    return Capabilities.OF_CATALOGS;
  }

  // Tables.

  @Override
  public Table loadTable(Identifier identifier) throws NoSuchTableException {
    return load(identifier, AS_THE_SESSION_SAYS, true);
  }

  @Override
  public Table loadTable(Identifier identifier, String version) throws NoSuchTableException {
    return OptionedReads.isMark(version)
        ? loadTable(identifier)
        : load(identifier, new TimeTravel().setVersion(version), true);
  }

  @Override
  public Table loadTable(Identifier identifier, long timestampMicros) throws NoSuchTableException {
    return load(identifier, new TimeTravel().setTimestampMicros(timestampMicros), true);
  }

  /** Loads a table for a write, at the newest snapshot even if a setting makes reads use an older one. */
  @Override
  public Table loadTable(Identifier identifier, Set<TableWritePrivilege> privileges) throws NoSuchTableException {
    return load(identifier, NEWEST, SchemaMerging.isFor(privileges));
  }

  @Override
  public boolean tableExists(Identifier identifier) {
    try {
      load(identifier, NEWEST, false);
      return true;
    } catch (NoSuchTableException error) {
      return false;
    } catch (IllegalArgumentException error) {
      // For example a table with files that is not in the metastore: its creation reports that.
      return isListed(identifier);
    } catch (RuntimeException error) {
      // A table that can't be read still exists, and can be dropped.
      if (isListed(identifier)) {
        return true;
      }
      throw error;
    }
  }

  private boolean isListed(Identifier identifier) {
    try {
      return Arrays.asList(listTables(identifier.namespace())).contains(identifier);
    } catch (NoSuchNamespaceException error) {
      return false;
    }
  }

  private SparkTable load(Identifier identifier, TimeTravel at, boolean forAnyRows) throws NoSuchTableException {
    if (identifier.namespace().length != 1) {
      throw new NoSuchTableException(identifier);
    }
    TableRef table = table(identifier);
    TableInfo info = inTable(identifier, planner -> planner.loadTable(table, at));
    return new SparkTable(name() + "." + identifier, info, forAnyRows && SchemaMerging.isPossible(info));
  }

  @Override
  public Table createTable(
      Identifier identifier, Column[] columns, Transform[] partitioning, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    NamespaceCatalog.database(identifier.namespace());
    TableRef table = table(identifier);
    try {
      return loaded(
          identifier,
          Planner.ask(
              planner -> planner.createTable(table, Translation.toThrift(columns, partitioning, properties))));
    } catch (PlannerException error) {
      switch (error.kind()) {
        case TABLE_EXISTS -> throw new TableAlreadyExistsException(identifier);
        case NO_SUCH_NAMESPACE -> throw new NoSuchNamespaceException(identifier.namespace());
        default -> throw error.translated();
      }
    }
  }

  @Override
  public Table alterTable(Identifier identifier, TableChange... changes) throws NoSuchTableException {
    TableRef table = table(identifier);
    try {
      Table altered =
          loaded(identifier, inTable(identifier, planner -> planner.alterTable(table, Translation.toThrift(changes))));
      CachedTables.refresh(name(), identifier);
      return altered;
    } catch (IllegalArgumentException error) {
      // Spark would wrap it into an exception for which PySpark shows the JVM's stack trace.
      throw new UnsupportedOperationException(error.getMessage(), error.getCause());
    }
  }

  @Override
  public boolean dropTable(Identifier identifier) {
    if (identifier.namespace().length != 1) {
      return false;
    }
    TableRef table = table(identifier);
    return Planner.askOrThrow(planner -> planner.dropTable(table));
  }

  @Override
  public boolean purgeTable(Identifier identifier) {
    if (identifier.namespace().length != 1) {
      return false;
    }
    TableRef table = table(identifier);
    table.putToSettings("spark.interbed.purge", "true");
    return Planner.askOrThrow(planner -> planner.dropTable(table));
  }

  @Override
  public void renameTable(Identifier from, Identifier to) throws NoSuchTableException, TableAlreadyExistsException {
    TableRef table = table(from);
    String database = targetDatabase(from, to);
    try {
      Planner.ask(
          planner -> {
            planner.renameTable(table, database, to.name());
            return null;
          });
    } catch (PlannerException error) {
      switch (error.kind()) {
        case NO_SUCH_TABLE -> throw new NoSuchTableException(from);
        case TABLE_EXISTS -> throw new TableAlreadyExistsException(to);
        default -> throw error.translated();
      }
    }
  }

  // Functions.

  @Override
  public Identifier[] listFunctions(String[] namespace) {
    Stream<String> own = namespace.length == 1 ? CatalogFunctions.list(reference, namespace[0]).stream() : Stream.of();
    return Stream.concat(Stream.of(BucketFunction.NAME), own)
        .map(function -> Identifier.of(namespace, function))
        .toArray(Identifier[]::new);
  }

  @Override
  public UnboundFunction loadFunction(Identifier identifier) throws NoSuchFunctionException {
    if (BucketFunction.NAME.equalsIgnoreCase(identifier.name())) {
      return new BucketFunction();
    }
    if (PlaceOfChange.NAME.equals(identifier.name())) {
      return new PlaceOfChange();
    }
    if (identifier.namespace().length != 1) {
      throw new NoSuchFunctionException(identifier);
    }
    return CatalogFunctions.load(reference, identifier.namespace()[0], identifier.name())
        .orElseThrow(() -> new NoSuchFunctionException(identifier));
  }

  private Table loaded(Identifier identifier, TableInfo info) {
    return new SparkTable(name() + "." + identifier, info);
  }

  private TableRef table(Identifier identifier) {
    return new TableRef(reference, identifier.namespace()[0], identifier.name()).setSettings(SessionSettings.current());
  }

  /** Spark passes the new name as it is written: without a database, with one, or with the catalog before it. */
  private String targetDatabase(Identifier from, Identifier to) {
    String[] namespace = to.namespace();
    if (namespace.length == 2 && namespace[0].equals(name())) {
      return namespace[1];
    }
    if (namespace.length > 1) {
      throw new IllegalArgumentException(
          "A table of the catalog " + name() + " can't be renamed to " + to + ", which is elsewhere");
    }
    return namespace.length == 0 ? from.namespace()[0] : namespace[0];
  }

  /** Whether the error means that the catalog has no such table. */
  boolean isMissing(PlannerException error) {
    return error.kind() == ErrorKind.NO_SUCH_TABLE || error.kind() == ErrorKind.NO_SUCH_NAMESPACE;
  }

  private <R> R inTable(Identifier identifier, Planner.Question<R> question) throws NoSuchTableException {
    try {
      return Planner.ask(question);
    } catch (PlannerException error) {
      if (isMissing(error)) {
        throw new NoSuchTableException(identifier);
      }
      throw error.translated();
    }
  }
}
