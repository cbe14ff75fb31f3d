package interbed.spark.table;

import interbed.spark.planner.Planner;
import interbed.spark.planner.PlannerTable;
import interbed.spark.thrift.PartitionInfo;
import interbed.spark.value.PartitionJson;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.connector.catalog.SupportsAtomicPartitionManagement;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * The part of {@link SparkTable} behind SHOW PARTITIONS, ALTER TABLE … ADD and DROP PARTITION and TRUNCATE TABLE … PARTITION.
 *
 * <p>A partition exists while it has rows. A metastore follows if tables are registered with their partitions.
 */
interface PartitionedTable extends PlannerTable, SupportsAtomicPartitionManagement {
  /** Declared by both interfaces, by one of them with a body. */
  @Override
  StructType schema();

  @Override
  default StructType partitionSchema() {
    List<String> keys = info().getPartitionKeys();
    StructField[] fields = keys.stream().map(schema()::apply).toArray(StructField[]::new);
    // Values of CHAR and VARCHAR columns are strings, and Spark reads them by this type.
    return CharVarcharUtils.replaceCharVarcharWithStringInSchema(new StructType(fields));
  }

  @Override
  default void createPartitions(InternalRow[] partitions, Map<String, String>[] properties) {
    List<String> specs = specs(partitions);
    Planner.askOrThrow(
        planner -> {
          planner.createPartitions(info().bufferForHandle(), specs);
          return null;
        });
  }

  @Override
  default boolean dropPartitions(InternalRow[] partitions) {
    List<String> specs = specs(partitions);
    Planner.askOrThrow(
        planner -> {
          planner.dropPartitions(info().bufferForHandle(), specs);
          return null;
        });
    return true;
  }

  /** There is no trash to bypass: older snapshots keep the rows until they expire. */
  @Override
  default boolean purgePartitions(InternalRow[] partitions) {
    return dropPartitions(partitions);
  }

  @Override
  default boolean purgePartition(InternalRow partition) {
    return dropPartition(partition);
  }

  @Override
  default boolean truncatePartition(InternalRow partition) {
    return truncatePartitions(new InternalRow[] {partition});
  }

  @Override
  default boolean truncatePartitions(InternalRow[] partitions) {
    List<String> specs = specs(partitions);
    Planner.askOrThrow(
        planner -> {
          planner.truncatePartitions(info().bufferForHandle(), specs);
          return null;
        });
    return true;
  }

  @Override
  default boolean partitionExists(InternalRow partition) {
    return !find(spec(partition)).isEmpty();
  }

  @Override
  default void replacePartitionMetadata(InternalRow partition, Map<String, String> properties) {
    throw new UnsupportedOperationException("Partitions of " + name() + " have no properties of their own");
  }

  /** The figures of the partition, with the names of Paimon's connector. */
  @Override
  default Map<String, String> loadPartitionMetadata(InternalRow partition) {
    List<PartitionInfo> found = find(spec(partition));
    return found.isEmpty() ? Map.of() : found.get(0).getFigures();
  }

  @Override
  default InternalRow[] listPartitionIdentifiers(String[] names, InternalRow partition) {
    StructType keys = partitionSchema();
    return find(PartitionJson.of(Arrays.asList(names), keys, partition)).stream()
        .map(found -> PartitionJson.row(found.getValuesJson(), keys))
        .toArray(InternalRow[]::new);
  }

  private List<PartitionInfo> find(String spec) {
    return Planner.askOrThrow(planner -> planner.listPartitions(info().bufferForHandle(), spec));
  }

  private List<String> specs(InternalRow[] partitions) {
    return Arrays.stream(partitions).map(this::spec).toList();
  }

  private String spec(InternalRow partition) {
    return PartitionJson.of(info().getPartitionKeys(), partitionSchema(), partition);
  }
}
