package interbed.spark.planner;

import org.apache.spark.sql.execution.QueryExecutionException;

/** Another writer has committed first: nothing was changed, and the statement may be run again. */
final class CommitConflictException extends QueryExecutionException implements RetryableException {
  private static final long serialVersionUID = 1L;

  CommitConflictException(String message, Throwable cause) {
    super(message, cause);
  }
}
