package interbed.spark.planner;

import org.apache.spark.sql.execution.QueryExecutionException;

/** A MERGE that did without a look at its target brought a key twice: nothing was changed, and it has to look. */
public final class RepeatedKeyException extends QueryExecutionException implements RetryableException {
  private static final long serialVersionUID = 1L;

  RepeatedKeyException(String message, Throwable cause) {
    super(message, cause);
  }
}
