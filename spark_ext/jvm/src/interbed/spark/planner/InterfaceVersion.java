package interbed.spark.planner;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;

/**
 * The version of planner.thrift in this jar: a digest that the build writes beside the classes. Python compares it with its
 * own, because a jar of another version would ignore unknown parts of answers, and return wrong rows.
 */
final class InterfaceVersion {
  /** The environment variable for Python's workers; the same name as in interbed/spark_ext/process/planner.py. */
  static final String VARIABLE = "INTERBED_INTERFACE";

  /** The path of the digest in the jar; the same as in hatch_build.py. */
  private static final String RESOURCE = "/interbed/spark/interface";

  static final String OURS = read();

  private InterfaceVersion() {}

  private static String read() {
    try (InputStream resource = InterfaceVersion.class.getResourceAsStream(RESOURCE)) {
      if (resource == null) {
        throw new IllegalStateException("The jar of interbed was not built by interbed's build: install interbed again");
      }
      return new String(resource.readAllBytes(), StandardCharsets.US_ASCII);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
