package interbed.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Opens splits on executors: by Python over Arrow, or by Spark's Parquet reader where the planner said that it may. */
final class SplitReaderFactory implements PartitionReaderFactory {
  private static final long serialVersionUID = 1L;

  private final PythonCommand command;
  private final byte[] task;
  private final StructType readSchema;
  // Null when no split is for it, and when this session does not read Parquet in columns.
  private final NativeParquet nativeParquet;

  SplitReaderFactory(PythonCommand command, byte[] task, StructType readSchema, NativeParquet nativeParquet) {
    this.command = command;
    this.task = task;
    this.readSchema = readSchema;
    this.nativeParquet = nativeParquet;
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
    if (split.isNative() && nativeParquet != null) {
      return nativeParquet.open(split);
    }
    return new ArrowSplitReader(command, task, split.payload(), readSchema.length());
  }
}
