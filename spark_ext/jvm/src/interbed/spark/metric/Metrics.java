package interbed.spark.metric;

import java.util.Map;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** The metrics of our scans and writes in Spark's UI, with the names of Paimon's connector if it has them. */
public final class Metrics {
  public static final String SPLITS = "numSplits";
  public static final String SPLIT_BYTES = "partitionSize";
  public static final String READ_MILLIS = "readBatchTime";

  private Metrics() {}

  public static CustomMetric[] ofScans() {
    return new CustomMetric[] {
      new SumMetric(SPLITS, "number of splits read"),
      new SizeMetric(SPLIT_BYTES, "partition size"),
      new TimeMetric(READ_MILLIS, "read batch time"),
      new TimeMetric("planningDuration", "planning duration"),
      new SumMetric("scannedSnapshotId", "scanned snapshot id"),
      new SumMetric("scannedManifests", "number of scanned manifests"),
      new SumMetric("skippedTableFiles", "number of skipped table files"),
      new SumMetric("resultedTableFiles", "number of resulted table files"),
      new SumMetric("plannedRecords", "number of records in them"),
      new SumMetric("mergedSplits", "number of splits that are merged"),
    };
  }

  public static CustomMetric[] ofWrites() {
    return new CustomMetric[] {
      new TimeMetric("commitDuration", "commit duration"),
      new SumMetric("commitAttempts", "number of commit attempts"),
      new SumMetric("addedTableFiles", "number of added table files"),
      new SumMetric("deletedTableFiles", "number of deleted table files"),
      new SumMetric("insertedRecords", "number of inserted records"),
      new SumMetric("deletedRecords", "number of deleted records"),
      new SumMetric("appendedChangelogFiles", "number of appended changelog files"),
      new SumMetric("partitionsWritten", "number of partitions written"),
      new SumMetric("bucketsWritten", "number of buckets written"),
    };
  }

  /** The values of the planner. */
  public static CustomTaskMetric[] told(Map<String, Long> values) {
    return values.entrySet().stream()
        .map(entry -> new MetricValue(entry.getKey(), entry.getValue()))
        .toArray(CustomTaskMetric[]::new);
  }
}
