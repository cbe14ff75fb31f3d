package interbed.spark.planner;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.URI;

/** A connection to a remote planner, `interbed spark planner`. */
final class PlannerSocket implements Planner.Link {
  private static final int CONNECT_MILLIS_MAX = 10_000;

  /** Timeout of an answer; the longest calls are commits that wait for others, and compactions of procedures. */
  private static final int ANSWER_MILLIS_MAX = 3_600_000;

  private final Socket socket;

  private PlannerSocket(Socket socket) {
    this.socket = socket;
  }

  static PlannerSocket connect(String endpoint) throws IOException {
    URI uri = URI.create(endpoint);
    if (!"thrift".equals(uri.getScheme()) || uri.getHost() == null || uri.getPort() < 0) {
      throw new IllegalArgumentException("spark.interbed.planner takes thrift://HOST:PORT, not " + endpoint);
    }
    Socket socket = new Socket();
    try {
      socket.connect(new InetSocketAddress(uri.getHost(), uri.getPort()), CONNECT_MILLIS_MAX);
      socket.setSoTimeout(ANSWER_MILLIS_MAX);
      socket.setKeepAlive(true);
      socket.setTcpNoDelay(true);
      return new PlannerSocket(socket);
    } catch (IOException error) {
      socket.close();
      throw error;
    }
  }

  @Override
  public InputStream inputStream() throws IOException {
    return socket.getInputStream();
  }

  @Override
  public OutputStream outputStream() throws IOException {
    return socket.getOutputStream();
  }

  @Override
  public void hangUp() {
    try {
      socket.close();
    } catch (IOException ignored) {
      // The connection is lost, and was to be closed.
    }
  }
}
