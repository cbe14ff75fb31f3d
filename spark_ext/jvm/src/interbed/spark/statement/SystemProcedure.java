package interbed.spark.statement;

import interbed.spark.catalog.CatalogRegistry;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Procedure of a translated statement: a function from the fields of a {@link SystemCall} to rows of these columns, in the
 * session that runs it.
 */
record SystemProcedure(String name, StructType output, Function<Map<String, Object>, List<InternalRow>> body)
    implements UnboundProcedure, BoundProcedure {
  /** A procedure of a statement without a result. */
  static SystemProcedure silent(String name, Consumer<Map<String, Object>> body) {
    return new SystemProcedure(
        name,
        new StructType(),
        fields -> {
          body.accept(fields);
          return List.of();
        });
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
  public String description() {
    return "interbed's " + name;
  }

  @Override
  public Iterator<Scan> call(InternalRow input) {
    try {
      List<InternalRow> rows = body.apply(SystemCall.fields(input.getUTF8String(0).toString()));
      if (output.isEmpty()) {
        return Collections.emptyIterator();
      }
      return List.<Scan>of(new Result(output, rows.toArray(InternalRow[]::new))).iterator();
    } finally {
      // Removed, so that SHOW CATALOGS lists only the user's catalogs.
      CatalogRegistry.ofActiveSession().forget(SystemCall.CATALOG);
    }
  }

  private record Result(StructType readSchema, InternalRow[] rows) implements LocalScan {}
}
