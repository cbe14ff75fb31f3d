package interbed.spark.metric;

import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** One value of a metric: a task's, or the driver's. */
public record MetricValue(String name, long value) implements CustomTaskMetric {}
