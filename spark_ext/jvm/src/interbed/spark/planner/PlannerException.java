package interbed.spark.planner;

import interbed.spark.thrift.ErrorKind;
import org.apache.spark.sql.execution.QueryExecutionException;

/** A refusal from Python, with its kind; {@link #translated} is what users get to see. */
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

  /** Whether a metastore's table was asked for that is of another format. */
  public boolean isOfForeignTable() {
    return kind == ErrorKind.FOREIGN_TABLE;
  }

  /**
   * The error under the class that Spark and PySpark know for its kind. PySpark shows these by their message; of others it
   * shows pages of the JVM's stack.
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
