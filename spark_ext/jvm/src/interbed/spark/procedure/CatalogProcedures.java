package interbed.spark.procedure;

import interbed.spark.catalog.InterbedCatalog;
import interbed.spark.planner.Planner;
import interbed.spark.rewrite.RowStatement;
import interbed.spark.thrift.ProcedureInfo;
import java.util.List;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;

/** The procedures of {@code SparkCatalog}: all are in the namespace sys, and all are Python's. */
public interface CatalogProcedures extends InterbedCatalog, ProcedureCatalog {
  /** The namespace of all procedures. */
  String NAMESPACE = "sys";

  /** Overrides ProcedureCatalog.listProcedures() of Spark 4.1 and later; has no annotation, so that it compiles with 4.0. */
  default Identifier[] listProcedures(String[] namespace) {
    return infos().stream()
        .map(info -> Identifier.of(new String[] {NAMESPACE}, info.getName()))
        .toArray(Identifier[]::new);
  }

  @Override
  default UnboundProcedure loadProcedure(Identifier identifier) {
    if (RowStatement.PROCEDURE.equals(identifier.name())) {
      return new RowStatement(this);
    }
    if (identifier.namespace().length == 1 && NAMESPACE.equalsIgnoreCase(identifier.namespace()[0])) {
      for (ProcedureInfo info : infos()) {
        if (info.getName().equalsIgnoreCase(identifier.name())) {
          return new PlannedProcedure(reference(), info);
        }
      }
    }
    List<String> known = infos().stream().map(info -> NAMESPACE + "." + info.getName()).sorted().toList();
    return new UnknownProcedure(reference().getName() + "." + identifier, known);
  }

  private List<ProcedureInfo> infos() {
    return Planner.askOrThrow(planner -> planner.listProcedures(reference()));
  }
}
