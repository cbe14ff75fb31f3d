package interbed.spark;

import interbed.spark.thrift.PlannerError;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.util.ArrayDeque;
import java.util.Deque;
import org.apache.spark.SparkEnv;
import org.apache.thrift.TException;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.transport.TIOStreamTransport;
import org.apache.thrift.transport.TTransport;
import org.apache.thrift.transport.TTransportException;

/**
 * The driver's planners: a few long-lived Python processes that answer planner.thrift.
 *
 * <p>A call takes an idle process or starts one, so that a slow commit never holds up another query's planning. Processes
 * keep no session: any of them answers any call.
 */
final class Planner {
  /** As many processes stay warm; more are started when more calls run at once, and end after their call. */
  private static final int IDLE_PROCESSES_MAX = 3;

  private static final int BUFFER_BYTES = 64 * 1024;

  private static final Deque<Planner> IDLE = new ArrayDeque<>();

  private final SparkEnv owner;
  private final PythonWorkerChannel channel;
  private final interbed.spark.thrift.Planner.Client client;

  /** One question to a planner. */
  @FunctionalInterface
  interface Question<R> {
    R ask(interbed.spark.thrift.Planner.Client client) throws TException;
  }

  private Planner() throws TTransportException {
    owner = SparkEnv.get();
    channel = PythonWorkerChannel.open(PythonCommand.current(), PythonWorkerChannel.Operation.PLAN);
    TTransport transport =
        new TIOStreamTransport(
            new BufferedInputStream(channel.inputStream(), BUFFER_BYTES),
            new BufferedOutputStream(channel.outputStream(), BUFFER_BYTES));
    client = new interbed.spark.thrift.Planner.Client(new TBinaryProtocol(transport));
  }

  /**
   * Asks and returns the answer. Throws PlannerException for what the planner refuses, PlannerLostException when it did
   * not answer.
   */
  static <R> R ask(Question<R> question) {
    Planner planner = take();
    boolean intact = false;
    try {
      R answer = question.ask(planner.client);
      intact = true;
      return answer;
    } catch (PlannerError error) {
      intact = true;
      throw new PlannerException(error.getKind(), error.getMessage(), error.getDetail());
    } catch (TException error) {
      throw new PlannerLostException(error);
    } finally {
      if (intact) {
        planner.giveBack();
      } else {
        planner.channel.hangUp();
      }
    }
  }

  /** Like {@link #ask}, with the refusals turned into Spark's unchecked exceptions. */
  static <R> R askOrThrow(Question<R> question) {
    try {
      return ask(question);
    } catch (PlannerException error) {
      throw error.translated();
    }
  }

  private static Planner take() {
    synchronized (IDLE) {
      // A process belongs to the SparkContext that started it and dies with it.
      IDLE.removeIf(planner -> planner.owner != SparkEnv.get());
      Planner idle = IDLE.pollFirst();
      if (idle != null) {
        return idle;
      }
    }
    try {
      return new Planner();
    } catch (TTransportException error) {
      throw new PlannerLostException(error);
    }
  }

  private void giveBack() {
    synchronized (IDLE) {
      if (IDLE.size() < IDLE_PROCESSES_MAX && owner == SparkEnv.get()) {
        IDLE.addFirst(this);
        return;
      }
    }
    channel.hangUp();
  }
}
