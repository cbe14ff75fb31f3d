package interbed.spark.function;

import java.util.Arrays;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/** The bucket function for keys of any number and type. */
class RowBucket implements ScalarFunction<Integer> {
  private static final long serialVersionUID = 1L;

  private final DataType[] keys;

  RowBucket(DataType... keys) {
    this.keys = keys;
  }

  @Override
  public String name() {
    return BucketFunction.NAME;
  }

  @Override
  public DataType[] inputTypes() {
    DataType[] types = new DataType[keys.length + 1];
    types[0] = DataTypes.IntegerType;
    System.arraycopy(keys, 0, types, 1, keys.length);
    return types;
  }

  @Override
  public DataType resultType() {
    return DataTypes.IntegerType;
  }

  @Override
  public boolean isResultNullable() {
    return false;
  }

  /** Equal for functions with equal buckets: so Spark decides whether two tables have the same bucketing. */
  @Override
  public String canonicalName() {
    return Arrays.stream(keys).map(DataType::typeName).collect(Collectors.joining(",", "interbed.bucket(", ")"));
  }

  @Override
  public Integer produceResult(InternalRow input) {
    BucketHash row = new BucketHash(keys.length);
    for (int i = 0; i < keys.length; i++) {
      set(row, i, input, i + 1);
    }
    return row.bucket(input.getInt(0));
  }

  private void set(BucketHash row, int field, InternalRow input, int ordinal) {
    DataType type = keys[field];
    boolean isNull = input.isNullAt(ordinal);
    if (type instanceof DecimalType decimal) {
      row.setDecimal(
          field, isNull ? null : input.getDecimal(ordinal, decimal.precision(), decimal.scale()), decimal.precision());
    } else if (type instanceof TimestampType || type instanceof TimestampNTZType) {
      if (isNull) {
        row.setNullTimestamp(field);
      } else {
        row.setTimestamp(field, input.getLong(ordinal));
      }
    } else if (isNull) {
      row.setNull(field);
    } else if (type instanceof BooleanType) {
      row.setBoolean(field, input.getBoolean(ordinal));
    } else if (type instanceof ByteType) {
      row.setByte(field, input.getByte(ordinal));
    } else if (type instanceof ShortType) {
      row.setShort(field, input.getShort(ordinal));
    } else if (type instanceof LongType) {
      row.setLong(field, input.getLong(ordinal));
    } else if (type instanceof FloatType) {
      row.setFloat(field, input.getFloat(ordinal));
    } else if (type instanceof DoubleType) {
      row.setDouble(field, input.getDouble(ordinal));
    } else if (type instanceof StringType) {
      row.setBytes(field, input.getUTF8String(ordinal).getBytes());
    } else if (type instanceof BinaryType) {
      row.setBytes(field, input.getBinary(ordinal));
    } else {
      // Integers and dates.
      row.setInt(field, input.getInt(ordinal));
    }
  }
}
