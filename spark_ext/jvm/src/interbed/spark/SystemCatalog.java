package interbed.spark;

import interbed.spark.CatalogStatement.Action;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A catalog of two procedures, into which CREATE CATALOG and DROP CATALOG are translated. */
public final class SystemCatalog implements ProcedureCatalog {
  private String name;

  @Override
  public void initialize(String catalogName, CaseInsensitiveStringMap options) {
    name = catalogName;
  }

  @Override
  public String name() {
    return name;
  }

  /** Overrides ProcedureCatalog.listProcedures() from Spark 4.1 on; without the annotation 4.0 compiles it, too. */
  public Identifier[] listProcedures(String[] namespace) {
    return new Identifier[0];
  }

  @Override
  public UnboundProcedure loadProcedure(Identifier identifier) {
    for (Action action : Action.values()) {
      if (CatalogStatement.procedureName(action).equals(identifier.name())) {
        return new CatalogProcedure(action);
      }
    }
    throw new IllegalArgumentException("No procedure " + identifier + "; write CREATE CATALOG or DROP CATALOG instead");
  }
}
