package interbed.spark.planner;

import interbed.spark.thrift.TableInfo;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.types.StructType;

/**
 * The planner's description of a table, which is all that scans, writes and row changes need. The capabilities of {@code
 * SparkTable} are interfaces that extend this one, with default methods.
 */
public interface PlannerTable extends Table {
  /** The planner's description: keys, options, estimates, and the handle of the table for further calls. */
  TableInfo info();

  @Override
  StructType schema();
}
