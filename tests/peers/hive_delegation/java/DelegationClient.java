import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.security.PrivilegedExceptionAction;
import java.util.TreeSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.security.token.delegation.AbstractDelegationTokenIdentifier;

/**
 * Delegation tokens by Hive's client, of any release since 2.3. Each line of the input is a command and its arguments,
 * separated by tabs; each is answered with one line, `ok` and a result, or `refused` and the reason.
 *
 * issue, renew and cancel authenticate themselves by SASL PLAIN, which Hive 4 has, issue_by_ticket and renew_by_ticket
 * by Kerberos, the others by a token.
 */
public final class DelegationClient {
    private static final String SIGNATURE = "lake";

    private DelegationClient() {
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        for (String line : new String(System.in.readAllBytes(), "UTF-8").split("\n")) {
            try {
                out.println("ok " + answer(line.split("\t", -1)));
            } catch (Throwable refused) {
                out.println("refused " + reason(refused));
            }
        }
        out.flush();
        System.exit(0);
    }

    private static Object answer(String[] parts) throws Exception {
        switch (parts[0]) {
            case "issue":
                return byPassword(parts).getDelegationToken(parts[4], parts[5]);
            case "renew":
                return byPassword(parts).renewDelegationToken(parts[4]);
            case "cancel":
                byPassword(parts).cancelDelegationToken(parts[4]);
                return "";
            case "store":
                return stored(byPassword(parts));
            case "issue_by_ticket":
                return byTicket(parts, client -> client.getDelegationToken(parts[5], parts[6]));
            case "renew_by_ticket":
                return byTicket(parts, client -> client.renewDelegationToken(parts[5]));
            case "databases":
                return byToken(parts[1], parts[2], parts[3], client -> new TreeSet<>(client.getAllDatabases()));
            case "issue_by_token":
                return byToken(parts[1], parts[2], "authentication", client -> client.getDelegationToken("ann", "hive"));
            case "renew_by_token":
                return byToken(parts[1], parts[2], "authentication", client -> client.renewDelegationToken(parts[2]));
            case "cancel_by_token":
                return byToken(parts[1], parts[2], "authentication", client -> {
                    client.cancelDelegationToken(parts[2]);
                    return "";
                });
            case "identifier":
                return identifier(parts[1]);
            default:
                throw new IllegalArgumentException(parts[0]);
        }
    }

    private interface Call {
        Object on(HiveMetaStoreClient client) throws Exception;
    }

    private static HiveMetaStoreClient byPassword(String[] parts) throws Exception {
        Configuration conf = settings(parts[1]);
        conf.set("hive.metastore.client.auth.mode", "PLAIN");
        conf.set("hive.metastore.client.plain.username", parts[2]);
        // Where no provider of credentials has the password of a user, Hadoop takes it from the configuration.
        conf.set(parts[2], parts[3]);
        return client(conf);
    }

    /** Call a metastore as a job does: its user has the token, and no ticket of Kerberos. */
    private static Object byToken(String uri, String text, String protection, Call call) throws Exception {
        Token<AbstractDelegationTokenIdentifier> token = new Token<>();
        token.decodeFromUrlString(text);
        token.setService(new Text(SIGNATURE));
        UserGroupInformation job = UserGroupInformation.createRemoteUser("job");
        job.addToken(token);
        Configuration conf = settings(uri);
        conf.set("hive.metastore.sasl.enabled", "true");
        conf.set("hive.metastore.token.signature", SIGNATURE);
        conf.set("hadoop.rpc.protection", protection);
        return job.doAs((PrivilegedExceptionAction<Object>) () -> {
            HiveMetaStoreClient client = client(conf);
            try {
                return call.on(client);
            } finally {
                client.close();
            }
        });
    }

    /** Call a metastore as a driver does: by Kerberos, with a keytab. */
    private static Object byTicket(String[] parts, Call call) throws Exception {
        Configuration conf = settings(parts[1]);
        conf.set("hadoop.security.authentication", "kerberos");
        conf.set("hive.metastore.sasl.enabled", "true");
        conf.set("hive.metastore.kerberos.principal", parts[4]);
        UserGroupInformation.setConfiguration(conf);
        UserGroupInformation user = UserGroupInformation.loginUserFromKeytabAndReturnUGI(parts[2], parts[3]);
        return user.doAs((PrivilegedExceptionAction<Object>) () -> {
            HiveMetaStoreClient client = client(conf);
            try {
                return call.on(client);
            } finally {
                client.close();
            }
        });
    }

    private static Configuration settings(String uri) {
        Configuration conf = new Configuration();
        conf.set("hive.metastore.uris", uri);
        conf.set("hive.metastore.connect.retries", "1");
        conf.set("hive.metastore.failure.retries", "0");
        return conf;
    }

    /** The constructors of Hive 2 take a HiveConf, those of later releases any Configuration. */
    private static HiveMetaStoreClient client(Configuration conf) throws Exception {
        for (Constructor<?> each : HiveMetaStoreClient.class.getConstructors()) {
            Class<?>[] types = each.getParameterTypes();
            if (types.length == 1 && types[0] == Configuration.class) {
                return (HiveMetaStoreClient) each.newInstance(conf);
            }
            if (types.length == 1) {
                Constructor<?> wrapper = types[0].getConstructor(Configuration.class, Class.class);
                return (HiveMetaStoreClient) each.newInstance(wrapper.newInstance(conf, DelegationClient.class));
            }
        }
        throw new IllegalStateException("no constructor");
    }

    private static Object stored(HiveMetaStoreClient client) throws Exception {
        int id = client.addMasterKey("first");
        client.updateMasterKey(id, "key " + id);
        String keys = String.join(",", client.getMasterKeys());
        boolean added = client.addToken("identifier", "token");
        boolean again = client.addToken("identifier", "other");
        String found = client.getToken("identifier") + "," + client.getToken("missing");
        String all = String.join(",", client.getAllTokenIdentifiers());
        boolean removed = client.removeToken("identifier");
        boolean none = client.removeToken("identifier");
        boolean key = client.removeMasterKey(id);
        return keys + " " + added + " " + again + " " + found + " " + all + " " + removed + " " + none + " " + key;
    }

    /** Return the fields of a token as Hive's own class reads them, and whether it writes the same bytes. */
    private static Object identifier(String text) throws Exception {
        Token<AbstractDelegationTokenIdentifier> token = new Token<>();
        token.decodeFromUrlString(text);
        AbstractDelegationTokenIdentifier read = own();
        read.readFields(new java.io.DataInputStream(new java.io.ByteArrayInputStream(token.getIdentifier())));
        boolean same = java.util.Arrays.equals(read.getBytes(), token.getIdentifier());
        boolean whole = token.encodeToUrlString().equals(text);
        return String.join(" ", token.getKind().toString(), read.getOwner().toString(), read.getRenewer().toString(),
                "[" + read.getRealUser() + "]", "" + read.getIssueDate(), "" + read.getMaxDate(),
                "" + read.getSequenceNumber(), "" + read.getMasterKeyId(), "" + same, "" + whole);
    }

    private static AbstractDelegationTokenIdentifier own() throws Exception {
        for (String name : new String[] {"metastore.security", "thrift"}) {
            try {
                Class<?> kind = Class.forName("org.apache.hadoop.hive." + name + ".DelegationTokenIdentifier");
                return (AbstractDelegationTokenIdentifier) kind.getConstructor().newInstance();
            } catch (ClassNotFoundException missing) {
                continue;
            }
        }
        throw new IllegalStateException("no class of identifiers");
    }

    private static String reason(Throwable refused) {
        StringBuilder text = new StringBuilder();
        for (Throwable each = refused; each != null && each != each.getCause(); each = each.getCause()) {
            text.append(each.getClass().getSimpleName()).append(": ").append(each.getMessage()).append("; ");
        }
        return text.toString().replace('\n', ' ');
    }
}
