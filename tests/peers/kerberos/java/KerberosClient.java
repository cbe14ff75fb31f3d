import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.security.PrivilegedExceptionAction;
import java.util.Collections;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.metastore.IMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.Database;
import org.apache.hadoop.security.UserGroupInformation;

/**
 * Hive's client of the metastore, of any version, with Kerberos. A line of its input has, between tabs: the address, the
 * server's principal, the value of hadoop.rpc.protection, the user's principal and keytab, and the name of a database
 * that is created. It answers `databases` with their names, or `refused` with the reason.
 */
public final class KerberosClient {
  public static void main(String[] arguments) throws Exception {
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      String[] fields = line.split("\t");
      System.out.println(answer(fields[0], fields[1], fields[2], fields[3], fields[4], fields[5]));
    }
    System.exit(0);
  }

  private static String answer(
      String uri, String server, String protection, String user, String keytab, String database) {
    Configuration configuration = configuration();
    for (String prefix : new String[] {"hive.metastore.", "metastore."}) {
      configuration.set(prefix + "sasl.enabled", "true");
      configuration.set(prefix + "kerberos.principal", server);
      configuration.set(prefix + "connect.retries", "1");
      configuration.set(prefix + "failure.retries", "1");
    }
    configuration.set("hive.metastore.uris", uri);
    configuration.set("metastore.thrift.uris", uri);
    configuration.set("metastore.client.capability.check", "false");
    configuration.set("hadoop.security.authentication", "kerberos");
    configuration.set("hadoop.rpc.protection", protection);
    try {
      UserGroupInformation.setConfiguration(configuration);
      UserGroupInformation login = UserGroupInformation.loginUserFromKeytabAndReturnUGI(user, keytab);
      return login.doAs((PrivilegedExceptionAction<String>) () -> call(configuration, database));
    } catch (Exception error) {
      return "refused " + reason(error);
    }
  }

  private static String call(Configuration configuration, String database) throws Exception {
    IMetaStoreClient client = client(configuration);
    try {
      client.createDatabase(new Database(database, null, null, Collections.emptyMap()));
      return "databases " + String.join(",", client.getAllDatabases());
    } finally {
      client.close();
    }
  }

  /** Returns a HiveConf where the version has one that its client asks for. */
  private static Configuration configuration() {
    try {
      Class<?> hive = Class.forName("org.apache.hadoop.hive.conf.HiveConf");
      HiveMetaStoreClient.class.getConstructor(hive);
      return (Configuration) hive.getConstructor().newInstance();
    } catch (ReflectiveOperationException error) {
      return new Configuration();
    }
  }

  private static IMetaStoreClient client(Configuration configuration) throws Exception {
    for (Constructor<?> each : HiveMetaStoreClient.class.getConstructors()) {
      Class<?>[] types = each.getParameterTypes();
      if (types.length == 1 && types[0].isInstance(configuration)) {
        return (IMetaStoreClient) each.newInstance(configuration);
      }
    }
    throw new IllegalStateException("no constructor takes " + configuration.getClass());
  }

  private static String reason(Throwable error) {
    StringBuilder text = new StringBuilder();
    for (Throwable each = error; each != null; each = each.getCause()) {
      text.append(each).append(' ');
    }
    return text.toString().replace('\n', ' ');
  }
}
