package interbed.spark.planner;

import interbed.spark.thrift.ErrorKind;
import org.apache.spark.sql.execution.QueryExecutionException;

/** An error from Python, with its kind; {@link #translated} is the exception for users. */
public final class PlannerException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final ErrorKind kind;

  PlannerException(ErrorKind kind, String message, String traceback) {
    super(message, traceback == null || traceback.isEmpty() ? null : new PythonTraceback(traceback));
    this.kind = kind == null ? ErrorKind.INTERNAL : kind;
  }

  public ErrorKind kind() {
    return kind;
  }

  /** Whether the error is about a metastore's table of another format. */
  public boolean isOfForeignTable() {
    return kind == ErrorKind.FOREIGN_TABLE;
  }

  /**
   * The error in Spark's and PySpark's class for its kind. PySpark shows the message of these; for other classes it shows the
   * JVM's stack trace.
   */
  public RuntimeException translated() {
    return switch (kind) {
      case INVALID_ARGUMENT, NO_SUCH_SNAPSHOT -> new IllegalArgumentException(getMessage(), getCause());
      case UNSUPPORTED, FOREIGN_TABLE -> new UnsupportedOperationException(getMessage(), getCause());
      case COMMIT_CONFLICT -> Unchecked.rethrow(new CommitConflictException(getMessage(), getCause()));
      case SNAPSHOT_GONE -> Unchecked.rethrow(new SnapshotGoneException(getMessage(), getCause()));
      case REPEATED_KEY -> Unchecked.rethrow(new RepeatedKeyException(getMessage(), getCause()));
      default -> Unchecked.rethrow(new QueryExecutionException(getMessage(), getCause()));
    };
  }
}
