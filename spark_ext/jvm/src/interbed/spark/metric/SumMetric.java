package interbed.spark.metric;

import java.util.Arrays;
import org.apache.spark.sql.connector.metric.CustomMetric;

/** A metric whose parts add up to a number. Public and with a constructor of nothing, since Spark's UI makes one by its class. */
public class SumMetric implements CustomMetric {
  private final String name;
  private final String description;

  public SumMetric() {
    this("", "");
  }

  SumMetric(String name, String description) {
    this.name = name;
    this.description = description;
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public String description() {
    return description;
  }

  @Override
  public String aggregateTaskMetrics(long[] parts) {
    return shown(Arrays.stream(parts).sum());
  }

  /** The sum as it is shown. */
  String shown(long sum) {
    return Long.toString(sum);
  }
}
