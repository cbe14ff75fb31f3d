package interbed.spark.planner;

/** Python's traceback as the cause of an exception, without a Java stack. */
final class PythonTraceback extends RuntimeException {
  private static final long serialVersionUID = 1L;

  PythonTraceback(String text) {
    super("Python traceback:\n" + text, null, false, false);
  }
}
