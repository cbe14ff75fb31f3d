package interbed.spark.function;

import java.util.Arrays;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/** bucket(n, column, …): the bucket of a row among n buckets, by Paimon's default bucket function. */
public final class BucketFunction implements UnboundFunction {
  public static final String NAME = "bucket";

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String description() {
    return "bucket(n, column, ...): the bucket of a row in a table with n buckets and these bucket columns; timestamps"
        + " as of precision 6";
  }

  @Override
  public BoundFunction bind(StructType inputType) {
    StructField[] fields = inputType.fields();
    if (fields.length < 2 || !isInteger(fields[0].dataType())) {
      throw new UnsupportedOperationException("bucket takes the number of buckets and one column or more");
    }
    DataType[] keys = Arrays.stream(fields).skip(1).map(StructField::dataType).toArray(DataType[]::new);
    for (DataType key : keys) {
      if (!isSupported(key)) {
        throw new UnsupportedOperationException("A column of type " + key.sql() + " cannot be hashed into buckets");
      }
    }
    // The static methods take primitives, which can't be null.
    if (keys.length == 1 && !fields[1].nullable()) {
      DataType key = keys[0];
      if (key instanceof IntegerType || key instanceof DateType) {
        return new OneColumnBucket.OfInt(key);
      }
      if (key instanceof LongType) {
        return new OneColumnBucket.OfLong(key);
      }
      if (key instanceof ShortType) {
        return new OneColumnBucket.OfShort(key);
      }
      if (key instanceof ByteType) {
        return new OneColumnBucket.OfByte(key);
      }
      if (key instanceof StringType) {
        return new OneColumnBucket.OfString(key);
      }
    }
    return new RowBucket(keys);
  }

  private static boolean isInteger(DataType type) {
    return type instanceof IntegerType || type instanceof ShortType || type instanceof ByteType;
  }

  private static boolean isSupported(DataType type) {
    return type instanceof BooleanType
        || type instanceof ByteType
        || type instanceof ShortType
        || type instanceof IntegerType
        || type instanceof LongType
        || type instanceof FloatType
        || type instanceof DoubleType
        || type instanceof DecimalType
        || type instanceof StringType
        || type instanceof BinaryType
        || type instanceof DateType
        || type instanceof TimestampType
        || type instanceof TimestampNTZType;
  }
}
