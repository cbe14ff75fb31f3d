package interbed.spark.change;

import interbed.spark.planner.PlannerTable;
import interbed.spark.thrift.WriteClustering;
import interbed.spark.thrift.WriteMode;
import interbed.spark.thrift.WriteRequest;
import interbed.spark.write.SparkWrite;
import java.util.HashMap;
import java.util.List;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation.Command;

/** The write job of an UPDATE, a DELETE or a MERGE INTO. */
final class RowChangeWrite extends SparkWrite implements DeltaWrite, DeltaBatchWrite {
  private final RowChangeLayout layout;
  private final UpdateCheck check;
  private final WriteClustering clustering;

  private RowChangeWrite(
      PlannerTable table, RowChangeLayout layout, Command command, UnaryOperator<String> names, WriteRequest request) {
    super(table, layout.sent(), request);
    this.layout = layout;
    check = UpdateCheck.of(table, layout, command);
    WriteClustering ofChanges = table.info().getRowChanges().getClustering();
    clustering = (ofChanges == null ? super.clustering() : ofChanges).deepCopy();
    if (ofChanges != null && command != Command.MERGE) {
      // Only a MERGE has new rows.
      clustering.unsetSpread();
    }
    clustering.setColumns(clustering.getColumns().stream().map(names).toList());
  }

  @Override
  protected WriteClustering clustering() {
    return clustering;
  }

  /**
   * A write that depends on scans of the table: `scanned` has the filters of the only scan, null when the write may depend on any
   * row. Without scans it depends on no rows, and conflicts with no other writer. `names` has Spark's name of a column.
   */
  static RowChangeWrite of(
      PlannerTable table,
      LogicalWriteInfo write,
      Command command,
      UnaryOperator<String> names,
      boolean follows,
      List<String> scanned) {
    RowChangeLayout layout = RowChangeLayout.of(table, write);
    WriteRequest request =
        new WriteRequest(
            WriteMode.CHANGES,
            List.of(),
            layout.sent().json(),
            write.queryId(),
            new HashMap<>(write.options().asCaseSensitiveMap()));
    request.setFollowsFromSnapshot(follows);
    // An inserted row must not replace another one of the same statement.
    request.setDistinctKeys(command == Command.MERGE);
    if (scanned != null) {
      request.setScanned(scanned);
    }
    return new RowChangeWrite(table, layout, command, names, request);
  }

  @Override
  public DeltaBatchWrite toBatch() {
    super.toBatch();
    return this;
  }

  @Override
  public DeltaWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
    return new RowChangeWriterFactory(taskWriters(), layout, check);
  }
}
