package interbed.spark.table;

import interbed.spark.change.RowLevelTable;
import interbed.spark.read.SparkScanBuilder;
import interbed.spark.thrift.TableInfo;
import interbed.spark.value.Names;
import interbed.spark.write.SparkWriteBuilder;
import interbed.spark.write.UpsertWriteBuilder;
import java.util.Collections;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A table with the planner's description from the analysis of the statement.
 *
 * <p>It keeps the snapshot of the analysis, so that all scans of one statement are consistent. From Spark 4.1 on, Spark loads the
 * table again for the next statement because of {@link #version}.
 */
public class SparkTable implements PartitionedTable, RowLevelTable, DeletableTable, SupportsRead, SupportsWrite {
  private static final Set<TableCapability> CAPABILITIES = capabilities(false);
  private static final Set<TableCapability> WITH_ANY_ROWS = capabilities(true);

  private final String name;
  private final TableInfo info;
  private final StructType schema;
  private final boolean takesAnyRows;

  public SparkTable(String name, TableInfo info) {
    this(name, info, false);
  }

  /** With `takesAnyRows` not Spark, but {@code SchemaMerging} compares a write's rows with the table. */
  public SparkTable(String name, TableInfo info, boolean takesAnyRows) {
    this.name = name;
    this.info = info;
    this.schema = (StructType) DataType.fromJson(info.getSchemaJson());
    this.takesAnyRows = takesAnyRows;
  }

  private static Set<TableCapability> capabilities(boolean takesAnyRows) {
    Set<TableCapability> capabilities =
        EnumSet.of(
            TableCapability.BATCH_READ,
            TableCapability.BATCH_WRITE,
            TableCapability.MICRO_BATCH_READ,
            TableCapability.STREAMING_WRITE,
            TableCapability.TRUNCATE,
            TableCapability.OVERWRITE_BY_FILTER,
            TableCapability.OVERWRITE_DYNAMIC);
    capabilities.addAll(Capabilities.OF_TABLES);
    if (takesAnyRows) {
      capabilities.add(TableCapability.ACCEPT_ANY_SCHEMA);
    }
    return Collections.unmodifiableSet(capabilities);
  }

  public boolean takesAnyRows() {
    return takesAnyRows;
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public StructType schema() {
    return schema;
  }

  @Override
  public Map<String, String> properties() {
    return info.getProperties();
  }

  @Override
  public Transform[] partitioning() {
    return info.getPartitionKeys().stream()
        .map(key -> Expressions.identity(Names.quoted(key)))
        .toArray(Transform[]::new);
  }

  /** Overrides Table.id() of Spark 4.1 and later, by which a DataFrame notices that its table was created again. */
  public String id() {
    return info.getTableId();
  }

  /** Overrides Table.version() of Spark 4.1 and later; has no annotation, so that it compiles with 4.0. */
  public String version() {
    return Long.toString(info.getSnapshotId());
  }

  @Override
  public Set<TableCapability> capabilities() {
    return takesAnyRows ? WITH_ANY_ROWS : CAPABILITIES;
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new SparkScanBuilder(this, options);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo write) {
    return info.getPrimaryKeys().isEmpty() ? new SparkWriteBuilder(this, write) : new UpsertWriteBuilder(this, write);
  }

  @Override
  public TableInfo info() {
    return info;
  }
}
