package interbed.spark.planner;

import org.apache.spark.sql.execution.QueryExecutionException;

/** The snapshot that a statement reads has expired; run again, it reads a newer one. */
final class SnapshotGoneException extends QueryExecutionException implements RetryableException {
  private static final long serialVersionUID = 1L;

  SnapshotGoneException(String message, Throwable cause) {
    super(message, cause);
  }
}
