package interbed.spark.procedure;

import interbed.spark.planner.PythonCommand;
import interbed.spark.planner.PythonWorkerChannel;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.api.java.function.Function2;
import scala.Tuple2;

/** One task of a job that takes blocks: it sends them to a Python worker one after the other, and returns its result. */
final class TakingTask implements Function2<Integer, Iterator<Tuple2<BlockKey, byte[]>>, Iterator<byte[]>> {
  private static final long serialVersionUID = 1L;

  private final PythonCommand command;
  private final String procedure;
  private final byte[] shared;
  private final List<byte[]> payloads;

  TakingTask(PythonCommand command, String procedure, byte[] shared, List<byte[]> payloads) {
    this.command = command;
    this.procedure = procedure;
    this.shared = shared;
    this.payloads = payloads;
  }

  @Override
  public Iterator<byte[]> call(Integer task, Iterator<Tuple2<BlockKey, byte[]>> blocks) throws IOException {
    PythonWorkerChannel worker =
        ProcedureTask.open(command, PythonWorkerChannel.Operation.BLOCKS, procedure, shared, payloads.get(task));
    while (blocks.hasNext()) {
      Tuple2<BlockKey, byte[]> block = blocks.next();
      worker.writeInt(PythonWorkerChannel.BATCH);
      send(worker, block._1().group().getBytes(StandardCharsets.UTF_8));
      send(worker, block._2());
    }
    worker.writeInt(PythonWorkerChannel.END);
    return List.of(ProcedureTask.result(worker)).iterator();
  }

  private static void send(PythonWorkerChannel worker, byte[] content) throws IOException {
    worker.writeInt(content.length);
    worker.write(ByteBuffer.wrap(content));
  }
}
