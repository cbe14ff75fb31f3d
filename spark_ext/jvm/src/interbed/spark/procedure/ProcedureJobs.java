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

  /** The blocks of the last job's tasks for the next job; null when there are none. */
  private GivenBlocks given;

  ProcedureJobs(String procedure) {
    this.procedure = procedure;
  }

  /** Tasks that Spark runs at the same time, as far as it knows. */
  static int taskSlots() {
    return SparkContext.getOrCreate().defaultParallelism();
  }

  /** Runs a job, with one partition for each task, and returns the results in the order of the tasks. */
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
    // An implementation of List that Java can serialize.
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

  /** Drops the persisted blocks. */
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
