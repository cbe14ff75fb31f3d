package interbed.spark.statement;

import interbed.spark.catalog.CatalogRegistry;
import interbed.spark.catalog.QualifiedName;
import interbed.spark.planner.Planner;
import interbed.spark.thrift.ViewColumn;
import interbed.spark.thrift.ViewInfo;
import interbed.spark.value.Names;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkSqlParser;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/** Procedures of the {@link ViewStatements}. */
final class ViewProcedures {
  static final List<SystemProcedure> PROCEDURES =
      List.of(
          SystemProcedure.silent("create_view", ViewProcedures::create),
          SystemProcedure.silent("drop_view", ViewProcedures::drop),
          SystemProcedure.silent("alter_view_as", ViewProcedures::alterQuery),
          SystemProcedure.silent("set_view_properties", ViewProcedures::setProperties),
          SystemProcedure.silent("rename_view", ViewProcedures::rename),
          new SystemProcedure(
              "show_views",
              new StructType()
                  .add("namespace", DataTypes.StringType, false)
                  .add("viewName", DataTypes.StringType, false)
                  .add("isTemporary", DataTypes.BooleanType, false),
              ViewProcedures::show),
          new SystemProcedure("describe_view", texts("col_name", "data_type", "comment"), ViewProcedures::describe),
          new SystemProcedure("show_create_view", texts("createtab_stmt"), ViewProcedures::showCreate),
          new SystemProcedure("show_columns_of_view", texts("col_name"), ViewProcedures::showColumns),
          new SystemProcedure(
              "show_tables_extended",
              new StructType()
                  .add("namespace", DataTypes.StringType, false)
                  .add("tableName", DataTypes.StringType, false)
                  .add("isTemporary", DataTypes.BooleanType, false)
                  .add("information", DataTypes.StringType, false),
              ViewProcedures::showExtended));

  private ViewProcedures() {}

  private static void create(Map<String, Object> fields) {
    QualifiedName name = name(fields);
    String query = (String) fields.get("query");
    List<ViewColumn> columns = columnsOf(name, query);
    List<Map<String, String>> given = cast(fields.get("columns"));
    if (!given.isEmpty() && given.size() != columns.size()) {
      throw new IllegalArgumentException(
          "The view " + name + " names " + given.size() + " columns, but its query has " + columns.size());
    }
    List<String> ofQuery = names(columns);
    for (int i = 0; i < given.size(); i++) {
      columns.get(i).setName(given.get(i).get("name"));
      columns.get(i).setComment(given.get(i).get("comment"));
    }
    Map<String, String> properties = cast(fields.get("properties"));
    Map<String, String> stored = new HashMap<>(properties);
    stored.putAll(ViewResolution.settings(session()));
    ViewInfo view =
        new ViewInfo(query, columns, stored)
            .setComment((String) fields.get("comment"))
            .setQueryColumns(ofQuery);
    store(name, view, (Boolean) fields.get("replace"), (Boolean) fields.get("ifNotExists"));
  }

  private static SparkSession session() {
    return (SparkSession) org.apache.spark.sql.SparkSession.active();
  }

  private static Map<String, String> shownProperties(ViewInfo view) {
    Map<String, String> shown = new TreeMap<>(view.getProperties());
    shown.keySet().removeIf(ViewResolution::isSetting);
    return shown;
  }

  private static void drop(Map<String, Object> fields) {
    QualifiedName name = name(fields);
    boolean found = Planner.askOrThrow(planner -> planner.dropView(name.reference()));
    if (!found && !(Boolean) fields.get("ifExists")) {
      throw missing(name);
    }
  }

  private static void alterQuery(Map<String, Object> fields) {
    QualifiedName name = name(fields);
    ViewInfo view = load(name);
    String query = (String) fields.get("query");
    List<ViewColumn> columns = columnsOf(name, query);
    view.getProperties().keySet().removeIf(ViewResolution::isSetting);
    view.getProperties().putAll(ViewResolution.settings(session()));
    store(name, view.setQuery(query).setColumns(columns).setQueryColumns(names(columns)), true, false);
  }

  private static void setProperties(Map<String, Object> fields) {
    QualifiedName name = name(fields);
    ViewInfo view = load(name);
    if (fields.get("set") != null) {
      view.getProperties().putAll(ViewProcedures.<Map<String, String>>cast(fields.get("set")));
    } else {
      for (String key : ViewProcedures.<List<String>>cast(fields.get("unset"))) {
        if (view.getProperties().remove(key) == null && !(Boolean) fields.get("ifExists")) {
          throw new IllegalArgumentException("The view " + name + " has no property '" + key + "'");
        }
      }
    }
    store(name, view, true, false);
  }

  private static void rename(Map<String, Object> fields) {
    QualifiedName name = name(fields);
    List<String> to = cast(fields.get("to"));
    QualifiedName target =
        CatalogRegistry.ofActiveSession()
            .ours(to, name)
            .filter(found -> found.catalog() == name.catalog())
            .orElseThrow(() -> new IllegalArgumentException("The view " + name + " stays in its catalog"));
    Planner.askOrThrow(
        planner -> {
          planner.renameView(name.reference(), target.database(), target.name());
          return null;
        });
  }

  private static List<InternalRow> show(Map<String, Object> fields) {
    QualifiedName namespace = name(fields);
    String pattern = (String) fields.get("pattern");
    List<InternalRow> rows = new ArrayList<>();
    for (String view : ViewListing.views(namespace.catalog(), namespace.database(), Option.apply(pattern))) {
      rows.add(new GenericInternalRow(new Object[] {text(namespace.database()), text(view), false}));
    }
    return rows;
  }

  private static List<InternalRow> showColumns(Map<String, Object> fields) {
    List<InternalRow> rows = new ArrayList<>();
    for (ViewColumn column : load(name(fields)).getColumns()) {
      rows.add(row(column.getName()));
    }
    return rows;
  }

  /** Spark's rows about tables, and rows about the views. */
  private static List<InternalRow> showExtended(Map<String, Object> fields) {
    QualifiedName namespace = name(fields);
    TreeMap<String, String> found = new TreeMap<>();
    SparkSession session = (SparkSession) org.apache.spark.sql.SparkSession.active();
    LogicalPlan ofTables = ViewResolution.parsed(new SparkSqlParser(), (String) fields.get("statement"));
    List<InternalRow> temporary = new ArrayList<>();
    for (Row table : Dataset.ofRows(session, ofTables).collectAsList()) {
      if (table.getBoolean(2)) {
        temporary.add(
            new GenericInternalRow(
                new Object[] {text(table.getString(0)), text(table.getString(1)), true, text(table.getString(3))}));
      } else {
        found.put(table.getString(1), table.getString(3));
      }
    }
    String pattern = (String) fields.get("pattern");
    for (String view : ViewListing.views(namespace.catalog(), namespace.database(), Option.apply(pattern))) {
      QualifiedName name = new QualifiedName(namespace.catalog(), namespace.database(), view);
      ViewResolution.load(name).ifPresent(info -> found.put(view, information(name, info)));
    }
    List<InternalRow> rows = new ArrayList<>();
    found.forEach(
        (name, information) ->
            rows.add(
                new GenericInternalRow(
                    new Object[] {text(namespace.database()), text(name), false, text(information)})));
    rows.addAll(temporary);
    return rows;
  }

  private static String information(QualifiedName name, ViewInfo view) {
    StringBuilder found = new StringBuilder();
    found.append("Catalog: ").append(name.catalog().name()).append('\n');
    found.append("Namespace: ").append(name.database()).append('\n');
    found.append("Table: ").append(name.name()).append('\n');
    found.append("Type: VIEW\n");
    if (view.getComment() != null) {
      found.append("Comment: ").append(view.getComment()).append('\n');
    }
    found.append("View Text: ").append(view.getQuery()).append('\n');
    found.append("View Properties: ").append(shownProperties(view)).append('\n');
    return found.append("Schema: ").append(ViewListing.schemaOf(view).treeString()).append('\n').toString();
  }

  private static List<InternalRow> describe(Map<String, Object> fields) {
    QualifiedName name = name(fields);
    ViewInfo view = load(name);
    List<InternalRow> rows = new ArrayList<>();
    for (ViewColumn column : view.getColumns()) {
      rows.add(row(column.getName(), column.getType(), column.getComment()));
    }
    if ((Boolean) fields.get("extended")) {
      rows.add(row("", "", ""));
      rows.add(row("# Detailed View Information", "", ""));
      rows.add(row("Name", name.toString(), ""));
      rows.add(row("Comment", view.getComment() == null ? "" : view.getComment(), ""));
      rows.add(row("View Text", view.getQuery(), ""));
      rows.add(row("View Properties", shownProperties(view).toString(), ""));
    }
    return rows;
  }

  private static List<InternalRow> showCreate(Map<String, Object> fields) {
    QualifiedName name = name(fields);
    ViewInfo view = load(name);
    List<String> columns = new ArrayList<>();
    for (ViewColumn column : view.getColumns()) {
      columns.add(Names.quoted(column.getName()) + (column.getComment() == null ? "" : " COMMENT " + literal(column.getComment())));
    }
    StringBuilder sql = new StringBuilder("CREATE VIEW " + name + " (\n  " + String.join(",\n  ", columns) + ")\n");
    if (view.getComment() != null) {
      sql.append("COMMENT ").append(literal(view.getComment())).append('\n');
    }
    if (!shownProperties(view).isEmpty()) {
      List<String> properties = new ArrayList<>();
      shownProperties(view).forEach((key, value) -> properties.add(literal(key) + " = " + literal(value)));
      sql.append("TBLPROPERTIES (\n  ").append(String.join(",\n  ", properties)).append(")\n");
    }
    return List.of(row(sql + "AS " + view.getQuery() + "\n"));
  }

  /** The columns of the query, with Spark's types as JSON; throws for a query that is not allowed in a view. */
  private static List<ViewColumn> columnsOf(QualifiedName name, String query) {
    SparkSession session = (SparkSession) org.apache.spark.sql.SparkSession.active();
    List<ViewColumn> columns = new ArrayList<>();
    TemporaryReferences.refuse(session, name, ViewResolution.parsed(session.sessionState().sqlParser(), query));
    for (StructField field : ViewResolution.rowsOf(session, name, query).schema().fields()) {
      ViewColumn column = new ViewColumn(field.name(), field.dataType().json());
      columns.add(field.getComment().isDefined() ? column.setComment(field.getComment().get()) : column);
    }
    return columns;
  }

  private static List<String> names(List<ViewColumn> columns) {
    return columns.stream().map(ViewColumn::getName).toList();
  }

  private static void store(QualifiedName name, ViewInfo view, boolean replace, boolean ifNotExists) {
    Planner.askOrThrow(
        planner -> {
          planner.createView(name.reference(), view, replace, ifNotExists);
          return null;
        });
  }

  private static ViewInfo load(QualifiedName name) {
    return ViewResolution.load(name).orElseThrow(() -> missing(name));
  }

  private static RuntimeException missing(QualifiedName name) {
    return new IllegalArgumentException("There is no view " + name + "; SHOW VIEWS lists those that there are");
  }

  private static QualifiedName name(Map<String, Object> fields) {
    return CatalogRegistry.ofActiveSession().ours(cast(fields.get("view"))).orElseThrow();
  }

  private static StructType texts(String... names) {
    StructType columns = new StructType();
    for (String name : names) {
      columns = columns.add(name, DataTypes.StringType);
    }
    return columns;
  }

  private static InternalRow row(String... values) {
    Object[] row = new Object[values.length];
    for (int i = 0; i < row.length; i++) {
      row[i] = text(values[i]);
    }
    return new GenericInternalRow(row);
  }

  private static UTF8String text(String value) {
    return UTF8String.fromString(value);
  }

  private static String literal(String value) {
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'";
  }

  @SuppressWarnings("unchecked")
  private static <T> T cast(Object value) {
    return (T) value;
  }
}
