package interbed.spark.read;

import org.apache.arrow.vector.ValueVector;
import org.apache.spark.sql.vectorized.ArrowColumnVector;

/**
 * A column whose Arrow vector belongs to a stream that loads its next batch into it.
 *
 * <p>Spark closes a batch after its use. That would remove the children of a struct's vector, so that the next batch could not be
 * loaded; therefore only the stream frees the memory.
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
