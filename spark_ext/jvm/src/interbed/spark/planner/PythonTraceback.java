package interbed.spark.planner;

/** Carries Python's traceback to where causes are printed, without a stack of its own. */
final class PythonTraceback extends RuntimeException {
  private static final long serialVersionUID = 1L;

  PythonTraceback(String text) {
    super("Python traceback:\n" + text, null, false, false);
  }
}
