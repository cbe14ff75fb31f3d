package interbed.spark.procedure;

import java.io.Serializable;
import java.util.Comparator;

/** The place of a block among all of a job: its group, the task that gave it, and the how-manieth of that task it is. */
record BlockKey(String group, int task, int place) implements Comparable<BlockKey>, Serializable {
  private static final Comparator<BlockKey> ORDER =
      Comparator.comparing(BlockKey::group).thenComparingInt(BlockKey::task).thenComparingInt(BlockKey::place);

  @Override
  public int compareTo(BlockKey other) {
    return ORDER.compare(this, other);
  }
}
