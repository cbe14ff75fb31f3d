package interbed.spark.read;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FilterFileSystem;
import org.apache.hadoop.util.ReflectionUtils;
import org.apache.spark.sql.classic.SparkSession;

/**
 * An object store with one catalog's options. Hadoop caches open file systems by the bucket alone, so that a catalog would read
 * with the credentials of the first user. The planner sets this class, Hadoop's client and the identity of the options.
 */
public final class CatalogFileSystem extends FilterFileSystem {
  private static final String CLIENT = "interbed.file-system.client";
  private static final String IDENTITY = "interbed.file-system.identity";

  /** Clients stay open as long as the process, as in Hadoop's own cache. */
  private static final Map<Opened, FileSystem> OPENED = new ConcurrentHashMap<>();

  private record Opened(String identity, URI store) {}

  /** Whether the session's Hadoop has a client for the scheme. */
  static boolean isKnown(String scheme) {
    SparkSession session = (SparkSession) org.apache.spark.sql.SparkSession.active();
    try {
      FileSystem.getFileSystemClass(scheme, session.sparkContext().hadoopConfiguration());
      return true;
    } catch (IOException | RuntimeException | LinkageError missing) {
      return false;
    }
  }

  @Override
  public void initialize(URI name, Configuration conf) throws IOException {
    try {
      Opened asked = new Opened(conf.get(IDENTITY), name.resolve("/"));
      fs = OPENED.computeIfAbsent(asked, store -> opened(store.store(), conf));
    } catch (UncheckedIOException error) {
      throw error.getCause();
    }
    super.initialize(name, conf);
  }

  private static FileSystem opened(URI store, Configuration conf) {
    try {
      FileSystem client = (FileSystem) ReflectionUtils.newInstance(conf.getClassByName(conf.get(CLIENT)), conf);
      client.initialize(store, conf);
      return client;
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    } catch (ClassNotFoundException missing) {
      throw new UncheckedIOException(
          new IOException("Hadoop's client " + conf.get(CLIENT) + " is not on this executor's class path", missing));
    }
  }

  /** Does nothing: the client is shared. */
  @Override
  public void close() {}
}
