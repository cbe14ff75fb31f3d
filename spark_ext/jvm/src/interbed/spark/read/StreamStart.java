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
 * Where a query began, in its checkpoint.
 *
 * <p>Spark logs where a batch ends, and asks again where the first one began until that is committed. A query that dies
 * before that must not begin elsewhere because the table went on meanwhile: the logged end would mean another batch.
 */
final class StreamStart {
  private final Path file;

  StreamStart(String checkpointLocation) {
    file = new Path(checkpointLocation, "interbed-start");
  }

  /** The position that is noted, or else the one given, which is noted from now on. */
  String orElse(Supplier<String> position) {
    try {
      FileSystem files = file.getFileSystem(hadoopConf());
      if (!files.exists(file)) {
        // Renamed into place, so that a process that dies while it writes leaves nothing that could be read.
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
