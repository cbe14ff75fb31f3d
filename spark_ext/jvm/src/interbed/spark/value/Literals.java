package interbed.spark.value;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.math.BigDecimal;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;

/** Rows of values that the planner sends: a JSON list of Spark's own values; interbed/spark_ext/values/predicates.py writes it. */
public final class Literals {
  private static final ObjectMapper JSON = new ObjectMapper();

  private Literals() {}

  public static InternalRow row(String json, DataType[] types) {
    JsonNode values;
    try {
      values = JSON.readTree(json);
    } catch (JsonProcessingException error) {
      throw new IllegalArgumentException("Not a row of values: " + json, error);
    }
    Object[] row = new Object[types.length];
    for (int i = 0; i < types.length; i++) {
      row[i] = value(values.get(i), types[i]);
    }
    return new GenericInternalRow(row);
  }

  private static Object value(JsonNode node, DataType type) {
    if (node.isNull()) {
      return null;
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
    if (type instanceof IntegerType || type instanceof DateType) {
      return node.intValue();
    }
    if (type instanceof LongType || type instanceof TimestampType || type instanceof TimestampNTZType) {
      return node.longValue();
    }
    if (type instanceof DoubleType) {
      return node.doubleValue();
    }
    if (type instanceof FloatType) {
      return (float) node.doubleValue();
    }
    if (type instanceof DecimalType decimal) {
      return Decimal.apply(new BigDecimal(node.textValue()), decimal.precision(), decimal.scale());
    }
    if (type instanceof StringType) {
      return UTF8String.fromString(node.textValue());
    }
    throw new IllegalArgumentException("The planner sent a value of type " + type.sql());
  }
}
