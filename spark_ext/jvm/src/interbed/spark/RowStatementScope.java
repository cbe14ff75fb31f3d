package interbed.spark;

/**
 * While one is open, the current thread runs an UPDATE, DELETE or MERGE: what it writes follows from what it read.
 *
 * <p>Scopes may be nested; used by try-with-resources.
 */
final class RowStatementScope implements AutoCloseable {
  private static final ThreadLocal<Boolean> OPEN = ThreadLocal.withInitial(() -> false);

  private final boolean outer;

  private RowStatementScope(boolean outer) {
    this.outer = outer;
  }

  static RowStatementScope open() {
    RowStatementScope scope = new RowStatementScope(OPEN.get());
    OPEN.set(true);
    return scope;
  }

  /** Whether the current thread is in such a statement. */
  static boolean isOpen() {
    return OPEN.get();
  }

  @Override
  public void close() {
    OPEN.set(outer);
  }
}
