package interbed.spark.metric;

import org.apache.spark.util.Utils;

/** A metric of bytes. */
public final class SizeMetric extends SumMetric {
  public SizeMetric() {}

  SizeMetric(String name, String description) {
    super(name, description);
  }

  @Override
  String shown(long sum) {
    return Utils.bytesToString(sum);
  }
}
