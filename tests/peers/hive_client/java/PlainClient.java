import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.Database;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;

/**
 * Hive's client by SASL PLAIN, for each line of its input: uri, user, password and the name of a database. It creates
 * the database and prints all names, or prints the reason of a refusal.
 */
public final class PlainClient {
    private PlainClient() {
    }

    public static void main(String[] arguments) throws Exception {
        for (String line : new String(System.in.readAllBytes(), "UTF-8").split("\n")) {
            String[] parts = line.split("\t");
            Configuration conf = MetastoreConf.newMetastoreConf();
            MetastoreConf.setVar(conf, MetastoreConf.ConfVars.THRIFT_URIS, parts[0]);
            MetastoreConf.setVar(conf, MetastoreConf.ConfVars.METASTORE_CLIENT_AUTH_MODE, "PLAIN");
            MetastoreConf.setVar(conf, MetastoreConf.ConfVars.METASTORE_CLIENT_PLAIN_USERNAME, parts[1]);
            // Where no provider of credentials has the password of a user, Hadoop takes it from the configuration.
            conf.set(parts[1], parts[2]);
            MetastoreConf.setLongVar(conf, MetastoreConf.ConfVars.THRIFT_CONNECTION_RETRIES, 1);
            MetastoreConf.setLongVar(conf, MetastoreConf.ConfVars.THRIFT_FAILURE_RETRIES, 0);
            try (HiveMetaStoreClient client = new HiveMetaStoreClient(conf)) {
                client.createDatabase(new Database(parts[3], null, null, null));
                System.out.println("databases " + String.join(",", client.getAllDatabases()));
            } catch (Exception refused) {
                System.out.println("refused " + refused.getMessage().replace('\n', ' '));
            }
        }
    }
}
