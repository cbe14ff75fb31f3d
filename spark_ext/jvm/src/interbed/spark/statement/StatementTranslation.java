package interbed.spark.statement;

import java.util.Optional;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** Translates a statement that Spark parses, but does not support for our catalogs, to a supported one: mostly a CALL. */
public interface StatementTranslation {
  /** The statement to parse instead of this one; empty for no translation. */
  Optional<String> translate(String sql, LogicalPlan parsed);
}
