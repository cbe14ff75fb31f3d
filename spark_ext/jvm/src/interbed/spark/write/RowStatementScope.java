package interbed.spark.write;

/**
 * While a scope is open, the current thread runs an UPDATE, DELETE or MERGE: its writes depend on its reads.
 *
 * <p>Scopes may be nested; used by try-with-resources.
 */
public final class RowStatementScope implements AutoCloseable {
  private static final ThreadLocal<Boolean> OPEN = ThreadLocal.withInitial(() -> false);

  private final boolean outer;

  private RowStatementScope(boolean outer) {
    this.outer = outer;
  }

  public static RowStatementScope open() {
    RowStatementScope scope = new RowStatementScope(OPEN.get());
    OPEN.set(true);
    return scope;
  }

  /** Whether the current thread is in such a statement. */
  public static boolean isOpen() {
    return OPEN.get();
  }

  @Override
  public void close() {
    OPEN.set(outer);
  }
}
