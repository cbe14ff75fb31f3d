package interbed.spark.procedure;

import java.io.Serializable;
import java.util.Comparator;

/** Sort key of a block of a job: its group, the task that gave it, and its number among that task's blocks. */
record BlockKey(String group, int task, int place) implements Comparable<BlockKey>, Serializable {
  private static final Comparator<BlockKey> ORDER =
      Comparator.comparing(BlockKey::group).thenComparingInt(BlockKey::task).thenComparingInt(BlockKey::place);

  @Override
  public int compareTo(BlockKey other) {
    return ORDER.compare(this, other);
  }
}
