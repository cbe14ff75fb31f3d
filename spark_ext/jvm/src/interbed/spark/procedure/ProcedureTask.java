package interbed.spark.procedure;

import interbed.spark.planner.PythonCommand;
import interbed.spark.planner.PythonWorkerChannel;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.Function;

/** One task of a procedure's job: it sends its payload to a Python worker on the executor, and returns the result. */
final class ProcedureTask implements Function<byte[], byte[]> {
  private static final long serialVersionUID = 1L;

  private final PythonCommand command;
  private final String procedure;
  private final byte[] shared;

  ProcedureTask(PythonCommand command, String procedure, byte[] shared) {
    this.command = command;
    this.procedure = procedure;
    this.shared = shared;
  }

  @Override
  public byte[] call(byte[] payload) throws IOException {
    return result(open(command, PythonWorkerChannel.Operation.TASK, procedure, shared, payload));
  }

  /** Begins a task in a Python worker; the connection is closed when the Spark task ends in any way. */
  static PythonWorkerChannel open(
      PythonCommand command,
      PythonWorkerChannel.Operation operation,
      String procedure,
      byte[] shared,
      byte[] payload) {
    PythonWorkerChannel worker =
        PythonWorkerChannel.open(command, operation, procedure.getBytes(StandardCharsets.UTF_8), shared, payload);
    TaskContext context = TaskContext.get();
    if (context != null) {
      // Also when the task is killed, while this thread waits for the worker; does nothing after release.
      context.addTaskCompletionListener((org.apache.spark.util.TaskCompletionListener) done -> worker.hangUp());
    }
    return worker;
  }

  /** Waits for the worker's result, and returns the worker to the pool. */
  static byte[] result(PythonWorkerChannel worker) throws IOException {
    if (worker.readInt() != PythonWorkerChannel.END) {
      throw worker.failure();
    }
    byte[] result = worker.readBytes();
    worker.release();
    return result;
  }
}
