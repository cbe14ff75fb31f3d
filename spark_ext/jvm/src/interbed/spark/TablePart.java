package interbed.spark;

import interbed.spark.thrift.TableInfo;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.types.StructType;

/** What every part of {@link SparkTable} needs; a part is an interface whose methods have their bodies. */
interface TablePart extends Table {
  /** What the planner told of the table. */
  TableInfo info();

  @Override
  StructType schema();
}
