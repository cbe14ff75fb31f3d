package interbed.spark.statement;

import interbed.spark.catalog.CatalogRegistry;
import interbed.spark.catalog.InterbedCatalog;
import interbed.spark.catalog.QualifiedName;
import interbed.spark.planner.Planner;
import interbed.spark.rewrite.PlanRewrite;
import interbed.spark.thrift.ViewColumn;
import interbed.spark.thrift.ViewInfo;
import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.ResolvedNamespace;
import org.apache.spark.sql.catalyst.analysis.ResolvedPersistentView;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableOrView;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTable$;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ShowTables;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.catalyst.util.StringUtils;
import org.apache.spark.sql.connector.catalog.DelegatingCatalogExtension;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Shows views to Spark's catalog functions: {@code spark.catalog.listTables}, {@code getTable} and {@code listColumns}.
 *
 * <p>They make plans of their own, without the parser. SHOW TABLES makes the same plan but lists only tables, so that the parser
 * marks it.
 */
public final class ViewListing extends Rule<LogicalPlan> {
  private static final TreeNodeTag<Boolean> IS_STATEMENT = new TreeNodeTag<>("interbed.show_tables");

  /** The names of Spark's catalog functions in their lookups of tables and views. */
  private static final String FUNCTIONS = "Catalog.";

  /** Constructor of a resolved view; empty in versions of Spark that describe views differently, which list only tables. */
  private static final Optional<Constructor<?>> RESOLVED_VIEW =
      Arrays.stream(ResolvedPersistentView.class.getConstructors())
          .filter(
              made -> made.getParameterCount() == 3 && made.getParameterTypes()[2].isAssignableFrom(CatalogTable.class))
          .findFirst();

  /** The index of the comment among the parameters of CatalogTable. */
  private static final int COMMENT = 14;

  static void markStatement(ShowTables show) {
    show.setTagValue(IS_STATEMENT, true);
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (RESOLVED_VIEW.isEmpty()) {
      return plan;
    }
    return plan.resolveOperators(
        new PlanRewrite(
            node -> node instanceof ShowTables || node instanceof UnresolvedTableOrView,
            node ->
                (node instanceof ShowTables show ? listed(show) : viewOf((UnresolvedTableOrView) node)).orElse(node)));
  }

  private static Optional<LogicalPlan> listed(ShowTables show) {
    if (show.getTagValue(IS_STATEMENT).isDefined()
        || !(show.namespace() instanceof ResolvedNamespace namespace)
        || !(namespace.catalog() instanceof InterbedCatalog catalog)
        || catalog.hasForeignTables()
        || namespace.namespace().size() != 1) {
      return Optional.empty();
    }
    return Optional.of(
        show.copy(
            new ResolvedNamespace(new WithViews(catalog), namespace.namespace(), namespace.metadata()),
            show.pattern(),
            show.output()));
  }

  /** The catalog for these functions, with its views among its tables. */
  private static final class WithViews extends DelegatingCatalogExtension {
    private final InterbedCatalog catalog;

    WithViews(InterbedCatalog catalog) {
      this.catalog = catalog;
      setDelegateCatalog(catalog);
    }

    @Override
    public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
      List<Identifier> found = new ArrayList<>(Arrays.asList(super.listTables(namespace)));
      views(catalog, namespace[0], Option.empty()).forEach(view -> found.add(Identifier.of(namespace, view)));
      found.sort(Comparator.comparing(Identifier::name));
      return found.toArray(Identifier[]::new);
    }
  }

  /** The views of a database whose names match the pattern of a SHOW statement. */
  static List<String> views(InterbedCatalog catalog, String database, Option<String> pattern) {
    return matching(Planner.askOrThrow(planner -> planner.listViews(catalog.reference(), database)), pattern);
  }

  private static List<String> matching(List<String> names, Option<String> pattern) {
    return pattern.isEmpty()
        ? names
        : CollectionConverters.asJava(
            StringUtils.filterPattern(CollectionConverters.asScala(names).toSeq(), pattern.get()));
  }

  private static Optional<LogicalPlan> viewOf(UnresolvedTableOrView named) {
    if (!named.commandName().startsWith(FUNCTIONS)) {
      return Optional.empty();
    }
    return CatalogRegistry.ofActiveSession()
        .ours(CollectionConverters.asJava(named.multipartIdentifier()))
        .filter(name -> !name.catalog().hasForeignTables())
        .flatMap(
            name ->
                ViewResolution.load(name)
                    .map(view -> resolved(name, view)));
  }

  private static LogicalPlan resolved(QualifiedName name, ViewInfo view) {
    try {
      return (LogicalPlan)
          RESOLVED_VIEW.orElseThrow().newInstance(name.catalog(), name.identifier(), described(name, view));
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException("This version of Spark resolves views in another way", error);
    }
  }

  /** The columns of a view in Spark's types. */
  static StructType schemaOf(ViewInfo view) {
    StructType columns = new StructType();
    for (ViewColumn column : view.getColumns()) {
      StructField field = new StructField(column.getName(), DataType.fromDDL(column.getType()), true, Metadata.empty());
      columns = columns.add(column.getComment() == null ? field : field.withComment(column.getComment()));
    }
    return columns;
  }

  /** Spark's description of the view; later versions of Spark have more parameters, with defaults. */
  private static CatalogTable described(QualifiedName name, ViewInfo view) {
    Constructor<?> constructor = CatalogTable.class.getConstructors()[0];
    Object[] values = new Object[constructor.getParameterCount()];
    values[0] = new TableIdentifier(name.name(), Option.apply(name.database()), Option.apply(name.catalog().name()));
    values[1] = CatalogTableType.VIEW();
    values[2] = CatalogStorageFormat.empty();
    values[3] = schemaOf(view);
    try {
      for (int i = 4; i < values.length; i++) {
        values[i] = CatalogTable$.class.getMethod("$lessinit$greater$default$" + (i + 1)).invoke(CatalogTable$.MODULE$);
      }
      values[COMMENT] = Option.apply(view.getComment());
      return (CatalogTable) constructor.newInstance(values);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException("This version of Spark describes tables in another way", error);
    }
  }
}
