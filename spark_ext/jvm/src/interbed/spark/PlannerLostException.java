package interbed.spark;

/** The planner went away in the middle of a call: whether it did what it was asked is not known. */
public final class PlannerLostException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  PlannerLostException(Throwable cause) {
    super(
        "The Python planner of interbed ended while it was asked (" + cause.getMessage() + "); its standard error says why",
        cause);
  }
}
