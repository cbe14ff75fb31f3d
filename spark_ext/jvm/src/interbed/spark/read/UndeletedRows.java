package interbed.spark.read;

import java.io.IOException;
import java.util.Arrays;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Reads the files of a split by Spark's own reader, without the rows at some positions.
 *
 * <p>A batch without deleted rows is returned unchanged. The columns of other batches are wrapped with the numbers of the
 * remaining rows, so that no value is copied.
 */
final class UndeletedRows implements PartitionReader<ColumnarBatch> {
  private final NativeParquet parquet;
  private final SplitPartition split;
  private final long[][] deleted;
  private final int columnCount;
  private PartitionReader<ColumnarBatch> file;
  private int fileIndex = -1;
  /** Number of the file's deleted rows before the next batch. */
  private int passed;
  private ColumnarBatch batch;

  /** `deleted` are positions, ascending, for each file of the split. */
  UndeletedRows(NativeParquet parquet, SplitPartition split, long[][] deleted, int columnCount) {
    this.parquet = parquet;
    this.split = split;
    this.deleted = deleted;
    this.columnCount = columnCount;
  }

  @Override
  public boolean next() throws IOException {
    while (true) {
      if (file != null && file.next()) {
        batch = undeleted(file.get());
        if (batch.numRows() > 0) {
          return true;
        }
      } else if (fileIndex + 1 < deleted.length) {
        close();
        fileIndex++;
        passed = 0;
        file = parquet.openFile(split, fileIndex);
      } else {
        return false;
      }
    }
  }

  private ColumnarBatch undeleted(ColumnarBatch read) {
    ColumnVector position = read.column(columnCount);
    int[] rows = remaining(position, read.numRows());
    ColumnVector[] columns = new ColumnVector[columnCount];
    for (int i = 0; i < columnCount; i++) {
      columns[i] = rows == null ? read.column(i) : new SelectedRows(read.column(i), rows);
    }
    return new ColumnarBatch(columns, rows == null ? read.numRows() : rows.length);
  }

  /** The numbers of the remaining rows; null for all. The positions of a file ascend from batch to batch. */
  private int[] remaining(ColumnVector position, int rowCount) {
    long[] gone = deleted[fileIndex];
    while (passed < gone.length && gone[passed] < position.getLong(0)) {
      passed++;
    }
    if (passed == gone.length || gone[passed] > position.getLong(rowCount - 1)) {
      return null;
    }
    int[] rows = new int[rowCount];
    int kept = 0;
    for (int row = 0; row < rowCount; row++) {
      long here = position.getLong(row);
      // The reader skips row groups by statistics, which may have deleted rows.
      while (passed < gone.length && gone[passed] < here) {
        passed++;
      }
      if (passed == gone.length || gone[passed] != here) {
        rows[kept++] = row;
      }
    }
    return Arrays.copyOf(rows, kept);
  }

  @Override
  public ColumnarBatch get() {
    return batch;
  }

  @Override
  public void close() throws IOException {
    if (file != null) {
      file.close();
      file = null;
    }
  }
}
