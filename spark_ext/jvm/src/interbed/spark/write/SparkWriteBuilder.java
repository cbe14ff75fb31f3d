package interbed.spark.write;

import interbed.spark.planner.PlannerTable;
import interbed.spark.thrift.WriteMode;
import interbed.spark.value.PredicateJson;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;

/** Collects whether a write appends or replaces, and the replaced rows. */
public class SparkWriteBuilder implements WriteBuilder, SupportsOverwriteV2, SupportsDynamicOverwrite {
  private final PlannerTable table;
  private final LogicalWriteInfo write;
  private WriteMode mode = WriteMode.APPEND;
  private final List<String> filters = new ArrayList<>();

  public SparkWriteBuilder(PlannerTable table, LogicalWriteInfo write) {
    this.table = table;
    this.write = write;
  }

  @Override
  public WriteBuilder truncate() {
    mode = WriteMode.OVERWRITE;
    filters.clear();
    return this;
  }

  @Override
  public boolean canOverwrite(Predicate[] predicates) {
    for (Predicate predicate : predicates) {
      if (PredicateJson.of(predicate).isEmpty()) {
        return false;
      }
    }
    return true;
  }

  @Override
  public WriteBuilder overwrite(Predicate[] predicates) {
    mode = WriteMode.OVERWRITE;
    filters.clear();
    for (Predicate predicate : predicates) {
      Optional<String> tree = PredicateJson.of(predicate);
      filters.add(
          tree.orElseThrow(() -> new IllegalArgumentException("Cannot overwrite where " + predicate + " holds")));
    }
    return this;
  }

  @Override
  public WriteBuilder overwriteDynamicPartitions() {
    mode = WriteMode.OVERWRITE_DYNAMIC;
    filters.clear();
    return this;
  }

  @Override
  public Write build() {
    return new SparkWrite(table, write, mode, filters);
  }
}
