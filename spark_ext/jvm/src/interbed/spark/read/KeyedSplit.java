package interbed.spark.read;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.HasPartitionKey;

/** A split all of whose rows have this partition key. */
record KeyedSplit(SplitPartition split, InternalRow partitionKey) implements HasPartitionKey {
  @Override
  public String[] preferredLocations() {
    return split.preferredLocations();
  }
}
