package interbed.spark.procedure;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.Partitioner;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.storage.StorageLevel;
import scala.Tuple2;

/**
 * Results of the tasks of a job: of each task a result for the planner, and blocks for tasks of the next job.
 *
 * <p>The blocks stay on their executors, on disk when there is no memory for them, and get to the tasks by Spark's shuffle. When
 * some are lost with their executor, the task that gave them runs again.
 */
final class GivenBlocks implements AutoCloseable {
  private final JavaRDD<byte[]> kept;

  private GivenBlocks(JavaRDD<byte[]> kept) {
    this.kept = kept;
  }

  /** Persists the results of the tasks, one partition for each. */
  static GivenBlocks of(JavaRDD<byte[]> tasks) {
    return new GivenBlocks(tasks.persist(StorageLevel.MEMORY_AND_DISK()));
  }

  /** Runs the tasks, and returns the results without their blocks. */
  List<byte[]> results() {
    return kept.map(GivenBlocks::result).collect();
  }

  /** The blocks of the groups of each task, one partition for each task, in the order of their keys. */
  JavaRDD<Tuple2<BlockKey, byte[]>> taken(List<List<String>> groups) {
    return kept.mapPartitionsWithIndex(GivenBlocks::blocks, true)
        .mapToPair(block -> block)
        .repartitionAndSortWithinPartitions(new Takers(groups))
        .map(block -> block);
  }

  @Override
  public void close() {
    kept.unpersist(false);
  }

  private static byte[] result(byte[] given) {
    return bytes(ByteBuffer.wrap(given));
  }

  private static Iterator<Tuple2<BlockKey, byte[]>> blocks(int task, Iterator<byte[]> given) {
    List<Tuple2<BlockKey, byte[]>> found = new ArrayList<>();
    while (given.hasNext()) {
      ByteBuffer content = ByteBuffer.wrap(given.next());
      bytes(content);
      while (content.hasRemaining()) {
        String group = new String(bytes(content), StandardCharsets.UTF_8);
        found.add(new Tuple2<>(new BlockKey(group, task, found.size()), bytes(content)));
      }
    }
    return found.iterator();
  }

  private static byte[] bytes(ByteBuffer content) {
    byte[] found = new byte[content.getInt()];
    content.get(found);
    return found;
  }

  /** Assigns the blocks of each group to a task. */
  private static final class Takers extends Partitioner implements Serializable {
    private static final long serialVersionUID = 1L;

    private final Map<String, Integer> tasks = new HashMap<>();
    private final int count;

    Takers(List<List<String>> groups) {
      count = groups.size();
      for (int task = 0; task < count; task++) {
        for (String group : groups.get(task)) {
          tasks.put(group, task);
        }
      }
    }

    @Override
    public int numPartitions() {
      return count;
    }

    @Override
    public int getPartition(Object key) {
      return tasks.get(((BlockKey) key).group());
    }
  }
}
