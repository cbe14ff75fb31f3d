package interbed.spark.planner;

import interbed.spark.thrift.ErrorKind;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.channels.WritableByteChannel;
import java.nio.charset.StandardCharsets;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.python.PythonWorker;
import scala.Tuple2;
import scala.collection.immutable.Map;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A connection to one Python process of Spark's worker pool that runs interbed.spark_ext.process.worker.
 *
 * <p>Spark starts, authenticates and ends the processes. After a complete request {@link #release} returns the process to the
 * pool. Otherwise {@link #hangUp} closes the connection, after which the process deletes its files and exits. It is never killed:
 * a killed process could not delete the files of the failed task.
 *
 * <p>Used by one thread at a time.
 */
public final class PythonWorkerChannel implements ReadableByteChannel, WritableByteChannel, Planner.Link {
  /** Operations of a worker; the same numbers as in interbed/spark_ext/process/worker.py. */
  public enum Operation {
    READ(1),
    WRITE(2),
    PLAN(3),
    TASK(4),
    DELETIONS(5),
    BLOCKS(6);

    private final int code;

    Operation(int code) {
      this.code = code;
    }
  }

  /** A frame's first four bytes; the same numbers as in interbed/spark_ext/process/worker.py. */
  public static final int END = 0;

  public static final int BATCH = 1;
  public static final int ABORT = 2;
  static final int FAILURE = -2;

  private static final String WORKER_MODULE = "interbed.spark_ext.process.worker";
  private static final String DAEMON_MODULE = "interbed.spark_ext.process.daemon";

  private final String executable;
  private final Map<String, String> environment;
  private final PythonWorker worker;
  private final SocketChannel channel;
  private final ByteBuffer word = ByteBuffer.allocateDirect(Integer.BYTES);
  private boolean done;

  private PythonWorkerChannel(String executable, Map<String, String> environment, PythonWorker worker)
      throws IOException {
    this.executable = executable;
    this.environment = environment;
    this.worker = worker;
    this.channel = worker.channel();
    // Spark has registered the channel with a selector, and a registered channel cannot block.
    Selector selector = worker.selector();
    if (selector != null) {
      selector.close();
    }
    channel.configureBlocking(true);
  }

  /** Takes an idle worker or starts one, and sends it the request. */
  public static PythonWorkerChannel open(PythonCommand command, Operation operation, byte[]... payloads) {
    Map<String, String> environment = Map.from(CollectionConverters.asScala(TokenFile.added(command.environment())));
    PythonWorker worker = started(command.executable(), environment);
    try {
      PythonWorkerChannel opened = new PythonWorkerChannel(command.executable(), environment, worker);
      try {
        opened.request(operation, payloads);
      } catch (IOException error) {
        opened.hangUp();
        throw error;
      }
      return opened;
    } catch (IOException error) {
      throw new UncheckedIOException(
          "The Python worker of interbed (" + command.executable() + ") could not be reached", error);
    }
  }

  private static PythonWorker started(String executable, Map<String, String> environment) {
    try {
      // The second value of the pair has another type from Spark 4.3 on, and is not used.
      Tuple2<PythonWorker, ?> started =
          SparkEnv.get().createPythonWorker(executable, WORKER_MODULE, DAEMON_MODULE, environment, true);
      return started._1();
    } catch (Exception error) {
      // Spark's exception, which Scala does not declare: the process did not start.
      Throwable reason = PythonSetupException.inPlaceOf(error, executable);
      throw reason instanceof IOException other
          ? new UncheckedIOException("The Python worker of interbed (" + executable + ") could not be started", other)
          : Unchecked.rethrow(reason);
    }
  }

  private void request(Operation operation, byte[][] payloads) throws IOException {
    int length = 0;
    for (byte[] payload : payloads) {
      length += Integer.BYTES + payload.length;
    }
    ByteBuffer buffer = ByteBuffer.allocate(2 * Integer.BYTES + length);
    buffer.putInt(operation.code).putInt(payloads.length);
    for (byte[] payload : payloads) {
      buffer.putInt(payload.length).put(payload);
    }
    write(buffer.flip());
  }

  /** Returns the process to the pool for the next request. */
  public void release() {
    if (!done) {
      done = true;
      SparkEnv.get().releasePythonWorker(executable, WORKER_MODULE, DAEMON_MODULE, environment, worker);
    }
  }

  /** Closes the connection within a request: the process reads the end of its input, deletes its files and exits. */
  @Override
  public void hangUp() {
    if (!done) {
      done = true;
      try {
        channel.close();
      } catch (IOException ignored) {
        // The connection is lost, and was to be closed.
      }
    }
  }

  public void writeInt(int value) throws IOException {
    word.clear();
    word.putInt(value).flip();
    write(word);
  }

  public int readInt() throws IOException {
    word.clear();
    readFully(word);
    word.flip();
    return word.getInt();
  }

  public byte[] readBytes() throws IOException {
    byte[] bytes = new byte[readInt()];
    readFully(ByteBuffer.wrap(bytes));
    return bytes;
  }

  /** The error that follows a FAILURE marker, as an exception to throw; the connection can't be used again. */
  public RuntimeException failure() throws IOException {
    ErrorKind kind = ErrorKind.findByValue(readInt());
    String message = new String(readBytes(), StandardCharsets.UTF_8);
    String traceback = new String(readBytes(), StandardCharsets.UTF_8);
    hangUp();
    return new PlannerException(kind, message, traceback).translated();
  }

  private void readFully(ByteBuffer buffer) throws IOException {
    while (buffer.hasRemaining()) {
      if (channel.read(buffer) < 0) {
        throw new EOFException(
            "The Python worker of interbed exited unexpectedly; its standard error says why (killed for its memory?)");
      }
    }
  }

  @Override
  public int read(ByteBuffer target) throws IOException {
    return channel.read(target);
  }

  @Override
  public int write(ByteBuffer source) throws IOException {
    int length = source.remaining();
    while (source.hasRemaining()) {
      channel.write(source);
    }
    return length;
  }

  @Override
  public boolean isOpen() {
    return channel.isOpen();
  }

  /** Does nothing: Arrow's readers and writers close their channel, but the connection is used further. */
  @Override
  public void close() {}

  /** The channel as a stream; Channels.newInputStream would lock it, and refuse a channel in non-blocking mode. */
  @Override
  public InputStream inputStream() {
    return new InputStream() {
      @Override
      public int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
      }

      @Override
      public int read(byte[] target, int offset, int length) throws IOException {
        return channel.read(ByteBuffer.wrap(target, offset, length));
      }
    };
  }

  @Override
  public OutputStream outputStream() {
    return new OutputStream() {
      @Override
      public void write(int value) throws IOException {
        write(new byte[] {(byte) value}, 0, 1);
      }

      @Override
      public void write(byte[] source, int offset, int length) throws IOException {
        PythonWorkerChannel.this.write(ByteBuffer.wrap(source, offset, length));
      }
    };
  }
}
