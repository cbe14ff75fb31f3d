package interbed.spark.procedure;

import interbed.spark.planner.PythonCommand;
import interbed.spark.planner.PythonWorkerChannel;
import interbed.spark.thrift.ProcedureJob;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.Function;

/** One task of a procedure's job: it takes its payload to a Python worker on the executor and brings the result back. */
final class ProcedureTask implements Function<byte[], byte[]> {
  private static final long serialVersionUID = 1L;

  private final PythonCommand command;
  private final String procedure;
  private final byte[] shared;

  private ProcedureTask(PythonCommand command, String procedure, byte[] shared) {
    this.command = command;
    this.procedure = procedure;
    this.shared = shared;
  }

  /** Runs a job, each task of it in a partition of its own, and returns the results in the order of the tasks. */
  static List<ByteBuffer> run(String procedure, ProcedureJob job) {
    if (job.getTasks().isEmpty()) {
      return List.of();
    }
    SparkContext context = SparkContext.getOrCreate();
    List<byte[]> payloads = job.getTasks().stream().map(ProcedureTask::bytes).toList();
    String outer = context.getLocalProperty("spark.job.description");
    context.setJobDescription(job.getDescription());
    try {
      return JavaSparkContext.fromSparkContext(context)
          .parallelize(payloads, payloads.size())
          .map(new ProcedureTask(PythonCommand.current(), procedure, job.getShared()))
          .collect()
          .stream()
          .map(ByteBuffer::wrap)
          .toList();
    } finally {
      context.setJobDescription(outer);
    }
  }

  private static byte[] bytes(ByteBuffer buffer) {
    byte[] content = new byte[buffer.remaining()];
    buffer.duplicate().get(content);
    return content;
  }

  @Override
  public byte[] call(byte[] payload) throws IOException {
    PythonWorkerChannel worker =
        PythonWorkerChannel.open(
            command,
            PythonWorkerChannel.Operation.TASK,
            procedure.getBytes(StandardCharsets.UTF_8),
            shared,
            payload);
    TaskContext context = TaskContext.get();
    if (context != null) {
      // Also when the task is killed, while this thread waits for the worker; does nothing after release.
      context.addTaskCompletionListener((org.apache.spark.util.TaskCompletionListener) done -> worker.hangUp());
    }
    if (worker.readInt() != PythonWorkerChannel.END) {
      throw worker.failure();
    }
    byte[] result = worker.readBytes();
    worker.release();
    return result;
  }
}
