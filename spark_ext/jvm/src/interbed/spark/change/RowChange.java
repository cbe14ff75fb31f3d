package interbed.spark.change;

import interbed.spark.read.SparkScanBuilder;
import interbed.spark.thrift.RowChanges;
import interbed.spark.value.Names;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDelta;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** One UPDATE, DELETE or MERGE INTO: it scans the rows that may change, and writes deleted and new rows. */
public final class RowChange implements SupportsDelta {
  private final RowLevelTable table;
  private final String prefix;
  private final Command command;
  private final RowChanges rules;
  private final List<SparkScanBuilder> scans = new ArrayList<>();
  // Null until they are known.
  private List<String> assigned;
  private boolean readsAlso;

  /** Spark's name of each hidden column has the prefix. */
  RowChange(RowLevelTable table, Command command, String prefix) {
    this.table = table;
    this.prefix = prefix;
    this.command = command;
    this.rules = table.info().getRowChanges();
  }

  @Override
  public String description() {
    return "interbed " + command + " of " + table.name();
  }

  @Override
  public Command command() {
    return command;
  }

  /** Whether the table writes the assigned columns alone, and they are not known yet. */
  public boolean awaitsColumns() {
    return rules.isByColumn() && assigned == null;
  }

  /** Sets the columns that get new values in rows of the table, and whether the target is read elsewhere, too. */
  public void assign(List<String> columns, boolean readsAlso) {
    this.assigned = columns;
    this.readsAlso = readsAlso;
  }

  /** The identity of the target. */
  public String tableId() {
    return table.info().getTableId();
  }

  @Override
  public NamedReference[] rowId() {
    return references(rules.getRowId());
  }

  @Override
  public NamedReference[] requiredMetadataAttributes() {
    return references(rules.getToldOfRows().getOrDefault(command.name(), List.of()));
  }

  @Override
  public boolean representUpdateAsDeleteAndInsert() {
    return rules.isSplitsUpdates();
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    // Rows of another branch can't be changed here.
    Map<String, String> own = new HashMap<>(options.asCaseSensitiveMap());
    own.put("scan.fallback-branch", "");
    // With deletion vectors, other reads see level 0 only after a compaction, which is no conflict.
    own.put("deletion-vectors.merge-on-read", "true");
    SparkScanBuilder scan = new SparkScanBuilder(table, new CaseInsensitiveStringMap(own));
    scans.add(scan);
    return scan;
  }

  @Override
  public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo write) {
    return new DeltaWriteBuilder() {
      @Override
      public DeltaWrite build() {
        RowLevelTable.check(rules, command);
        // Spark has planned the scans by now; with several of them the write may depend on any row.
        SparkScanBuilder scan = scans.size() == 1 ? scans.get(0) : null;
        RowChangeWrite.Source source =
            new RowChangeWrite.Source(
                !scans.isEmpty(),
                scan == null ? null : scan.filters(),
                scan == null || readsAlso || !rules.isByColumn() ? null : scan.columns(),
                assigned);
        return RowChangeWrite.of(table, write, command, RowChange.this::named, source);
      }
    };
  }

  private NamedReference[] references(List<String> columns) {
    return columns.stream().map(column -> Names.reference(named(column))).toArray(NamedReference[]::new);
  }

  /** Spark's name of a column. */
  private String named(String column) {
    boolean isHidden = Arrays.stream(table.metadataColumns()).anyMatch(hidden -> hidden.name().equals(column));
    return isHidden ? prefix + column : column;
  }
}
