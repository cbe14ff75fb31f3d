package interbed.spark.procedure;

import java.util.List;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.types.StructType;

/**
 * A procedure that does not exist. It throws when it is bound, because Spark replaces an error while a procedure is loaded by
 * a message without the reason.
 */
record UnknownProcedure(String name, List<String> known) implements UnboundProcedure {
  @Override
  public BoundProcedure bind(StructType inputType) {
    throw new IllegalArgumentException("There is no procedure " + name + "; there are " + String.join(", ", known));
  }
}
