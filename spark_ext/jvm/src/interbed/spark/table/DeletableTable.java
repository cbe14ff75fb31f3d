package interbed.spark.table;

import interbed.spark.planner.Planner;
import interbed.spark.planner.PlannerTable;
import interbed.spark.value.PredicateJson;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.connector.catalog.SupportsDeleteV2;
import org.apache.spark.sql.connector.expressions.filter.AlwaysTrue;
import org.apache.spark.sql.connector.expressions.filter.Predicate;

/** DELETE of whole partitions and TRUNCATE TABLE, which read and write no rows. */
interface DeletableTable extends PlannerTable, SupportsDeleteV2 {
  @Override
  default boolean canDeleteWhere(Predicate[] predicates) {
    List<String> filters = new ArrayList<>();
    for (Predicate predicate : withoutTrue(predicates)) {
      Optional<String> tree = PredicateJson.of(predicate);
      if (tree.isEmpty()) {
        return false;
      }
      filters.add(tree.get());
    }
    return Planner.askOrThrow(planner -> planner.canDeleteWhere(info().bufferForHandle(), filters));
  }

  @Override
  default void deleteWhere(Predicate[] predicates) {
    List<String> filters = new ArrayList<>();
    for (Predicate predicate : withoutTrue(predicates)) {
      filters.add(PredicateJson.of(predicate).orElseThrow());
    }
    Planner.askOrThrow(
        planner -> {
          planner.deleteWhere(info().bufferForHandle(), filters);
          return null;
        });
  }

  /** A DELETE without a condition comes as one that is always true. */
  private static List<Predicate> withoutTrue(Predicate[] predicates) {
    return Arrays.stream(predicates).filter(predicate -> !(predicate instanceof AlwaysTrue)).toList();
  }

  @Override
  default boolean truncateTable() {
    deleteWhere(new Predicate[0]);
    return true;
  }
}
