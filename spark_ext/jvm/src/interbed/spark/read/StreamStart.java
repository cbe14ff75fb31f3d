package interbed.spark.read;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import java.util.function.Supplier;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;

/**
 * The start of a query, in its checkpoint.
 *
 * <p>Spark logs the end of a batch, and calls for the start of the first one until that is committed. If a query dies before that
 * and the table has new commits, the start must not change: with the logged end it would be another batch.
 */
final class StreamStart {
  private final Path file;

  StreamStart(String checkpointLocation) {
    file = new Path(checkpointLocation, "interbed-start");
  }

  /** The recorded position; without one the given position, which is then recorded. */
  String orElse(Supplier<String> position) {
    try {
      FileSystem files = file.getFileSystem(hadoopConf());
      if (!files.exists(file)) {
        // Written by a rename, so that a process that dies while it writes leaves no partial file.
        Path partial = new Path(file.getParent(), "." + file.getName() + "-" + UUID.randomUUID());
        try (FSDataOutputStream out = files.create(partial, true)) {
          out.write(position.get().getBytes(StandardCharsets.UTF_8));
        }
        if (!files.rename(partial, file)) {
          throw new IOException("Cannot rename " + partial + " to " + file);
        }
      }
      try (FSDataInputStream in = files.open(file)) {
        return new String(in.readAllBytes(), StandardCharsets.UTF_8);
      }
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private static org.apache.hadoop.conf.Configuration hadoopConf() {
    return ((org.apache.spark.sql.classic.SparkSession) SparkSession.active()).sessionState().newHadoopConf();
  }
}
