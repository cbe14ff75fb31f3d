package interbed.spark.statement;

import interbed.spark.catalog.CatalogRegistry;
import interbed.spark.catalog.QualifiedName;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import org.apache.spark.sql.catalyst.analysis.CurrentNamespace$;
import org.apache.spark.sql.catalyst.analysis.UnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedNamespace;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableOrView;
import org.apache.spark.sql.catalyst.analysis.UnresolvedView;
import org.apache.spark.sql.catalyst.plans.logical.AlterViewAs;
import org.apache.spark.sql.catalyst.plans.logical.CreateView;
import org.apache.spark.sql.catalyst.plans.logical.DescribeRelation;
import org.apache.spark.sql.catalyst.plans.logical.DropView;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.RenameTable;
import org.apache.spark.sql.catalyst.plans.logical.SetViewProperties;
import org.apache.spark.sql.catalyst.plans.logical.ShowColumns;
import org.apache.spark.sql.catalyst.plans.logical.ShowCreateTable;
import org.apache.spark.sql.catalyst.plans.logical.ShowTables;
import org.apache.spark.sql.catalyst.plans.logical.ShowTablesExtended;
import org.apache.spark.sql.catalyst.plans.logical.ShowViews;
import org.apache.spark.sql.catalyst.plans.logical.UnsetViewProperties;
import org.apache.spark.sql.classic.SparkSession;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Statements about views of our catalogs, which Spark parses and refuses: each becomes a call of {@link ViewProcedures}. */
public final class ViewStatements implements StatementTranslation {
  @Override
  public Optional<String> translate(String sql, LogicalPlan parsed) {
    if (parsed instanceof CreateView create) {
      // A temporary view of the same name hides it, and is no obstacle.
      return permanent(create.child()).map(name -> SystemCall.of("create_view", fields(name, fields -> {
        if (create.viewSchemaMode().toString().equals("EVOLUTION")) {
          throw new IllegalArgumentException(
              "The view " + name + " would keep its columns: WITH SCHEMA EVOLUTION is not supported; leave it out");
        }
        collation(create).filter(each -> !each.equalsIgnoreCase("UTF8_BINARY")).ifPresent(each -> {
          throw new IllegalArgumentException(
              "The view " + name + " would compare texts by their bytes: DEFAULT COLLATION " + each
                  + " is not supported; leave it out, and write COLLATE " + each + " in the query");
        });
        List<Map<String, String>> columns = new ArrayList<>();
        for (Tuple2<String, Option<String>> column : CollectionConverters.asJava(create.userSpecifiedColumns())) {
          Map<String, String> given = new HashMap<>();
          given.put("name", column._1());
          given.put("comment", column._2().isDefined() ? column._2().get() : null);
          columns.add(given);
        }
        fields.put("columns", columns);
        fields.put("comment", create.comment().isDefined() ? create.comment().get() : null);
        fields.put("properties", CollectionConverters.asJava(create.properties()));
        fields.put("query", create.originalText().isDefined() ? create.originalText().get() : null);
        fields.put("ifNotExists", create.allowExisting());
        fields.put("replace", create.replace());
      })));
    }
    if (parsed instanceof DropView drop) {
      return call("drop_view", drop.child(), fields -> fields.put("ifExists", drop.ifExists()));
    }
    if (parsed instanceof AlterViewAs alter) {
      return call("alter_view_as", alter.child(), fields -> fields.put("query", alter.originalText()));
    }
    if (parsed instanceof SetViewProperties set) {
      return call(
          "set_view_properties",
          set.child(),
          fields -> fields.put("set", CollectionConverters.asJava(set.properties())));
    }
    if (parsed instanceof UnsetViewProperties unset) {
      return call("set_view_properties", unset.child(), fields -> {
        fields.put("unset", CollectionConverters.asJava(unset.propertyKeys()));
        fields.put("ifExists", unset.ifExists());
      });
    }
    if (parsed instanceof RenameTable rename && rename.isView()) {
      return call("rename_view", rename.child(), fields -> fields.put("to", CollectionConverters.asJava(rename.newName())));
    }
    if (parsed instanceof ShowViews show) {
      return inNamespace("show_views", show.namespace(), show.pattern(), null);
    }
    if (parsed instanceof ShowTablesExtended show) {
      return inNamespace("show_tables_extended", show.namespace(), Option.apply(show.pattern()), sql);
    }
    if (parsed instanceof ShowColumns show) {
      return ofView("show_columns_of_view", show.child(), fields -> {});
    }
    if (parsed instanceof ShowTables show) {
      ViewListing.markStatement(show);
    }
    if (parsed instanceof DescribeRelation describe) {
      return ofView("describe_view", describe.relation(), fields -> fields.put("extended", describe.isExtended()));
    }
    if (parsed instanceof ShowCreateTable show) {
      return ofView("show_create_view", show.child(), fields -> {});
    }
    return Optional.empty();
  }

  /** The collation of a DEFAULT COLLATION, which not every version of Spark has. */
  private static Optional<String> collation(CreateView create) {
    return CollectionConverters.asJava(create.productElementNames().zip(create.productIterator()).toList()).stream()
        .filter(field -> field._1().equals("collation"))
        .map(field -> (Option<?>) field._2())
        .filter(Option::isDefined)
        .map(given -> given.get().toString())
        .findFirst();
  }

  /** A call about the views of a namespace in a catalog of ours. */
  private static Optional<String> inNamespace(
      String procedure, LogicalPlan within, Option<String> pattern, String statement) {
    List<String> namespace;
    if (within instanceof UnresolvedNamespace named) {
      namespace = CollectionConverters.asJava(named.multipartIdentifier());
    } else if (within == CurrentNamespace$.MODULE$) {
      namespace = List.of();
    } else {
      return Optional.empty();
    }
    return CatalogRegistry.ofActiveSession()
        .ourNamespace(namespace)
        .filter(ViewStatements::keepsViews)
        .map(
            name ->
                SystemCall.of(
                    procedure,
                    fields(
                        name,
                        fields -> {
                          fields.put("pattern", pattern.isDefined() ? pattern.get() : null);
                          fields.put("statement", statement);
                        })));
  }

  /** A call about a view in a catalog of ours. */
  private static Optional<String> call(String procedure, LogicalPlan named, Consumer<Map<String, Object>> more) {
    return name(named).map(name -> SystemCall.of(procedure, fields(name, more)));
  }

  /** The same for statements that may also be about a table. */
  private static Optional<String> ofView(
      String procedure, LogicalPlan named, Consumer<Map<String, Object>> more) {
    return name(named)
        .filter(name -> ViewResolution.load(name).isPresent())
        .map(name -> SystemCall.of(procedure, fields(name, more)));
  }

  private static Map<String, Object> fields(QualifiedName name, Consumer<Map<String, Object>> more) {
    Map<String, Object> fields = new HashMap<>();
    fields.put("view", name.parts());
    more.accept(fields);
    return fields;
  }

  /** The name in a catalog of ours; empty for a temporary view, which Spark resolves. */
  private static Optional<QualifiedName> name(LogicalPlan named) {
    Optional<Seq<String>> parts = parts(named);
    if (parts.isPresent()
        && ((SparkSession) org.apache.spark.sql.SparkSession.active()).sessionState().catalog().isTempView(parts.get())) {
      return Optional.empty();
    }
    return permanent(named);
  }

  private static Optional<QualifiedName> permanent(LogicalPlan named) {
    return parts(named)
        .flatMap(parts -> CatalogRegistry.ofActiveSession().ours(CollectionConverters.asJava(parts)))
        .filter(ViewStatements::keepsViews);
  }

  /** In spark_catalog views are Spark's own, like all objects that are not tables of ours. */
  private static boolean keepsViews(QualifiedName name) {
    return !name.catalog().hasForeignTables();
  }

  private static Optional<Seq<String>> parts(LogicalPlan named) {
    if (named instanceof UnresolvedIdentifier identifier) {
      return Optional.of(identifier.nameParts());
    }
    if (named instanceof UnresolvedTableOrView either) {
      return Optional.of(either.multipartIdentifier());
    }
    if (named instanceof UnresolvedView view) {
      return Optional.of(view.multipartIdentifier());
    }
    return Optional.empty();
  }
}
