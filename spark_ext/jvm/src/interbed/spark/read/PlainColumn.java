package interbed.spark.read;

import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.DateDayVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.Float4Vector;
import org.apache.arrow.vector.Float8Vector;
import org.apache.arrow.vector.IntVector;
import org.apache.arrow.vector.SmallIntVector;
import org.apache.arrow.vector.TimeStampMicroTZVector;
import org.apache.arrow.vector.TimeStampMicroVector;
import org.apache.arrow.vector.TinyIntVector;
import org.apache.arrow.vector.VarBinaryVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column of numbers, times, strings or binaries whose Arrow vector belongs to a stream, see {@link BorrowedColumn}.
 *
 * <p>Spark's own column calls the vector for each value, which checks each time that its memory is allocated and the row is
 * within it. Here the addresses are read once for a batch, and values are read from them as Spark reads its own rows.
 */
final class PlainColumn extends ColumnVector {
  private final FieldVector vector;
  private final boolean isVariable;
  private int nulls;
  private long validity;
  private long offsets;
  private long values;

  private PlainColumn(FieldVector vector) {
    super(ArrowUtils.fromArrowField(vector.getField()));
    this.vector = vector;
    this.isVariable = vector instanceof VarCharVector || vector instanceof VarBinaryVector;
  }

  /** The column of a vector, or null for vectors of other types. */
  static PlainColumn of(FieldVector vector) {
    boolean isPlain =
        vector instanceof BigIntVector
            || vector instanceof IntVector
            || vector instanceof SmallIntVector
            || vector instanceof TinyIntVector
            || vector instanceof Float8Vector
            || vector instanceof Float4Vector
            || vector instanceof DateDayVector
            || vector instanceof TimeStampMicroVector
            || vector instanceof TimeStampMicroTZVector
            || vector instanceof VarCharVector
            || vector instanceof VarBinaryVector;
    return isPlain ? new PlainColumn(vector) : null;
  }

  /** To be called when the stream has loaded the next batch into the vector, and before a value of it is read. */
  void locate() {
    nulls = vector.getNullCount();
    validity = vector.getValidityBufferAddress();
    values = vector.getDataBufferAddress();
    offsets = isVariable ? vector.getOffsetBufferAddress() : 0;
  }

  @Override
  public boolean hasNull() {
    return nulls > 0;
  }

  @Override
  public int numNulls() {
    return nulls;
  }

  @Override
  public boolean isNullAt(int row) {
    return nulls > 0 && (Platform.getByte(null, validity + (row >> 3)) >> (row & 7) & 1) == 0;
  }

  @Override
  public boolean getBoolean(int row) {
    throw unsupported();
  }

  @Override
  public byte getByte(int row) {
    return Platform.getByte(null, values + row);
  }

  @Override
  public short getShort(int row) {
    return Platform.getShort(null, values + (long) Short.BYTES * row);
  }

  @Override
  public int getInt(int row) {
    return Platform.getInt(null, values + (long) Integer.BYTES * row);
  }

  @Override
  public long getLong(int row) {
    return Platform.getLong(null, values + (long) Long.BYTES * row);
  }

  @Override
  public float getFloat(int row) {
    return Platform.getFloat(null, values + (long) Float.BYTES * row);
  }

  @Override
  public double getDouble(int row) {
    return Platform.getDouble(null, values + (long) Double.BYTES * row);
  }

  @Override
  public UTF8String getUTF8String(int row) {
    if (isNullAt(row)) {
      return null;
    }
    int begin = offset(row);
    return UTF8String.fromAddress(null, values + begin, offset(row + 1) - begin);
  }

  @Override
  public byte[] getBinary(int row) {
    if (isNullAt(row)) {
      return null;
    }
    int begin = offset(row);
    byte[] bytes = new byte[offset(row + 1) - begin];
    Platform.copyMemory(null, values + begin, bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length);
    return bytes;
  }

  private int offset(int row) {
    return Platform.getInt(null, offsets + (long) Integer.BYTES * row);
  }

  @Override
  public ColumnarArray getArray(int row) {
    throw unsupported();
  }

  @Override
  public ColumnarMap getMap(int row) {
    throw unsupported();
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    throw unsupported();
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    throw unsupported();
  }

  private UnsupportedOperationException unsupported() {
    return new UnsupportedOperationException("A column of type " + type.simpleString() + " has no such values");
  }

  @Override
  public void close() {}

  @Override
  public void closeIfFreeable() {}
}
