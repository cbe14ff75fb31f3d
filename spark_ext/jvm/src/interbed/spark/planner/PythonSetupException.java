package interbed.spark.planner;

import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.execution.QueryExecutionException;

/**
 * The Python for interbed on this node is missing, or lacks interbed. The exception has neither a stack nor a cause: its message
 * is one line with the remedy, and PySpark shows only the message of this kind.
 */
final class PythonSetupException extends QueryExecutionException {
  private static final long serialVersionUID = 1L;

  private static final Pattern NO_MODULE = Pattern.compile("No module named '?([\\w.]+)");
  private static final String NO_PROGRAM = "Cannot run program";

  private PythonSetupException(String message) {
    super(message, null);
  }

  /** The exception for a process that failed to start; the given failure when it has another reason. */
  static Throwable inPlaceOf(Throwable failure, String executable) {
    String said = String.valueOf(failure.getMessage());
    Matcher module = NO_MODULE.matcher(said);
    if (module.find()) {
      return new PythonSetupException(
          "The Python " + executable + " on this node has no interbed (or lacks what it needs: no module " + module.group(1)
              + "). " + advice());
    }
    if (said.startsWith(NO_PROGRAM)) {
      return new PythonSetupException("There is no Python " + executable + " on this node. " + advice());
    }
    return failure;
  }

  private static String advice() {
    return "Set spark.interbed.python to one that has interbed on every node, or ship an environment with the application: "
        + "`venv-pack -o env.tar.gz`, then --archives env.tar.gz#env --conf spark.interbed.python=./env/bin/python "
        + "(docs/spark-setup.md)";
  }

  @Override
  public synchronized Throwable fillInStackTrace() {
    return this;
  }
}
