import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.Database;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;

/**
 * Hive's client over HTTP, with the token of the variable HMS_JWT: it creates a database and prints all names, or prints
 * the reason of a refusal.
 */
public final class TokenClient {
    private TokenClient() {
    }

    public static void main(String[] arguments) throws Exception {
        Configuration conf = MetastoreConf.newMetastoreConf();
        MetastoreConf.setVar(conf, MetastoreConf.ConfVars.THRIFT_URIS, arguments[0]);
        MetastoreConf.setVar(conf, MetastoreConf.ConfVars.METASTORE_CLIENT_THRIFT_TRANSPORT_MODE, "http");
        MetastoreConf.setVar(conf, MetastoreConf.ConfVars.METASTORE_CLIENT_AUTH_MODE, "JWT");
        MetastoreConf.setLongVar(conf, MetastoreConf.ConfVars.THRIFT_CONNECTION_RETRIES, 1);
        MetastoreConf.setLongVar(conf, MetastoreConf.ConfVars.THRIFT_FAILURE_RETRIES, 0);
        try (HiveMetaStoreClient client = new HiveMetaStoreClient(conf)) {
            client.createDatabase(new Database(arguments[1], null, null, null));
            System.out.println("databases " + String.join(",", client.getAllDatabases()));
        } catch (Exception refused) {
            System.out.println("refused " + refused.getMessage().lines().findFirst().orElse(""));
        }
    }
}
