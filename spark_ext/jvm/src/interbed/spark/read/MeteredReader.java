package interbed.spark.read;

import interbed.spark.metric.MetricValue;
import interbed.spark.metric.Metrics;
import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Reads a split, and records its time for Spark's UI. */
final class MeteredReader implements PartitionReader<ColumnarBatch> {
  private final PartitionReader<ColumnarBatch> reader;
  private final long byteSize;
  private long nanos;

  MeteredReader(PartitionReader<ColumnarBatch> reader, long byteSize) {
    this.reader = reader;
    this.byteSize = byteSize;
  }

  @Override
  public boolean next() throws IOException {
    long start = System.nanoTime();
    try {
      return reader.next();
    } finally {
      nanos += System.nanoTime() - start;
    }
  }

  @Override
  public ColumnarBatch get() {
    return reader.get();
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return new CustomTaskMetric[] {
      new MetricValue(Metrics.SPLITS, 1),
      new MetricValue(Metrics.SPLIT_BYTES, byteSize),
      new MetricValue(Metrics.READ_MILLIS, TimeUnit.NANOSECONDS.toMillis(nanos)),
    };
  }

  @Override
  public void close() throws IOException {
    reader.close();
  }
}
