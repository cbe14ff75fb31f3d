package interbed.spark.metric;

import org.apache.spark.util.Utils;

/** A metric of milliseconds. */
public final class TimeMetric extends SumMetric {
  public TimeMetric() {}

  TimeMetric(String name, String description) {
    super(name, description);
  }

  @Override
  String shown(long sum) {
    return Utils.msDurationToString(sum);
  }
}
