package interbed.spark.change;

import interbed.spark.planner.PlannerTable;
import interbed.spark.thrift.RowChanges;
import interbed.spark.thrift.SequenceRule;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Descending$;
import org.apache.spark.sql.catalyst.expressions.InterpretedOrdering;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NullsFirst$;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.connector.write.RowLevelOperation.Command;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Refuses updated rows that the table would drop, completely or in some columns: those with a lower sequence, and nulls in a
 * partial update.
 */
final class UpdateCheck implements Serializable {
  private final String table;
  private final Command command;
  private final StructType columns;
  private final int[] keys;
  private final List<Rule> rules = new ArrayList<>();
  private final List<Integer> keptForNull = new ArrayList<>();

  /** Columns by their indexes in the table; `order` sorts the winning row last. */
  private record Rule(int[] sequence, int[] followers, boolean descending, boolean needed, InterpretedOrdering order)
      implements Serializable {}

  private UpdateCheck(PlannerTable table, RowChangeLayout layout, Command command) {
    this.table = table.name();
    this.command = command;
    this.columns = layout.sent();
    this.keys = layout.keyColumns();
  }

  static UpdateCheck of(PlannerTable table, RowChangeLayout layout, Command command) {
    UpdateCheck check = new UpdateCheck(table, layout, command);
    RowChanges changes = table.info().getRowChanges();
    if (changes.isSetSequences()) {
      changes.getSequences().forEach(rule -> check.rules.add(check.rule(rule)));
    }
    // In a MERGE of partial rows a null is a value that is left out.
    if (changes.isSetKeptForNull() && command == Command.UPDATE) {
      changes.getKeptForNull().forEach(name -> check.keptForNull.add(check.columns.fieldIndex(name)));
    }
    return check;
  }

  private Rule rule(SequenceRule rule) {
    int[] sequence = places(rule.getSequence());
    List<SortOrder> orders = new ArrayList<>();
    for (int column : sequence) {
      orders.add(
          new SortOrder(
              new BoundReference(column, columns.apply(column).dataType(), true),
              rule.isDescending() ? Descending$.MODULE$ : Ascending$.MODULE$,
              NullsFirst$.MODULE$,
              CollectionConverters.asScala(List.<org.apache.spark.sql.catalyst.expressions.Expression>of()).toSeq()));
    }
    return new Rule(
        sequence,
        places(rule.getColumns()),
        rule.isDescending(),
        rule.isNeedsSequence(),
        new InterpretedOrdering(CollectionConverters.asScala(orders).toSeq()));
  }

  private int[] places(List<String> names) {
    return names.stream().mapToInt(columns::fieldIndex).toArray();
  }

  /** Throws if the table would keep values that the updated row replaces. */
  void check(InternalRow before, InternalRow after) {
    for (Rule rule : rules) {
      check(rule, before, after);
    }
    for (int column : keptForNull) {
      if (!before.isNullAt(column) && after.isNullAt(column)) {
        throw refused(
            after,
            "the column '" + name(column) + "' can't be set from " + text(before, column)
                + " to null, because 'merge-engine' = 'partial-update' keeps the old value for a null. Delete the row and "
                + "insert it again without that value");
      }
    }
  }

  private void check(Rule rule, InternalRow before, InternalRow after) {
    boolean without = rule.needed();
    for (int column : rule.sequence()) {
      without &= after.isNullAt(column);
    }
    if (without) {
      int changed = changed(rule, before, after);
      if (changed >= 0) {
        throw refused(
            after,
            "the column '" + name(changed) + "' can't be set from " + text(before, changed) + " to " + text(after, changed)
                + ", because its sequence " + names(rule) + " is null in the new row. Set it, too");
      }
    } else if (rule.order().compare(after, before) < 0) {
      throw refused(
          after,
          "the sequence " + names(rule) + " can't go from " + texts(rule, before) + " to " + texts(rule, after)
              + ", because the table keeps the values with the " + (rule.descending() ? "least" : "greatest")
              + " sequence. Set " + names(rule) + " to " + texts(rule, before)
              + (rule.descending() ? " or less" : " or more"));
    }
  }

  /** The first column of the rule that has another value; -1 for none. */
  private int changed(Rule rule, InternalRow before, InternalRow after) {
    for (int[] some : List.of(rule.sequence(), rule.followers())) {
      for (int column : some) {
        if (!Objects.deepEquals(value(before, column), value(after, column))) {
          return column;
        }
      }
    }
    return -1;
  }

  private UnsupportedOperationException refused(InternalRow row, String reason) {
    StringBuilder key = new StringBuilder();
    for (int column : keys) {
      key.append(key.isEmpty() ? "" : ", ").append(name(column)).append(" = ").append(text(row, column));
    }
    return new UnsupportedOperationException(
        command + " of '" + table + "' would be dropped by the table in the row " + key + ": " + reason
            + ". Nothing was changed.");
  }

  private String names(Rule rule) {
    List<String> found = new ArrayList<>();
    for (int column : rule.sequence()) {
      found.add(name(column));
    }
    return "'" + String.join(", ", found) + "'";
  }

  private String texts(Rule rule, InternalRow row) {
    List<String> found = new ArrayList<>();
    for (int column : rule.sequence()) {
      found.add(text(row, column));
    }
    return String.join(", ", found);
  }

  private String name(int column) {
    return columns.apply(column).name();
  }

  private Object value(InternalRow row, int column) {
    DataType type = columns.apply(column).dataType();
    return row.isNullAt(column) ? null : row.get(column, type);
  }

  private String text(InternalRow row, int column) {
    return new Literal(value(row, column), columns.apply(column).dataType()).toString();
  }
}
