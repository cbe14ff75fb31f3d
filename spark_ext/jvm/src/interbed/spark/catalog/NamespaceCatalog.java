package interbed.spark.catalog;

import interbed.spark.planner.Planner;
import interbed.spark.planner.PlannerException;
import interbed.spark.thrift.ErrorKind;
import interbed.spark.thrift.Namespace;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;

/** The namespaces of a catalog, which are the planner's databases: each has a name of one part. */
public interface NamespaceCatalog extends InterbedCatalog, SupportsNamespaces {
  @Override
  default String[] defaultNamespace() {
    return new String[] {"default"};
  }

  @Override
  default String[][] listNamespaces() {
    return Planner.askOrThrow(planner -> planner.listNamespaces(reference())).stream()
        .map(name -> new String[] {name})
        .toArray(String[][]::new);
  }

  @Override
  default String[][] listNamespaces(String[] parent) throws NoSuchNamespaceException {
    if (parent.length == 0) {
      return listNamespaces();
    }
    loadNamespaceMetadata(parent);
    return new String[0][];
  }

  @Override
  default boolean namespaceExists(String[] namespace) {
    try {
      loadNamespaceMetadata(namespace);
      return true;
    } catch (NoSuchNamespaceException error) {
      return false;
    }
  }

  @Override
  default Map<String, String> loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    String database = database(namespace);
    return inNamespace(namespace, planner -> planner.getNamespace(reference(), database).getProperties());
  }

  @Override
  default void createNamespace(String[] namespace, Map<String, String> metadata)
      throws NamespaceAlreadyExistsException {
    if (namespace.length != 1) {
      throw new IllegalArgumentException(
          "A namespace of the catalog " + name() + " has one part, not " + String.join(".", namespace));
    }
    try {
      Planner.ask(
          planner -> {
            planner.createNamespace(reference(), new Namespace(namespace[0], metadata));
            return null;
          });
    } catch (PlannerException error) {
      if (error.kind() == ErrorKind.NAMESPACE_EXISTS) {
        throw new NamespaceAlreadyExistsException(namespace);
      }
      throw error.translated();
    }
  }

  @Override
  default void alterNamespace(String[] namespace, NamespaceChange... changes) throws NoSuchNamespaceException {
    String database = database(namespace);
    inNamespace(
        namespace,
        planner -> {
          planner.alterNamespace(reference(), database, Translation.toThrift(changes));
          return null;
        });
  }

  @Override
  default boolean dropNamespace(String[] namespace, boolean cascade)
      throws NoSuchNamespaceException, NonEmptyNamespaceException {
    String database = database(namespace);
    try {
      Planner.ask(
          planner -> {
            planner.dropNamespace(reference(), database, cascade);
            return null;
          });
      return true;
    } catch (PlannerException error) {
      switch (error.kind()) {
        case NO_SUCH_NAMESPACE -> throw new NoSuchNamespaceException(namespace);
        case NAMESPACE_NOT_EMPTY -> throw new NonEmptyNamespaceException(namespace);
        default -> throw error.translated();
      }
    }
  }

  @Override
  default Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    String database = database(namespace);
    return inNamespace(namespace, planner -> planner.listTables(reference(), database)).stream()
        .map(table -> Identifier.of(namespace, table))
        .toArray(Identifier[]::new);
  }

  /** The one part of a namespace's name. */
  static String database(String[] namespace) throws NoSuchNamespaceException {
    if (namespace.length != 1) {
      throw new NoSuchNamespaceException(namespace);
    }
    return namespace[0];
  }

  private static <R> R inNamespace(String[] namespace, Planner.Question<R> question) throws NoSuchNamespaceException {
    try {
      return Planner.ask(question);
    } catch (PlannerException error) {
      if (error.kind() == ErrorKind.NO_SUCH_NAMESPACE) {
        throw new NoSuchNamespaceException(namespace);
      }
      throw error.translated();
    }
  }
}
