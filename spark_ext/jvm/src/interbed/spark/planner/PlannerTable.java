package interbed.spark.planner;

import interbed.spark.thrift.TableInfo;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.types.StructType;

/**
 * A table as the planner described it. Scans, writes and row changes need no more of it; the capabilities of {@code SparkTable}
 * are interfaces that extend this one, whose methods have their bodies.
 */
public interface PlannerTable extends Table {
  /** The planner's description: keys, options, estimates and the handle by which further calls name the table. */
  TableInfo info();

  @Override
  StructType schema();
}
