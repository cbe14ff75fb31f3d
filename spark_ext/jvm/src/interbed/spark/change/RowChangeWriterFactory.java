package interbed.spark.change;

import interbed.spark.write.ArrowTaskWriter;
import interbed.spark.write.ArrowTaskWriterFactory;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.DeltaWriterFactory;

/** Serialized to the executors, where it opens a writer of changes for each task attempt. */
record RowChangeWriterFactory(ArrowTaskWriterFactory rows, RowChangeLayout layout, UpdateCheck check)
    implements DeltaWriterFactory {
  @Override
  public DeltaWriter<InternalRow> createWriter(int partitionId, long taskId) {
    return new RowChangeWriter(new ArrowTaskWriter(rows), layout, check);
  }
}
