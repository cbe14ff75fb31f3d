package interbed.spark.catalog;

import interbed.spark.planner.PlannerCatalog;
import interbed.spark.planner.Unchecked;
import interbed.spark.thrift.CatalogRef;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.internal.SQLConf;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The catalogs of one session: its settings spark.sql.catalog.*, and Spark's plugins for them.
 *
 * <p>Spark's CatalogManager is a class up to 4.1 and an interface from 4.2 on, so that a call compiled against one does not link
 * with the other; and it has no method that removes a catalog. Only this class uses reflection for both.
 */
public final class CatalogRegistry {
  private static final String PREFIX = "spark.sql.catalog.";

  private final SQLConf conf;
  private final Object manager;

  private CatalogRegistry(SparkSession session) {
    conf = session.sessionState().conf();
    manager = invoke(session.sessionState(), "catalogManager");
  }

  public static CatalogRegistry ofActiveSession() {
    return new CatalogRegistry((SparkSession) org.apache.spark.sql.SparkSession.active());
  }

  public static CatalogRegistry of(SparkSession session) {
    return new CatalogRegistry(session);
  }

  public static String confKey(String catalog) {
    return PREFIX + catalog;
  }

  /** Whether the catalog is one of ours, which is known without opening it. */
  public boolean isOurs(String catalog) {
    return ConfiguredNames.CATALOGS.contains(conf.getConfString(confKey(catalog), ""));
  }

  /** Whether the application names a catalog of ours, so that it will most likely use it. */
  public static boolean isConfigured() {
    SparkEnv env = SparkEnv.get();
    if (env == null) {
      return false;
    }
    for (Tuple2<String, String> setting : env.conf().getAllWithPrefix(PREFIX)) {
      if (ConfiguredNames.CATALOGS.contains(setting._2())) {
        return true;
      }
    }
    return false;
  }

  /** The planner's reference to one of our catalogs. */
  public CatalogRef reference(String catalog) {
    return ((PlannerCatalog) invoke(manager, "catalog", catalog)).reference();
  }

  /** Registers the catalog and opens it at once; options that do not open a catalog leave no trace. */
  public void create(String catalog, Map<String, String> options, boolean ifNotExists) {
    if (conf.contains(confKey(catalog)) || "spark_catalog".equalsIgnoreCase(catalog)) {
      if (ifNotExists) {
        return;
      }
      throw new IllegalArgumentException(
          "The catalog " + catalog + " already exists; drop it first or write CREATE CATALOG IF NOT EXISTS");
    }
    HeldSecrets.withoutSecrets(options)
        .forEach((key, value) -> conf.setConfString(confKey(catalog) + "." + key, value));
    conf.setConfString(confKey(catalog), ConfiguredNames.CATALOG);
    try {
      invoke(manager, "catalog", catalog);
    } catch (Throwable error) {
      forget(catalog);
      throw error;
    }
  }

  public void drop(String catalog, boolean ifExists) {
    if (!conf.contains(confKey(catalog))) {
      if (ifExists) {
        return;
      }
      throw new IllegalArgumentException("There is no catalog " + catalog + " to drop");
    }
    if (((CatalogPlugin) invoke(manager, "currentCatalog")).name().equals(catalog)) {
      throw new IllegalArgumentException(
          "The catalog " + catalog + " is the current one; USE another catalog (spark_catalog), then drop it");
    }
    forget(catalog);
  }

  /** The catalog of ours for a name of several parts, if there is one. */
  public Optional<InterbedCatalog> ownerOf(List<String> parts) {
    boolean named = parts.size() > 1 && conf.contains(confKey(parts.get(0)));
    Object owner = named ? invoke(manager, "catalog", parts.get(0)) : invoke(manager, "currentCatalog");
    return owner instanceof InterbedCatalog ours ? Optional.of(ours) : Optional.empty();
  }

  /** Removes the catalog's settings and its plugin, if there are any. */
  public void forget(String catalog) {
    String key = confKey(catalog);
    List<String> settings = new ArrayList<>();
    for (String setting : CollectionConverters.asJava(conf.getAllConfs()).keySet()) {
      if (setting.equals(key) || setting.startsWith(key + ".")) {
        settings.add(setting);
      }
    }
    HeldSecrets.forget(conf.getConfString(key + "." + HeldSecrets.KEY, null));
    settings.forEach(conf::unsetConf);
    // CatalogManager's lock of the map is its own monitor.
    synchronized (manager) {
      @SuppressWarnings("unchecked")
      scala.collection.mutable.Map<String, CatalogPlugin> plugins =
          (scala.collection.mutable.Map<String, CatalogPlugin>) field(manager, "catalogs");
      plugins.remove(catalog);
    }
  }

  /** A name of one, two or more parts in a catalog of ours; empty when it is in another one, or is none at all. */
  public Optional<QualifiedName> ours(List<String> parts) {
    return ours(parts, null);
  }

  /** The same; an incomplete name is completed by `within`, if that is given. */
  public Optional<QualifiedName> ours(List<String> parts, QualifiedName within) {
    int size = parts.size();
    boolean named = size > 1 && conf.contains(confKey(parts.get(0)));
    if (size > (named ? 3 : 2) || (named && size < 3)) {
      return Optional.empty();
    }
    Object plugin =
        named ? invoke(manager, "catalog", parts.get(0))
            : within != null ? within.catalog() : invoke(manager, "currentCatalog");
    if (!(plugin instanceof InterbedCatalog catalog)) {
      return Optional.empty();
    }
    if (named || size == 2) {
      return Optional.of(new QualifiedName(catalog, parts.get(size - 2), parts.get(size - 1)));
    }
    String[] namespace =
        within != null ? new String[] {within.database()} : (String[]) invoke(manager, "currentNamespace");
    return namespace.length == 1
        ? Optional.of(new QualifiedName(catalog, namespace[0], parts.get(0)))
        : Optional.empty();
  }

  /** Whether the first part of a name is a catalog. */
  public boolean namesCatalog(List<String> parts) {
    return parts.size() > 1 && conf.contains(confKey(parts.get(0)));
  }

  /** The namespace of a statement in a catalog of ours: SHOW … IN lake.db, or the current one. */
  public Optional<QualifiedName> ourNamespace(List<String> parts) {
    List<String> whole = new ArrayList<>(parts);
    whole.add("");
    return ours(whole);
  }

  private static Object invoke(Object target, String name, Object... arguments) {
    try {
      for (Method method : target.getClass().getMethods()) {
        if (method.getName().equals(name) && method.getParameterCount() == arguments.length) {
          return method.invoke(target, arguments);
        }
      }
    } catch (InvocationTargetException error) {
      throw Unchecked.rethrow(error.getCause());
    } catch (IllegalAccessException error) {
      throw new IllegalStateException(error);
    }
    throw new IllegalStateException("This Spark's " + target.getClass().getName() + " has no method " + name);
  }

  private static Object field(Object target, String name) {
    for (Class<?> type = target.getClass(); type != null; type = type.getSuperclass()) {
      try {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(target);
      } catch (NoSuchFieldException inherited) {
        // The superclass may declare it.
      } catch (IllegalAccessException error) {
        throw new IllegalStateException(error);
      }
    }
    throw new IllegalStateException("This Spark's " + target.getClass().getName() + " has no field " + name);
  }
}
