package interbed.spark.procedure;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import interbed.spark.thrift.ProcedureParameter;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** A procedure's arguments and rows as JSON; the types are the few that procedures have. */
public final class ProcedureJson {
  private static final ObjectMapper JSON = new ObjectMapper();

  private ProcedureJson() {}

  /** The arguments that are not null, by their names. */
  static String arguments(List<ProcedureParameter> parameters, InternalRow input) {
    ObjectNode arguments = JSON.createObjectNode();
    for (int i = 0; i < parameters.size(); i++) {
      if (!input.isNullAt(i)) {
        ProcedureParameter parameter = parameters.get(i);
        arguments.set(parameter.getName(), argument(input, i, DataType.fromJson(parameter.getTypeJson())));
      }
    }
    return arguments.toString();
  }

  /** The argument of that name as text; null when it is missing. */
  static String text(List<ProcedureParameter> parameters, InternalRow input, String name) {
    for (int i = 0; i < parameters.size(); i++) {
      if (parameters.get(i).getName().equals(name) && !input.isNullAt(i)) {
        return input.getUTF8String(i).toString();
      }
    }
    return null;
  }

  private static JsonNode argument(InternalRow input, int ordinal, DataType type) {
    if (type instanceof MapType) {
      MapData map = input.getMap(ordinal);
      ArrayData keys = map.keyArray();
      ArrayData values = map.valueArray();
      ObjectNode entries = JSON.createObjectNode();
      for (int i = 0; i < map.numElements(); i++) {
        String value = values.isNullAt(i) ? null : values.getUTF8String(i).toString();
        entries.put(keys.getUTF8String(i).toString(), value);
      }
      return entries;
    }
    if (type instanceof BooleanType) {
      return JSON.getNodeFactory().booleanNode(input.getBoolean(ordinal));
    }
    if (type instanceof IntegerType) {
      return JSON.getNodeFactory().numberNode(input.getInt(ordinal));
    }
    if (type instanceof LongType) {
      return JSON.getNodeFactory().numberNode(input.getLong(ordinal));
    }
    if (type instanceof DoubleType) {
      return JSON.getNodeFactory().numberNode(input.getDouble(ordinal));
    }
    return JSON.getNodeFactory().textNode(input.getUTF8String(ordinal).toString());
  }

  /** Converts rows that are JSON arrays to Spark's rows. */
  public static InternalRow[] rows(StructType schema, List<String> rows) {
    return rows.stream().map(row -> row(schema, row)).toArray(InternalRow[]::new);
  }

  private static InternalRow row(StructType schema, String text) {
    try {
      JsonNode values = JSON.readTree(text);
      Object[] row = new Object[schema.length()];
      for (int i = 0; i < row.length; i++) {
        row[i] = values.get(i).isNull() ? null : value(values.get(i), schema.apply(i).dataType());
      }
      return new GenericInternalRow(row);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException("The planner answered with a row that is no JSON: " + text, error);
    }
  }

  private static Object value(JsonNode value, DataType type) {
    if (type instanceof BooleanType) {
      return value.booleanValue();
    }
    if (type instanceof IntegerType) {
      return value.intValue();
    }
    if (type instanceof LongType) {
      return value.longValue();
    }
    if (type instanceof DoubleType) {
      return value.doubleValue();
    }
    if (type instanceof StringType) {
      return UTF8String.fromString(value.textValue());
    }
    throw new IllegalStateException("Procedures return no values of the type " + type.sql());
  }
}
