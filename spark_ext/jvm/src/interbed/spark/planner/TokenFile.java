package interbed.spark.planner;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.security.Credentials;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.security.token.TokenIdentifier;

/**
 * The delegation tokens of HDFS that Spark has given this process, in a file for its Python processes: executors have no ticket
 * and no keytab. Spark renews the tokens, so the file is written again when they have changed. It is in a directory that only the
 * user of the process reads, and is deleted with the process.
 */
final class TokenFile {
  private static final String VARIABLE = "HADOOP_TOKEN_FILE_LOCATION";
  private static final Text KIND = new Text("HDFS_DELEGATION_TOKEN");

  private static Path file;
  private static byte[] written;

  private TokenFile() {}

  /** The environment of a Python process with the file, if this process has such tokens. */
  static synchronized Map<String, String> added(Map<String, String> environment) {
    try {
      Credentials tokens = tokens();
      if (tokens.numberOfTokens() == 0) {
        return environment;
      }
      write(bytes(tokens));
    } catch (IOException error) {
      throw new UncheckedIOException("The delegation tokens of HDFS can't be given to Python", error);
    }
    Map<String, String> whole = new TreeMap<>(environment);
    whole.put(VARIABLE, file.toString());
    return whole;
  }

  private static Credentials tokens() throws IOException {
    Credentials found = new Credentials();
    if (UserGroupInformation.isSecurityEnabled()) {
      for (Token<? extends TokenIdentifier> token : UserGroupInformation.getCurrentUser().getTokens()) {
        // A private copy serves one name node of a nameservice, which the client finds by the token of all.
        if (KIND.equals(token.getKind()) && !token.isPrivate()) {
          found.addToken(token.getService(), token);
        }
      }
    }
    return found;
  }

  private static byte[] bytes(Credentials tokens) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    tokens.writeTokenStorageToStream(new DataOutputStream(bytes));
    return bytes.toByteArray();
  }

  private static void write(byte[] content) throws IOException {
    if (file == null) {
      Path directory = Files.createTempDirectory("interbed-tokens-");
      file = directory.resolve("tokens");
      directory.toFile().deleteOnExit();
      file.toFile().deleteOnExit();
    }
    if (Arrays.equals(content, written) && Files.exists(file)) {
      return;
    }
    Path newer = Files.createTempFile(file.getParent(), "tokens-", "");
    Files.write(newer, content);
    Files.move(newer, file, StandardCopyOption.ATOMIC_MOVE);
    written = content;
  }
}
