package interbed.spark;

import interbed.spark.CatalogStatement.Action;
import java.util.Collections;
import java.util.Iterator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** Carries out one {@link CatalogStatement} in the session that runs it. */
final class CatalogProcedure implements UnboundProcedure, BoundProcedure {
  private final Action action;

  CatalogProcedure(Action action) {
    this.action = action;
  }

  @Override
  public String name() {
    return CatalogStatement.procedureName(action);
  }

  @Override
  public BoundProcedure bind(StructType inputType) {
    return this;
  }

  @Override
  public boolean isDeterministic() {
    return false;
  }

  @Override
  public ProcedureParameter[] parameters() {
    return new ProcedureParameter[] {ProcedureParameter.in("statement", DataTypes.StringType).build()};
  }

  @Override
  public Iterator<Scan> call(InternalRow input) {
    CatalogStatement statement = CatalogStatement.decode(action, input.getUTF8String(0).toString());
    CatalogRegistry registry = CatalogRegistry.ofActiveSession();
    try {
      if (action == Action.CREATE) {
        registry.create(statement.catalog(), statement.options(), statement.lenient());
      } else {
        registry.drop(statement.catalog(), statement.lenient());
      }
    } finally {
      // So that SHOW CATALOGS lists the user's catalogs only.
      registry.forget(CatalogStatement.SYSTEM_CATALOG);
    }
    return Collections.emptyIterator();
  }
}
