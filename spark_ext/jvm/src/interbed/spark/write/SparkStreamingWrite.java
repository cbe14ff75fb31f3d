package interbed.spark.write;

import interbed.spark.planner.Planner;
import interbed.spark.planner.PlannerTable;
import interbed.spark.planner.PythonCommand;
import interbed.spark.planner.WorkerTask;
import interbed.spark.thrift.WritePlan;
import interbed.spark.thrift.WriteRequest;
import java.nio.ByteBuffer;
import java.util.List;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * The write of one micro-batch. Spark creates one for each, also for a repeated one after a failure; by the query's id and the
 * batch's number the planner finds whether it was committed before.
 */
final class SparkStreamingWrite implements StreamingWrite {
  private final PlannerTable table;
  private final WriteRequest request;
  private final CommitSender commit = new CommitSender();
  private WritePlan plan;

  SparkStreamingWrite(PlannerTable table, WriteRequest request) {
    this.table = table;
    this.request = request;
  }

  /** Planned only here: Spark's optimizer creates several of these objects for a batch and runs one. */
  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo physical) {
    plan = Planner.askOrThrow(planner -> planner.planEpoch(table.info().bufferForHandle(), request));
    return new ArrowTaskWriterFactory(
        PythonCommand.current(),
        WorkerTask.of(plan.getTask()),
        (StructType) DataType.fromJson(plan.getSchemaJson()),
        SQLConf.get().sessionLocalTimeZone());
  }

  @Override
  public void commit(long epoch, WriterCommitMessage[] messages) {
    List<ByteBuffer> committables = CommitSender.committables(messages);
    commit.send(planner -> planner.commitEpoch(plan.bufferForToken(), epoch, committables));
  }

  @Override
  public void abort(long epoch, WriterCommitMessage[] messages) {
    // No task has begun before the plan.
    if (plan != null && !commit.isOutcomeUnknown()) {
      Planner.askOrThrow(
          planner -> {
            planner.abortEpoch(plan.bufferForToken(), epoch);
            return null;
          });
    }
  }
}
