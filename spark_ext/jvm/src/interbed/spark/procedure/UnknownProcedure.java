package interbed.spark.procedure;

import java.util.List;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.types.StructType;

/**
 * A procedure that there is none of. It says so when it is bound, because Spark hides what is thrown while a procedure is
 * loaded behind a message without the reason.
 */
record UnknownProcedure(String name, List<String> known) implements UnboundProcedure {
  @Override
  public BoundProcedure bind(StructType inputType) {
    throw new IllegalArgumentException("There is no procedure " + name + "; there are " + String.join(", ", known));
  }
}
