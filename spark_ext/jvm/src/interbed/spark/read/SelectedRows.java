package interbed.spark.read;

import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/** Some rows of a column, without a copy. The owner of the column closes it. */
final class SelectedRows extends ColumnVector {
  private final ColumnVector column;
  private final int[] rows;

  /** `rows` are the numbers of the selected rows of the column, in their order. */
  SelectedRows(ColumnVector column, int[] rows) {
    super(column.dataType());
    this.column = column;
    this.rows = rows;
  }

  @Override
  public boolean hasNull() {
    return column.hasNull();
  }

  /** The number in the whole column: Spark only checks whether there are any. */
  @Override
  public int numNulls() {
    return column.numNulls();
  }

  @Override
  public boolean isNullAt(int row) {
    return column.isNullAt(rows[row]);
  }

  @Override
  public boolean getBoolean(int row) {
    return column.getBoolean(rows[row]);
  }

  @Override
  public byte getByte(int row) {
    return column.getByte(rows[row]);
  }

  @Override
  public short getShort(int row) {
    return column.getShort(rows[row]);
  }

  @Override
  public int getInt(int row) {
    return column.getInt(rows[row]);
  }

  @Override
  public long getLong(int row) {
    return column.getLong(rows[row]);
  }

  @Override
  public float getFloat(int row) {
    return column.getFloat(rows[row]);
  }

  @Override
  public double getDouble(int row) {
    return column.getDouble(rows[row]);
  }

  @Override
  public ColumnarArray getArray(int row) {
    return column.getArray(rows[row]);
  }

  @Override
  public ColumnarMap getMap(int row) {
    return column.getMap(rows[row]);
  }

  @Override
  public UTF8String getUTF8String(int row) {
    return column.getUTF8String(rows[row]);
  }

  @Override
  public byte[] getBinary(int row) {
    return column.getBinary(rows[row]);
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    return column.getDecimal(rows[row], precision, scale);
  }

  /** A struct's fields are read by the row of the struct. */
  @Override
  public ColumnVector getChild(int ordinal) {
    return new SelectedRows(column.getChild(ordinal), rows);
  }

  @Override
  public void close() {}

  @Override
  public void closeIfFreeable() {}
}
