package interbed.spark.planner;

import org.apache.spark.sql.execution.QueryExecutionException;

/** A MERGE that did not read its target has a repeated key: nothing was changed, and it has to read the target. */
public final class RepeatedKeyException extends QueryExecutionException implements RetryableException {
  private static final long serialVersionUID = 1L;

  RepeatedKeyException(String message, Throwable cause) {
    super(message, cause);
  }
}
