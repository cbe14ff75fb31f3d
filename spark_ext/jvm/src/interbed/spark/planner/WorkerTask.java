package interbed.spark.planner;

import interbed.spark.thrift.ScanPlan;
import interbed.spark.thrift.WritePlan;
import java.io.IOException;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.nio.ByteBuffer;
import org.apache.spark.sql.internal.SQLConf;

/**
 * What executors get of a scan or a write. Spark serializes it once for each stage, on the driver: if credentials in it are old by
 * then, the stage gets new ones.
 */
public final class WorkerTask implements Serializable {
  private static final long serialVersionUID = 1L;

  private byte[] bytes;
  // The rest is the driver's: the handle of the table, and the settings by which a planner is chosen.
  private final transient ByteBuffer handle;
  private final transient long renewedAfter;
  private final transient SQLConf conf;

  private WorkerTask(byte[] bytes, ByteBuffer handle, long renewedAfter) {
    this.bytes = bytes;
    this.handle = handle;
    this.renewedAfter = renewedAfter;
    conf = handle == null ? null : SQLConf.get().clone();
  }

  /** A task without credentials that end, or one that is planned for each of its stages. */
  public static WorkerTask of(byte[] bytes) {
    return new WorkerTask(bytes, null, Long.MAX_VALUE);
  }

  /** The task of a scan of a table. */
  public static WorkerTask of(ScanPlan plan, PlannerTable table) {
    return of(plan.getTask(), plan.isSetRenewedAfter(), plan.getRenewedAfter(), table);
  }

  /** The task of a write to a table. */
  public static WorkerTask of(WritePlan plan, PlannerTable table) {
    return of(plan.getTask(), plan.isSetRenewedAfter(), plan.getRenewedAfter(), table);
  }

  private static WorkerTask of(byte[] bytes, boolean ends, long renewedAfter, PlannerTable table) {
    return ends ? new WorkerTask(bytes, table.info().bufferForHandle(), renewedAfter) : of(bytes);
  }

  public byte[] bytes() {
    return bytes;
  }

  private void writeObject(ObjectOutputStream stream) throws IOException {
    if (handle != null && System.currentTimeMillis() >= renewedAfter) {
      renew();
    }
    stream.defaultWriteObject();
  }

  /** Spark's scheduler has no session: the settings are those of the plan. */
  private void renew() {
    try {
      ByteBuffer renewed =
          SQLConf.withExistingConf(
              conf, () -> Planner.ask(planner -> planner.renewTask(handle.duplicate(), ByteBuffer.wrap(bytes))));
      byte[] content = new byte[renewed.remaining()];
      renewed.get(content);
      bytes = content;
    } catch (PlannerException | PlannerLostException error) {
      // The present credentials may still be valid; an executor reports their end.
    }
  }
}
