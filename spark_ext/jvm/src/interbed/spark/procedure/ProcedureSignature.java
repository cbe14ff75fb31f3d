package interbed.spark.procedure;

import interbed.spark.thrift.ProcedureInfo;
import interbed.spark.thrift.ProcedureParameter;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** The signature of a procedure, for messages: Spark's own messages about wrong arguments don't have it. */
record ProcedureSignature(String name, List<ProcedureParameter> parameters) {
  static ProcedureSignature of(ProcedureInfo info) {
    return new ProcedureSignature(info.getName(), info.getParameters());
  }

  /** Throws IllegalArgumentException for unknown and for missing arguments. */
  void check(StructType arguments) {
    Set<String> given = new HashSet<>();
    int position = 0;
    for (StructField argument : arguments.fields()) {
      boolean named =
          argument.metadata().contains(
              org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter.BY_NAME_METADATA_KEY);
      if (!named && position >= parameters.size()) {
        throw error("takes " + parameters.size() + " arguments at most, not " + arguments.length());
      }
      String parameter = named ? argument.name() : parameters.get(position++).getName();
      if (parameters.stream().noneMatch(known -> known.getName().equalsIgnoreCase(parameter))) {
        throw error("has no argument '" + parameter + "'");
      }
      if (!given.add(parameter.toLowerCase(Locale.ROOT))) {
        throw error("is given the argument '" + parameter + "' twice");
      }
    }
    for (ProcedureParameter parameter : parameters) {
      if (parameter.isMandatory() && !given.contains(parameter.getName().toLowerCase(Locale.ROOT))) {
        throw error("lacks the argument '" + parameter.getName() + "'");
      }
    }
  }

  private IllegalArgumentException error(String what) {
    return new IllegalArgumentException("The procedure " + name + " " + what + ". It is called as " + this + ".");
  }

  @Override
  public String toString() {
    return parameters.stream()
        .map(ProcedureSignature::text)
        .collect(Collectors.joining(", ", CatalogProcedures.NAMESPACE + "." + name + "(", ")"));
  }

  private static String text(ProcedureParameter parameter) {
    String text = parameter.getName() + " " + DataType.fromJson(parameter.getTypeJson()).sql();
    return parameter.isMandatory() ? text : "[" + text + "]";
  }
}
