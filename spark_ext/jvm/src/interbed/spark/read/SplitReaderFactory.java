package interbed.spark.read;

import interbed.spark.planner.PythonCommand;
import interbed.spark.planner.PythonWorkerChannel;
import interbed.spark.planner.WorkerTask;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.LongBuffer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Opens splits on executors: by Python over Arrow, or by Spark's Parquet reader if the planner has allowed that. */
final class SplitReaderFactory implements PartitionReaderFactory {
  private static final long serialVersionUID = 1L;

  private final PythonCommand command;
  private final WorkerTask task;
  private final StructType readSchema;
  // Null when there are no native splits, and when this session has no columnar Parquet reader.
  private final NativeParquet nativeParquet;
  // The same reader with positions of rows; null when no native split has deletions.
  private final NativeParquet locatedParquet;

  SplitReaderFactory(
      PythonCommand command,
      WorkerTask task,
      StructType readSchema,
      NativeParquet nativeParquet,
      NativeParquet locatedParquet) {
    this.command = command;
    this.task = task;
    this.readSchema = readSchema;
    this.nativeParquet = nativeParquet;
    this.locatedParquet = locatedParquet;
  }

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return true;
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    throw new UnsupportedOperationException("interbed reads in columns only");
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    SplitPartition split = partition instanceof KeyedSplit keyed ? keyed.split() : (SplitPartition) partition;
    return new MeteredReader(reader(split), split.byteSize());
  }

  private PartitionReader<ColumnarBatch> reader(SplitPartition split) {
    if (split.isNative() && split.hasDeletions() && locatedParquet != null) {
      return new UndeletedRows(locatedParquet, split, deletedPositions(split), readSchema.length());
    }
    if (split.isNative() && !split.hasDeletions() && nativeParquet != null) {
      return nativeParquet.open(split);
    }
    return new ArrowSplitReader(command, task.bytes(), split.payload(), readSchema.length());
  }

  /** The positions of deleted rows of each file of the split, in ascending order. */
  private long[][] deletedPositions(SplitPartition split) {
    PythonWorkerChannel worker =
        PythonWorkerChannel.open(command, PythonWorkerChannel.Operation.DELETIONS, task.bytes(), split.payload());
    boolean done = false;
    try {
      if (worker.readInt() != PythonWorkerChannel.END) {
        throw worker.failure();
      }
      long[][] deleted = new long[split.uris().length][];
      for (int i = 0; i < deleted.length; i++) {
        LongBuffer positions = ByteBuffer.wrap(worker.readBytes()).asLongBuffer();
        deleted[i] = new long[positions.remaining()];
        positions.get(deleted[i]);
      }
      done = true;
      return deleted;
    } catch (IOException error) {
      throw new UncheckedIOException("The deleted rows of a split could not be looked up", error);
    } finally {
      if (done) {
        worker.release();
      } else {
        worker.hangUp();
      }
    }
  }
}
