package interbed.spark.write;

import interbed.spark.planner.PythonWorkerChannel;
import java.io.IOException;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.arrow.ArrowWriter;

/**
 * Sends a task's rows to a Python worker in Arrow batches; the worker writes the files.
 *
 * <p>The worker acknowledges each batch, and the acknowledgement is awaited only before the batch after the next: both sides
 * work at the same time, and an error in Python ends the task after at most one more batch. The worker deletes its files when it
 * fails, after an abort, and when the connection is lost.
 */
public final class ArrowTaskWriter implements DataWriter<InternalRow> {
  private static final int BATCH_ROWS = 16 * 1024;

  // Batches of wide rows end before their row count: each side has at most these bytes and one row.
  private static final long BATCH_BYTES = 16L * 1024 * 1024;

  // The size of the vectors is computed only at this interval of rows, because it needs all columns.
  private static final int SIZE_CHECK_ROWS = 256;

  private final PythonWorkerChannel worker;
  private final ArrowWriter rows;
  private final VectorSchemaRoot root;
  private final ArrowStreamWriter stream;
  private int rowCount;
  private boolean acknowledgementDue;
  private boolean betweenBatches = true;
  private boolean finished;

  public ArrowTaskWriter(ArrowTaskWriterFactory factory) {
    rows = ArrowWriter.create(factory.schema(), factory.timeZone(), true, false);
    root = rows.root();
    try {
      worker =
          PythonWorkerChannel.open(factory.command(), PythonWorkerChannel.Operation.WRITE, factory.task().bytes());
    } catch (RuntimeException error) {
      root.close();
      throw error;
    }
    stream = new ArrowStreamWriter(root, null, worker);
  }

  @Override
  public void write(InternalRow row) throws IOException {
    rows.write(row);
    rowCount++;
    if (rowCount >= BATCH_ROWS || (rowCount % SIZE_CHECK_ROWS == 0 && bufferedBytes() >= BATCH_BYTES)) {
      send();
    }
  }

  private long bufferedBytes() {
    long bytes = 0;
    for (FieldVector vector : root.getFieldVectors()) {
      // Sizes are only known up to the value count, which is otherwise set when the batch is finished.
      vector.setValueCount(rowCount);
      bytes += vector.getBufferSize();
    }
    return bytes;
  }

  private void send() throws IOException {
    if (rowCount == 0) {
      return;
    }
    rows.finish();
    awaitAcknowledgement();
    betweenBatches = false;
    worker.writeInt(PythonWorkerChannel.BATCH);
    // The first batch is preceded by the schema, which writeBatch sends by itself.
    stream.writeBatch();
    betweenBatches = true;
    acknowledgementDue = true;
    rows.reset();
    rowCount = 0;
  }

  private void awaitAcknowledgement() throws IOException {
    if (acknowledgementDue) {
      acknowledgementDue = false;
      if (worker.readInt() != PythonWorkerChannel.BATCH) {
        throw worker.failure();
      }
    }
  }

  @Override
  public WriterCommitMessage commit() throws IOException {
    send();
    awaitAcknowledgement();
    worker.writeInt(PythonWorkerChannel.END);
    if (worker.readInt() != PythonWorkerChannel.END) {
      throw worker.failure();
    }
    TaskCommitMessage message = new TaskCommitMessage(worker.readBytes());
    // A job that fails kills its other tasks. The driver never gets the message of a killed task, and could not delete its
    // files. This throws, and Spark calls abort.
    TaskContext context = TaskContext.get();
    if (context != null) {
      context.killTaskIfInterrupted();
    }
    worker.writeInt(PythonWorkerChannel.END);
    finished = true;
    return message;
  }

  /**
   * Lets the worker delete its files, and waits for that. If the connection is lost, close() hangs up, and the worker deletes its
   * files without a wait here.
   */
  @Override
  public void abort() {
    if (finished || !betweenBatches || !worker.isOpen()) {
      return;
    }
    try {
      awaitAcknowledgement();
      worker.writeInt(PythonWorkerChannel.ABORT);
      finished = worker.readInt() == PythonWorkerChannel.END;
    } catch (Exception error) {
      // The task fails for another reason, which this error must not hide.
      worker.hangUp();
    }
  }

  @Override
  public void close() {
    try {
      root.close();
    } finally {
      if (finished) {
        worker.release();
      } else {
        worker.hangUp();
      }
    }
  }
}
