package interbed.spark.read;

import interbed.spark.planner.PythonCommand;
import interbed.spark.planner.PythonWorkerChannel;
import java.io.EOFException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Reads one split through a Python worker.
 *
 * <p>The worker sends a marker before each Arrow message, so that it can send an error instead of a batch. The vectors of the
 * stream are reused for every batch and wrapped once; they are matched to the read schema by position.
 */
final class ArrowSplitReader implements PartitionReader<ColumnarBatch> {
  private final PythonWorkerChannel worker;
  private final BufferAllocator allocator;
  private final ArrowStreamReader stream;
  private final int columnCount;
  private final List<PlainColumn> plain = new ArrayList<>();
  private ColumnarBatch batch;
  private boolean drained;

  ArrowSplitReader(PythonCommand command, byte[] task, byte[] split, int columnCount) {
    this.columnCount = columnCount;
    worker = PythonWorkerChannel.open(command, PythonWorkerChannel.Operation.READ, task, split);
    allocator = ArrowUtils.rootAllocator().newChildAllocator("interbed-read", 0, Long.MAX_VALUE);
    stream = new ArrowStreamReader(worker, allocator);
  }

  @Override
  public boolean next() throws IOException {
    if (drained) {
      return false;
    }
    switch (worker.readInt()) {
      case PythonWorkerChannel.BATCH -> {
        if (!stream.loadNextBatch()) {
          throw new EOFException("The Python worker announced a batch and sent none");
        }
        VectorSchemaRoot root = stream.getVectorSchemaRoot();
        if (batch == null) {
          batch = new ColumnarBatch(wrapped(root));
        }
        plain.forEach(PlainColumn::locate);
        batch.setNumRows(root.getRowCount());
        return true;
      }
      case PythonWorkerChannel.END -> {
        drained = true;
        return false;
      }
      default -> throw worker.failure();
    }
  }

  private ColumnVector[] wrapped(VectorSchemaRoot root) {
    ColumnVector[] columns = new ColumnVector[columnCount];
    for (int i = 0; i < columnCount; i++) {
      FieldVector vector = root.getVector(i);
      PlainColumn column = PlainColumn.of(vector);
      if (column != null) {
        plain.add(column);
      }
      columns[i] = column == null ? new BorrowedColumn(vector) : column;
    }
    return columns;
  }

  @Override
  public ColumnarBatch get() {
    return batch;
  }

  @Override
  public void close() throws IOException {
    try {
      stream.close(false);
    } finally {
      if (drained) {
        worker.release();
      } else {
        worker.hangUp();
      }
      allocator.close();
    }
  }
}
