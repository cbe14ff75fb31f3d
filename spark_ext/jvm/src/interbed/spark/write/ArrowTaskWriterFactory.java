package interbed.spark.write;

import interbed.spark.planner.PythonCommand;
import interbed.spark.planner.WorkerTask;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.types.StructType;

/** Serialized to the executors, where it opens a writer for each task attempt. */
public record ArrowTaskWriterFactory(PythonCommand command, WorkerTask task, StructType schema, String timeZone)
    implements DataWriterFactory, StreamingDataWriterFactory {
  @Override
  public DataWriter<InternalRow> createWriter(int partitionId, long taskId) {
    return new ArrowTaskWriter(this);
  }

  @Override
  public DataWriter<InternalRow> createWriter(int partitionId, long taskId, long epochId) {
    return new ArrowTaskWriter(this);
  }
}
