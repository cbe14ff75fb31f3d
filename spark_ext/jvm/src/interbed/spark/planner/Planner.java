package interbed.spark.planner;

import interbed.spark.thrift.PlannerError;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.ref.WeakReference;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Objects;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.thrift.TException;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.transport.TIOStreamTransport;
import org.apache.thrift.transport.TTransport;
import org.apache.thrift.transport.TTransportException;

/**
 * The driver's planners: a few long-lived Python processes that serve planner.thrift, or connections to a remote server.
 *
 * <p>A call takes an idle process or starts one, so that a slow commit never blocks another query's planning. Processes have
 * no sessions: any of them answers any call. With the setting spark.interbed.planner=thrift://host:port the driver needs no
 * Python; connections to the server take the place of processes.
 */
public final class Planner {
  /** Idle processes that are kept; more are started when more calls run at once, and end after their call. */
  private static final int IDLE_PROCESSES_MAX = 3;

  private static final String ENDPOINT = "spark.interbed.planner";

  private static final int BUFFER_BYTES = 64 * 1024;

  private static final Deque<Planner> IDLE = new ArrayDeque<>();

  /** The application for which a process was started before its first call. */
  private static WeakReference<SparkEnv> prepared = new WeakReference<>(null);

  private final SparkEnv owner;
  /** The remote server; null for a process of the driver. */
  private final String endpoint;

  private final Link link;
  private final interbed.spark.thrift.Planner.Client client;

  /** One call of a planner. */
  @FunctionalInterface
  public interface Question<R> {
    R ask(interbed.spark.thrift.Planner.Client client) throws TException;
  }

  /** The connection to a planner. */
  interface Link {
    InputStream inputStream() throws IOException;

    OutputStream outputStream() throws IOException;

    void hangUp();
  }

  private Planner(String endpoint) throws TTransportException, IOException {
    this.endpoint = endpoint;
    owner = SparkEnv.get();
    link =
        endpoint == null
            ? PythonWorkerChannel.open(PythonCommand.current(), PythonWorkerChannel.Operation.PLAN)
            : PlannerSocket.connect(endpoint);
    TTransport transport =
        new TIOStreamTransport(
            new BufferedInputStream(link.inputStream(), BUFFER_BYTES),
            new BufferedOutputStream(link.outputStream(), BUFFER_BYTES));
    client = new interbed.spark.thrift.Planner.Client(new TBinaryProtocol(transport));
    agree();
  }

  /** Throws PlannerException when Python and this jar have different versions. */
  private void agree() {
    try {
      client.checkInterface(InterfaceVersion.OURS);
    } catch (PlannerError error) {
      link.hangUp();
      throw new PlannerException(error.getKind(), error.getMessage(), error.getDetail());
    } catch (TException error) {
      link.hangUp();
      throw new PlannerLostException(endpoint, error);
    }
  }

  /**
   * Calls a planner and returns the answer. Throws PlannerException for an error of the planner, PlannerLostException when it
   * did not answer.
   */
  public static <R> R ask(Question<R> question) {
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
      throw new PlannerLostException(planner.endpoint, error);
    } finally {
      if (intact) {
        planner.giveBack();
      } else {
        planner.link.hangUp();
        planner.forgetItsLike();
      }
    }
  }

  /** Like {@link #ask}, with the errors as Spark's unchecked exceptions. */
  public static <R> R askOrThrow(Question<R> question) {
    try {
      return ask(question);
    } catch (PlannerException error) {
      throw error.translated();
    }
  }

  /**
   * Starts a process in the background: Python's imports take most of the time of the first call. Does nothing for an
   * application with a remote server, and at the second call.
   */
  public static void prepare() {
    SparkEnv env = SparkEnv.get();
    synchronized (IDLE) {
      if (env == null || env == prepared.get() || env.conf().contains(ENDPOINT)) {
        return;
      }
      prepared = new WeakReference<>(env);
    }
    Thread starter = new Thread(Planner::startAhead, "interbed-planner-start");
    starter.setDaemon(true);
    starter.start();
  }

  private static void startAhead() {
    try {
      new Planner(null).giveBack();
    } catch (Exception error) {
      // The first call fails in the same way, and reports the error to the user.
    }
  }

  private static Planner take() {
    String endpoint = SQLConf.get().getConfString(ENDPOINT, null);
    synchronized (IDLE) {
      // A process belongs to the SparkContext that started it, and ends with it.
      IDLE.removeIf(planner -> planner.owner != SparkEnv.get());
      for (Planner idle : IDLE) {
        if (Objects.equals(idle.endpoint, endpoint)) {
          IDLE.remove(idle);
          return idle;
        }
      }
    }
    try {
      return new Planner(endpoint);
    } catch (TTransportException | IOException error) {
      throw new PlannerLostException(endpoint, error);
    }
  }

  /** Closes idle connections to a server that has lost one: it may have been restarted. */
  private void forgetItsLike() {
    if (endpoint == null) {
      return;
    }
    synchronized (IDLE) {
      IDLE.removeIf(
          planner -> {
            boolean alike = endpoint.equals(planner.endpoint);
            if (alike) {
              planner.link.hangUp();
            }
            return alike;
          });
    }
  }

  private void giveBack() {
    synchronized (IDLE) {
      if (IDLE.size() < IDLE_PROCESSES_MAX && owner == SparkEnv.get()) {
        IDLE.addFirst(this);
        return;
      }
    }
    link.hangUp();
  }
}
