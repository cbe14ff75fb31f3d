package interbed.spark.read;

import org.apache.arrow.vector.ValueVector;
import org.apache.spark.sql.vectorized.ArrowColumnVector;

/**
 * A column whose Arrow vector belongs to a stream that loads its next batch into it.
 *
 * <p>Spark closes a batch when it is done with it. Of a struct's vector that would take the children away, so that the next
 * batch could not be loaded; the stream lets the memory go itself.
 */
final class BorrowedColumn extends ArrowColumnVector {
  BorrowedColumn(ValueVector vector) {
    super(vector);
  }

  @Override
  public void close() {}

  @Override
  public void closeIfFreeable() {}
}
