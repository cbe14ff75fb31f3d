package interbed.spark.planner;

/** Throws checked exceptions where Spark's interfaces, written in Scala, declare none. */
public final class Unchecked {
  private Unchecked() {}

  /** Never returns; the result type is for {@code throw}, which shows that to the compiler. */
  public static RuntimeException rethrow(Throwable error) {
    throw Unchecked.<RuntimeException>as(error);
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E as(Throwable error) throws E {
    throw (E) error;
  }
}
