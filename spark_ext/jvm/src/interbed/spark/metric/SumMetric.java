package interbed.spark.metric;

import java.util.Arrays;
import org.apache.spark.sql.connector.metric.CustomMetric;

/** A metric that is a sum. Public and with a constructor without arguments, since Spark's UI creates it by its class. */
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

  /** The sum as text for the UI. */
  String shown(long sum) {
    return Long.toString(sum);
  }
}
