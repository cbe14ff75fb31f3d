package interbed.spark.statement;

import java.util.Optional;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** Puts a statement that Spark parses, but cannot carry out on our catalogs, into one that it can: mostly a CALL. */
public interface StatementTranslation {
  /** The statement to parse in place of this one; empty when this one is to stay as it is. */
  Optional<String> translate(String sql, LogicalPlan parsed);
}
