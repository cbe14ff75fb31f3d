package interbed.spark.statement;

import java.util.List;
import java.util.stream.Stream;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The catalog of the procedures of translated statements; see {@link SystemCall}. */
public final class SystemCatalog implements ProcedureCatalog {
  /** All procedures, by subject. */
  private static final List<SystemProcedure> PROCEDURES =
      Stream.of(
              CatalogStatement.PROCEDURES,
              TagStatement.PROCEDURES,
              LikeStatement.PROCEDURES,
              DropPartitionStatements.PROCEDURES,
              ViewProcedures.PROCEDURES,
              FunctionStatements.PROCEDURES,
              GrantStatement.PROCEDURES,
              PolicyStatement.PROCEDURES,
              AnalyzeStatements.PROCEDURES)
          .flatMap(List::stream)
          .toList();

  private String name;

  @Override
  public void initialize(String catalogName, CaseInsensitiveStringMap options) {
    name = catalogName;
  }

  @Override
  public String name() {
    return name;
  }

  /** Overrides ProcedureCatalog.listProcedures() of Spark 4.1 and later; has no annotation, so that it compiles with 4.0. */
  public Identifier[] listProcedures(String[] namespace) {
    return new Identifier[0];
  }

  @Override
  public UnboundProcedure loadProcedure(Identifier identifier) {
    for (SystemProcedure procedure : PROCEDURES) {
      if (procedure.name().equals(identifier.name())) {
        return procedure;
      }
    }
    throw new IllegalArgumentException("No procedure " + identifier + "; write CREATE CATALOG or DROP CATALOG instead");
  }
}
