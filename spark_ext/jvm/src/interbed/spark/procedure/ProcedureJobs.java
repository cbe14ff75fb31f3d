package interbed.spark.procedure;

import interbed.spark.planner.PythonCommand;
import interbed.spark.thrift.ProcedureJob;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;

/** The jobs of one call of a procedure, one after the other. Used by one thread. */
final class ProcedureJobs implements AutoCloseable {
  private final String procedure;

  /** What the tasks of the last job gave to those of the next; null when they gave nothing. */
  private GivenBlocks given;

  ProcedureJobs(String procedure) {
    this.procedure = procedure;
  }

  /** How many tasks Spark runs at the same time, as far as it knows. */
  static int taskSlots() {
    return SparkContext.getOrCreate().defaultParallelism();
  }

  /** Runs a job, each task of it in a partition of its own, and returns the results in the order of the tasks. */
  List<ByteBuffer> run(ProcedureJob job) {
    if (job.getTasks().isEmpty()) {
      close();
      return List.of();
    }
    SparkContext context = SparkContext.getOrCreate();
    String outer = context.getLocalProperty("spark.job.description");
    context.setJobDescription(job.getDescription());
    try {
      return results(JavaSparkContext.fromSparkContext(context), job).stream().map(ByteBuffer::wrap).toList();
    } finally {
      context.setJobDescription(outer);
    }
  }

  private List<byte[]> results(JavaSparkContext context, ProcedureJob job) {
    PythonCommand command = PythonCommand.current();
    // A list of a kind that Java can serialize.
    List<byte[]> payloads = new ArrayList<>(job.getTasks().stream().map(ProcedureJobs::bytes).toList());
    if (job.isSetTakes()) {
      return given
          .taken(job.getTakes())
          .mapPartitionsWithIndex(new TakingTask(command, procedure, job.getShared(), payloads), true)
          .collect();
    }
    close();
    JavaRDD<byte[]> tasks =
        context.parallelize(payloads, payloads.size()).map(new ProcedureTask(command, procedure, job.getShared()));
    if (!job.isGivesBlocks()) {
      return tasks.collect();
    }
    given = GivenBlocks.of(tasks);
    return given.results();
  }

  /** Gives up the blocks that are kept. */
  @Override
  public void close() {
    if (given != null) {
      given.close();
      given = null;
    }
  }

  private static byte[] bytes(ByteBuffer buffer) {
    byte[] content = new byte[buffer.remaining()];
    buffer.duplicate().get(content);
    return content;
  }
}
