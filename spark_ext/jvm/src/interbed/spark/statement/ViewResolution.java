package interbed.spark.statement;

import interbed.spark.catalog.CatalogRegistry;
import interbed.spark.catalog.QualifiedName;
import interbed.spark.planner.Planner;
import interbed.spark.planner.PlannerException;
import interbed.spark.planner.Unchecked;
import interbed.spark.rewrite.PlanRewrite;
import interbed.spark.thrift.ErrorKind;
import interbed.spark.thrift.ViewColumn;
import interbed.spark.thrift.ViewInfo;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.AliasIdentifier;
import org.apache.spark.sql.catalyst.analysis.CTESubstitution;
import org.apache.spark.sql.catalyst.analysis.RelationTimeTravel;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StructField;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Replaces the name of a view by its query.
 *
 * <p>It handles names that are not tables. The query is analysed separately: the rules that Spark runs once, before it resolves
 * names, run for it, too, and its names are resolved in the view's namespace, not in that of its use.
 */
public final class ViewResolution extends Rule<LogicalPlan> {
  /** The views that are being analysed by this thread, the innermost last. */
  private static final ThreadLocal<List<String>> WITHIN = ThreadLocal.withInitial(ArrayList::new);

  /** Prefix of the properties with the settings of the session that made a view, as Spark's own catalog names them. */
  private static final String SETTING = "view.sqlConfig.";

  /** Settings that change what a query means or returns. */
  private static final List<String> SETTINGS =
      List.of(
          "spark.sql.ansi.enabled",
          "spark.sql.ansi.doubleQuotedIdentifiers",
          "spark.sql.caseSensitive",
          "spark.sql.decimalOperations.allowPrecisionLoss",
          "spark.sql.groupByOrdinal",
          "spark.sql.legacy.sizeOfNull",
          "spark.sql.legacy.timeParserPolicy",
          "spark.sql.mapKeyDedupPolicy",
          "spark.sql.orderByOrdinal",
          "spark.sql.parser.escapedStringLiterals",
          "spark.sql.session.timeZone",
          "spark.sql.timestampType");

  private final SparkSession session;

  public ViewResolution(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.resolveOperators(
        new PlanRewrite(
            node -> node instanceof UnresolvedRelation relation && !relation.isStreaming(),
            node -> resolved((UnresolvedRelation) node).orElse(node)));
  }

  private Optional<LogicalPlan> resolved(UnresolvedRelation relation) {
    List<String> parts = CollectionConverters.asJava(relation.multipartIdentifier());
    return CatalogRegistry.of(session)
        .ours(parts)
        .flatMap(name -> load(name).map(view -> aliased(name, planOf(name, view))));
  }

  /** The view of that name, if it is one. */
  static Optional<ViewInfo> load(QualifiedName name) {
    try {
      return Optional.of(Planner.ask(planner -> planner.loadView(name.reference())));
    } catch (PlannerException error) {
      if (error.kind() == ErrorKind.NO_SUCH_TABLE || error.kind() == ErrorKind.NO_SUCH_NAMESPACE) {
        return Optional.empty();
      }
      throw error.translated();
    }
  }

  private static LogicalPlan aliased(QualifiedName name, LogicalPlan plan) {
    List<String> qualifier = List.of(name.catalog().name(), name.database());
    return new SubqueryAlias(
        new AliasIdentifier(name.name(), CollectionConverters.asScala(qualifier).toSeq()), plan);
  }

  private LogicalPlan planOf(QualifiedName name, ViewInfo view) {
    Dataset<Row> rows =
        SQLConf.withExistingConf(confOf(view.getProperties()), () -> rowsOf(session, name, view.getQuery()));
    String[] found = rows.columns();
    List<ViewColumn> columns = view.getColumns();
    int[] places = view.isSetQueryColumns() ? placesByName(name, view, found) : firstPlaces(name, columns, found);
    // The query may return a name twice, so that columns are chosen by their numbers.
    String[] numbered = new String[found.length];
    for (int i = 0; i < numbered.length; i++) {
      numbered[i] = "__of_the_query_" + i;
    }
    Column[] chosen = new Column[places.length];
    for (int i = 0; i < chosen.length; i++) {
      chosen[i] = functions.col(numbered[places[i]]).as(columns.get(i).getName());
    }
    return inTypesOf(name, view, rows.toDF(numbered).select(chosen).queryExecution().analyzed());
  }

  /** The query in the types of the view's columns, as in Spark's own catalog, where columns of its tables have others by now. */
  private LogicalPlan inTypesOf(QualifiedName name, ViewInfo view, LogicalPlan query) {
    StructField[] declared = ViewListing.schemaOf(view).fields();
    List<Attribute> found = CollectionConverters.asJava(query.output());
    List<NamedExpression> columns = new ArrayList<>();
    boolean changed = false;
    for (int i = 0; i < declared.length; i++) {
      DataType from = found.get(i).dataType();
      DataType to = declared[i].dataType();
      if (from.equals(to) || !isExactInHive(from) || !isExactInHive(to)) {
        columns.add(found.get(i));
        continue;
      }
      if (!Cast.canAnsiCast(from, to)) {
        throw new IllegalStateException(
            "The column " + declared[i].name() + " of the view " + name + " is of the type " + to.sql() + ", and its query"
                + " returns " + from.sql() + " by now; ALTER VIEW " + name + " AS … gives it another query");
      }
      Option<String> zone = Option.apply(session.sessionState().conf().sessionLocalTimeZone());
      Cast cast = new Cast(found.get(i), to, zone, EvalMode.ANSI());
      columns.add(new Alias(cast, found.get(i).name(), NamedExpression.newExprId(), seq(), Option.empty(), seq()));
      changed = true;
    }
    return changed ? new Project(CollectionConverters.asScala(columns).toSeq(), query) : query;
  }

  private static <T> Seq<T> seq() {
    return CollectionConverters.asScala(List.<T>of()).toSeq();
  }

  /** Whether the metastore keeps this type of a view's column as it is. It has no type for others, such as TIMESTAMP_NTZ. */
  private static boolean isExactInHive(DataType type) {
    return type instanceof NumericType || type instanceof BooleanType || type instanceof DateType
        || type.equals(DataTypes.StringType);
  }

  /** The properties that keep the settings of the session, for a view that it makes. */
  static Map<String, String> settings(SparkSession session) {
    SQLConf conf = session.sessionState().conf();
    Map<String, String> found = new TreeMap<>();
    for (String key : SETTINGS) {
      try {
        found.put(SETTING + key, conf.getConfString(key));
      } catch (NoSuchElementException unknown) {
        // This version of Spark has no such setting.
      }
    }
    return found;
  }

  /** Whether a property of a view is a setting of its query, which statements about the view do not show. */
  static boolean isSetting(String property) {
    return property.startsWith(SETTING);
  }

  /** The session's settings for a view's query: those of its properties, and for all others those of the session. */
  private SQLConf confOf(Map<String, String> properties) {
    SQLConf conf = session.sessionState().conf().clone();
    for (String key : SETTINGS) {
      String value = properties.get(SETTING + key);
      if (value != null) {
        conf.setConfString(key, value);
      }
    }
    return conf;
  }

  /** Places of the first columns: other programs do not record which columns of the query are the view's. */
  private static int[] firstPlaces(QualifiedName name, List<ViewColumn> columns, String[] found) {
    if (found.length < columns.size()) {
      throw new IllegalStateException(
          "The view " + name + " has " + columns.size() + " columns, but its query only " + found.length
              + " by now; ALTER VIEW " + name + " AS … gives it another query");
    }
    return IntStream.range(0, columns.size()).toArray();
  }

  /**
   * The place in the query of each column of the view, by the names that the query returned when it was stored. What a
   * SELECT * returns since then in addition is no part of the view.
   */
  private int[] placesByName(QualifiedName name, ViewInfo view, String[] found) {
    List<String> stored = view.getQueryColumns();
    int[] places = new int[stored.size()];
    for (int i = 0; i < places.length; i++) {
      String column = stored.get(i);
      int[] now = IntStream.range(0, found.length).filter(place -> isSame(found[place], column)).toArray();
      int[] before = IntStream.range(0, stored.size()).filter(place -> isSame(stored.get(place), column)).toArray();
      if (now.length != before.length) {
        throw new IllegalStateException(
            "The column " + view.getColumns().get(i).getName() + " of the view " + name + " is the column " + column
                + " of its query, which returns " + (now.length == 0 ? "none" : now.length + " columns") + " of that name by"
                + " now (it returns " + String.join(", ", found) + "); ALTER VIEW " + name + " AS … gives it another query");
      }
      places[i] = now[Arrays.binarySearch(before, i)];
    }
    return places;
  }

  private boolean isSame(String one, String other) {
    return session.sessionState().conf().caseSensitiveAnalysis() ? one.equals(other) : one.equalsIgnoreCase(other);
  }

  /** The analysed query of the view of that name; throws for a view that refers to itself. */
  static Dataset<Row> rowsOf(SparkSession session, QualifiedName view, String query) {
    List<String> within = WITHIN.get();
    if (within.contains(view.toString())) {
      throw new IllegalArgumentException(
          "The view " + view + " would be made of itself: " + String.join(" -> ", within) + " -> " + view);
    }
    within.add(view.toString());
    try {
      return Dataset.ofRows(session, qualified(session, view, parsed(session.sessionState().sqlParser(), query)));
    } finally {
      within.remove(within.size() - 1);
    }
  }

  static LogicalPlan parsed(ParserInterface parser, String query) {
    try {
      return parser.parsePlan(query);
    } catch (Exception error) {
      if (error instanceof ParseException) {
        throw new IllegalArgumentException("The view's query does not parse: " + query, error);
      }
      throw Unchecked.rethrow(error);
    }
  }

  /** The query with full names of tables and views; names defined by WITH stay unchanged. */
  private static LogicalPlan qualified(SparkSession session, QualifiedName view, LogicalPlan query) {
    CatalogRegistry registry = CatalogRegistry.of(session);
    return CTESubstitution.apply(query)
        .transformWithSubqueries(
            new PlanRewrite(ViewResolution::isName, node -> qualifiedName(registry, view, node)));
  }

  private static boolean isName(LogicalPlan node) {
    return node instanceof UnresolvedRelation
        || (node instanceof RelationTimeTravel travel && travel.relation() instanceof UnresolvedRelation);
  }

  private static LogicalPlan qualifiedName(CatalogRegistry registry, QualifiedName view, LogicalPlan node) {
    if (node instanceof RelationTimeTravel travel) {
      LogicalPlan relation = qualified(registry, view, (UnresolvedRelation) travel.relation());
      return new RelationTimeTravel(relation, travel.timestamp(), travel.version());
    }
    return qualified(registry, view, (UnresolvedRelation) node);
  }

  private static LogicalPlan qualified(CatalogRegistry registry, QualifiedName view, UnresolvedRelation relation) {
    List<String> parts = CollectionConverters.asJava(relation.multipartIdentifier());
    Optional<QualifiedName> whole = registry.namesCatalog(parts) ? Optional.empty() : registry.ours(parts, view);
    return whole
        .map(
            name ->
                new UnresolvedRelation(
                    CollectionConverters.asScala(name.parts()).toSeq(), relation.options(), relation.isStreaming()))
        .orElse(relation);
  }
}
