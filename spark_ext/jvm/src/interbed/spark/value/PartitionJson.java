package interbed.spark.value;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Base64;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** Values of partition columns as JSON, in the forms of {@link PredicateJson}'s literals. */
public final class PartitionJson {
  private static final ObjectMapper JSON = new ObjectMapper();

  private PartitionJson() {}

  /** An object of the values of the first columns, as many as the row has. */
  public static String of(List<String> columns, StructType schema, InternalRow row) {
    ObjectNode values = JSON.createObjectNode();
    for (int i = 0; i < row.numFields(); i++) {
      DataType type = schema.apply(columns.get(i)).dataType();
      Object value = row.isNullAt(i) ? null : row.get(i, type);
      PredicateJson.putValue(values, columns.get(i), value);
    }
    return values.toString();
  }

  /** The row of an array of all partition columns' values. */
  public static InternalRow row(String json, StructType schema) {
    try {
      JsonNode values = JSON.readTree(json);
      Object[] row = new Object[schema.size()];
      for (int i = 0; i < row.length; i++) {
        StructField field = schema.apply(i);
        row[i] = values.get(i).isNull() ? null : value(values.get(i), field.dataType());
      }
      return new GenericInternalRow(row);
    } catch (JsonProcessingException error) {
      throw new IllegalArgumentException("Not a partition: " + json, error);
    }
  }

  private static Object value(JsonNode node, DataType type) {
    if (type instanceof StringType) {
      return UTF8String.fromString(node.textValue());
    }
    if (type instanceof IntegerType || type instanceof DateType) {
      return node.intValue();
    }
    if (type instanceof BooleanType) {
      return node.booleanValue();
    }
    if (type instanceof ByteType) {
      return (byte) node.intValue();
    }
    if (type instanceof ShortType) {
      return (short) node.intValue();
    }
    if (type instanceof FloatType) {
      return Float.valueOf(node.textValue());
    }
    if (type instanceof DoubleType) {
      return Double.valueOf(node.textValue());
    }
    if (type instanceof DecimalType decimal) {
      return Decimal.apply(new java.math.BigDecimal(node.textValue()), decimal.precision(), decimal.scale());
    }
    if (type instanceof BinaryType) {
      return Base64.getDecoder().decode(node.textValue());
    }
    // Longs, and timestamps in microseconds.
    return node.longValue();
  }
}
