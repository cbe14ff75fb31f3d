package interbed.spark.statement;

import interbed.spark.catalog.CatalogRegistry;
import interbed.spark.catalog.QualifiedName;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Refuses INSERT … PARTITION (c = X'00ff') for a binary column and bytes that are not UTF-8.
 *
 * <p>Spark's parser converts partition values to text and replaces other bytes, so that the rows would get into another partition.
 */
public final class BinaryPartitions implements StatementTranslation {
  private static final String REPLACEMENT = "\uFFFD";

  @Override
  public Optional<String> translate(String sql, LogicalPlan parsed) {
    LogicalPlan statement = parsed instanceof UnresolvedWith with ? with.child() : parsed;
    if (statement instanceof InsertIntoStatement insert && insert.table() instanceof UnresolvedRelation relation) {
      for (Map.Entry<String, Option<String>> value : CollectionConverters.asJava(insert.partitionSpec()).entrySet()) {
        // The value of a null partition is null.
        String text = value.getValue().isDefined() ? value.getValue().get() : null;
        if (text != null && text.contains(REPLACEMENT)) {
          CatalogRegistry.ofActiveSession()
              .ours(CollectionConverters.asJava(relation.multipartIdentifier()))
              .ifPresent(table -> check(table, value.getKey()));
        }
      }
    }
    return Optional.empty();
  }

  private static void check(QualifiedName table, String column) {
    StructType columns;
    try {
      columns = table.catalog().loadTable(table.identifier()).schema();
    } catch (NoSuchTableException error) {
      // Spark reports the error itself.
      return;
    }
    boolean binary =
        CollectionConverters.asJava(columns)
            .stream()
            .anyMatch(field -> field.name().equalsIgnoreCase(column) && field.dataType() instanceof BinaryType);
    if (binary) {
      throw new IllegalArgumentException(
          "The value of the binary column '" + column + "' in PARTITION (…) of an INSERT into " + table
              + " is no text, and Spark would change it. Select the value with the rows instead, for INSERT OVERWRITE with"
              + " spark.sql.sources.partitionOverwriteMode = dynamic. Nothing was written");
    }
  }
}
