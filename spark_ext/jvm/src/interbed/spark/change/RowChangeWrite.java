package interbed.spark.change;

import interbed.spark.planner.PlannerTable;
import interbed.spark.thrift.RowChanges;
import interbed.spark.thrift.WriteClustering;
import interbed.spark.thrift.WriteMode;
import interbed.spark.thrift.WriteRequest;
import interbed.spark.value.Names;
import interbed.spark.write.SparkWrite;
import java.util.HashMap;
import java.util.List;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
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
  private final SortOrder[] ordering;

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
    RowChanges changes = table.info().getRowChanges();
    ordering = changes.isByColumn() ? ascending(changes.getRowId(), names) : super.requiredOrdering();
  }

  @Override
  protected WriteClustering clustering() {
    return clustering;
  }

  private static SortOrder[] ascending(List<String> columns, UnaryOperator<String> names) {
    return columns.stream()
        .map(column -> Expressions.sort(Names.reference(names.apply(column)), SortDirection.ASCENDING))
        .toArray(SortOrder[]::new);
  }

  /** The order of the rows in the table, if a task writes some of their columns alone. */
  @Override
  public SortOrder[] requiredOrdering() {
    return ordering;
  }

  /**
   * The rows from which a write follows: `scanned` has the filters of the only scan, null when the write may depend on any row.
   * Without scans it depends on no rows, and conflicts with no other writer. `columns` are those of the scan, null when other rows
   * matter, too. `assigned` are the columns that get new values, null for all.
   */
  record Source(boolean follows, List<String> scanned, List<String> columns, List<String> assigned) {}

  /** The write of a statement; `names` has Spark's name of a column. */
  static RowChangeWrite of(
      PlannerTable table,
      LogicalWriteInfo write,
      Command command,
      UnaryOperator<String> names,
      Source source) {
    RowChangeLayout layout = RowChangeLayout.of(table, write);
    WriteRequest request =
        new WriteRequest(
            WriteMode.CHANGES,
            List.of(),
            layout.sent().json(),
            write.queryId(),
            new HashMap<>(write.options().asCaseSensitiveMap()));
    request.setFollowsFromSnapshot(source.follows());
    // An inserted row must not replace another one of the same statement.
    request.setDistinctKeys(command == Command.MERGE);
    if (source.scanned() != null) {
      request.setScanned(source.scanned());
    }
    if (source.assigned() != null) {
      request.setAssigned(source.assigned());
      if (source.columns() != null) {
        request.setScannedColumns(source.columns());
      }
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
