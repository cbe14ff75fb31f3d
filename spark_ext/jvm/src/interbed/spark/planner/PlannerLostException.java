package interbed.spark.planner;

/** The connection to the planner was lost within a call: it is unknown whether the call was carried out. */
public final class PlannerLostException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  PlannerLostException(String endpoint, Throwable cause) {
    super(message(endpoint, cause), cause);
  }

  private static String message(String endpoint, Throwable cause) {
    return endpoint == null
        ? "The Python planner of interbed ended while it was asked (" + cause.getMessage() + "); its standard error says why"
        : "The planner at " + endpoint + " (spark.interbed.planner) does not answer: " + cause.getMessage()
            + ". Start it by `interbed spark planner`, or RESET the setting for planners of the driver's own";
  }
}
