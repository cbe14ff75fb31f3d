package interbed.spark.statement;

import interbed.spark.catalog.QualifiedName;
import interbed.spark.planner.Unchecked;
import interbed.spark.value.Names;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.CTESubstitution;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Refuses a view over temporary views or functions, which end with the session, as Spark does in its own catalog. */
final class TemporaryReferences {
  private final SessionCatalog catalog;
  private final QualifiedName view;

  private TemporaryReferences(SparkSession session, QualifiedName view) {
    this.catalog = session.sessionState().catalog();
    this.view = view;
  }

  /** Throws INVALID_TEMP_OBJ_REFERENCE for a parsed query that names a temporary view or function. */
  static void refuse(SparkSession session, QualifiedName view, LogicalPlan query) {
    new TemporaryReferences(session, view).visit(CTESubstitution.apply(query));
  }

  private void visit(LogicalPlan node) {
    if (node instanceof UnresolvedRelation relation) {
      Seq<String> name = relation.multipartIdentifier();
      if (catalog.isTempView(name)) {
        throw refused(CollectionConverters.asJava(name), "VIEW");
      }
    }
    CollectionConverters.asJava(node.expressions()).forEach(this::visit);
    // Queries of a WITH are inner children, which a traversal of the plain children skips.
    CollectionConverters.asJava(node.innerChildren()).forEach(
        inner -> {
          if (inner instanceof LogicalPlan plan) {
            visit(plan);
          }
        });
    CollectionConverters.asJava(node.children()).forEach(this::visit);
  }

  private void visit(Expression expression) {
    if (expression instanceof SubqueryExpression subquery) {
      visit(subquery.plan());
    }
    if (expression instanceof UnresolvedFunction function) {
      List<String> name = CollectionConverters.asJava(function.nameParts());
      if (name.size() == 1 && catalog.isTemporaryFunction(new FunctionIdentifier(name.get(0)))) {
        throw refused(name, "FUNCTION");
      }
    }
    CollectionConverters.asJava(expression.children()).forEach(this::visit);
  }

  private RuntimeException refused(List<String> name, String kind) {
    Map<String, String> parameters =
        Map.of(
            "obj", "VIEW",
            "objName", String.join(".", Names.quoted(view.parts())),
            "tempObj", kind,
            "tempObjName", String.join(".", Names.quoted(name)));
    return Unchecked.rethrow(
        new AnalysisException(
            "INVALID_TEMP_OBJ_REFERENCE", scala.collection.immutable.Map.from(CollectionConverters.asScala(parameters))));
  }
}
