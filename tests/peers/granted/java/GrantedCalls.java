import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.security.PrivilegedExceptionAction;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.metastore.LockRequestBuilder;
import org.apache.hadoop.hive.metastore.api.*;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.security.token.delegation.AbstractDelegationTokenIdentifier;

/**
 * Calls of Hive's client, of any release since 2.3, by callers with different grants. The arguments are the address of a
 * metastore and pairs of a user and its delegation token. All callers make each call before the next one: about the
 * table `orders` of the database `sales`, and about a name of the same length that no object has.
 *
 * A line of the output is the call, the user, `present` or `absent`, and what was answered, or the exception, separated
 * by tabs. A call that this release does not have is left out.
 */
public final class GrantedCalls {
    private static final String SIGNATURE = "lake";
    private static final short ALL = -1;

    private final Map<String, Call> calls = new LinkedHashMap<>();

    private GrantedCalls() {
        ofDatabases();
        ofTables();
        ofPartitions();
        ofFunctions();
        ofRights();
        drops();
    }

    private interface Call {
        Object on(HiveMetaStoreClient client, String user, String name) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        Map<String, HiveMetaStoreClient> clients = new LinkedHashMap<>();
        for (int at = 1; at < arguments.length; at += 2) {
            clients.put(arguments[at], client(arguments[0], arguments[at + 1]));
        }
        for (Map.Entry<String, Call> call : new GrantedCalls().calls.entrySet()) {
            boolean isOfDatabase = call.getKey().endsWith("Database");
            for (Map.Entry<String, HiveMetaStoreClient> caller : clients.entrySet()) {
                for (boolean isPresent : new boolean[] {true, false}) {
                    String name = isOfDatabase ? (isPresent ? "sales" : "nixes") : (isPresent ? "orders" : "absent");
                    String answer = answer(call.getValue(), caller.getValue(), caller.getKey(), name);
                    if (answer != null) {
                        out.println(String.join("\t", call.getKey(), caller.getKey(),
                                isPresent ? "present" : "absent", answer));
                    }
                }
            }
        }
        out.flush();
        System.exit(0);
    }

    private static String answer(Call call, HiveMetaStoreClient client, String user, String name) {
        try {
            return "ok " + String.valueOf(call.on(client, user, name)).replaceAll("\\s+", " ");
        } catch (NoSuchMethodException missing) {
            return null;
        } catch (Throwable error) {
            return "refused " + (error.getClass().getSimpleName() + ": " + error.getMessage()).replaceAll("\\s+", " ");
        }
    }

    private void ofDatabases() {
        calls.put("getDatabase", (client, user, name) -> client.getDatabase(name).getName());
        calls.put("getAllDatabases", (client, user, name) -> new TreeSet<>(client.getAllDatabases()));
        calls.put("getDatabases", (client, user, name) -> new TreeSet<>(client.getDatabases("*")));
        calls.put("alterDatabase", (client, user, name) -> {
            Database database = client.getDatabase(name);
            database.putToParameters("changed", "by " + user);
            client.alterDatabase(name, database);
            return "done";
        });
        calls.put("createDatabase", (client, user, name) -> {
            client.createDatabase(new Database("of_" + user, "", null, new HashMap<>()));
            return "done";
        });
    }

    private void ofTables() {
        calls.put("getTable", (client, user, name) -> client.getTable("sales", name).getTableName());
        calls.put("tableExists", (client, user, name) -> client.tableExists("sales", name));
        calls.put("getAllTables", (client, user, name) -> new TreeSet<>(client.getAllTables("sales")));
        calls.put("getTables", (client, user, name) -> new TreeSet<>(client.getTables("sales", "*")));
        calls.put("getTableMeta", (client, user, name) -> {
            TreeSet<String> found = new TreeSet<>();
            for (TableMeta meta : client.getTableMeta("*", "*", Collections.emptyList())) {
                found.add(meta.getDbName() + "." + meta.getTableName());
            }
            return found;
        });
        calls.put("getTableObjectsByName", (client, user, name) ->
                client.getTableObjectsByName("sales", Arrays.asList(name)).size());
        calls.put("listTableNamesByFilter", (client, user, name) ->
                client.listTableNamesByFilter("sales", "hive_filter_field_owner__ = \"olga\"", ALL));
        calls.put("getFields", (client, user, name) -> client.getFields("sales", name).size());
        calls.put("getSchema", (client, user, name) -> client.getSchema("sales", name).size());
        calls.put("createTable", (client, user, name) -> {
            client.createTable(table(name.equals("orders") ? "sales" : "nixes", "made_by_" + user));
            return "done";
        });
        calls.put("updateTableColumnStatistics", (client, user, name) -> {
            LongColumnStatsData data = new LongColumnStatsData(1, 7);
            ColumnStatisticsObj object = new ColumnStatisticsObj("id", "bigint", ColumnStatisticsData.longStats(data));
            ColumnStatistics statistics = new ColumnStatistics(
                    new ColumnStatisticsDesc(true, "sales", name), Collections.singletonList(object));
            setIfPresent(statistics, "setEngine", "hive");
            return client.updateTableColumnStatistics(statistics);
        });
        calls.put("getTableColumnStatistics", (client, user, name) -> ((List<?>) invoked(client,
                "getTableColumnStatistics", engine("sales", name, Arrays.asList("id")))).size());
        calls.put("deleteTableColumnStatistics", (client, user, name) -> {
            try {
                return invoked(client, "deleteTableColumnStatistics", engine("sales", name, "id"));
            } catch (NoSuchObjectException error) {
                if (error.getMessage().contains("Column stats doesn't exist")) {
                    return "another caller has deleted them";
                }
                throw error;
            }
        });
        calls.put("alter_table", (client, user, name) -> {
            Table table = client.getTable("sales", name);
            table.putToParameters("changed", "by " + user);
            client.alter_table("sales", name, table);
            return "done";
        });
        calls.put("rename", (client, user, name) -> {
            Table table = client.getTable("sales", name);
            table.setTableName(name + "_of_" + user);
            client.alter_table("sales", name, table);
            table = client.getTable("sales", name + "_of_" + user);
            table.setTableName(name);
            client.alter_table("sales", name + "_of_" + user, table);
            return "done";
        });
        calls.put("addPrimaryKey", (client, user, name) -> {
            client.addPrimaryKey(Arrays.asList(new SQLPrimaryKey("sales", name, "id", 1, "pk", false, false, true)));
            return "done";
        });
        calls.put("truncateTable", (client, user, name) ->
                invoked(client, "truncateTable", new Object[][] {{"sales", name, null}}));
        calls.put("lock-to-read", (client, user, name) -> locked(client, user, name, true));
        calls.put("lock-to-write", (client, user, name) -> locked(client, user, name, false));
    }

    private void ofPartitions() {
        calls.put("listPartitionNames", (client, user, name) -> client.listPartitionNames("sales", name, ALL));
        calls.put("listPartitions", (client, user, name) -> client.listPartitions("sales", name, ALL).size());
        calls.put("listPartitionsByFilter", (client, user, name) ->
                client.listPartitionsByFilter("sales", name, "dt = \"1\"", ALL).size());
        calls.put("getNumPartitionsByFilter", (client, user, name) ->
                client.getNumPartitionsByFilter("sales", name, "dt = \"1\""));
        calls.put("getPartition", (client, user, name) ->
                client.getPartition("sales", name, Arrays.asList("1")).getValues());
        calls.put("getPartitionWithAuthInfo", (client, user, name) -> client.getPartitionWithAuthInfo(
                "sales", name, Arrays.asList("1"), user, Collections.emptyList()).getValues());
        calls.put("getPartitionsByNames", (client, user, name) ->
                client.getPartitionsByNames("sales", name, Arrays.asList("dt=1")).size());
        calls.put("add_partition", (client, user, name) -> {
            client.add_partition(partition(name, user));
            return "done";
        });
        calls.put("alter_partition", (client, user, name) -> {
            Partition partition = partition(name, user);
            partition.putToParameters("changed", "by " + user);
            client.alter_partition("sales", name, partition, null);
            return "done";
        });
        calls.put("dropPartition", (client, user, name) ->
                client.dropPartition("sales", name, Arrays.asList(user), true));
        calls.put("appendPartition", (client, user, name) ->
                client.appendPartition("sales", name, "dt=more " + user).getValues().size());
        calls.put("renamePartition", (client, user, name) -> {
            Partition partition = partition(name, "renamed " + user);
            invoked(client, "renamePartition", new Object[][] {
                {"sales", name, Arrays.asList("more " + user), partition}});
            return "done";
        });
    }

    private void ofFunctions() {
        calls.put("createFunction", (client, user, name) -> {
            Function function = new Function("made_by_" + user, name.equals("orders") ? "sales" : "nixes", "org.example.F",
                    "olga", PrincipalType.USER, 0, FunctionType.JAVA, new ArrayList<>());
            client.createFunction(function);
            return "done";
        });
        calls.put("getFunction", (client, user, name) ->
                client.getFunction("sales", name.equals("orders") ? "totals" : "absent").getFunctionName());
        calls.put("getFunctions", (client, user, name) -> new TreeSet<>(client.getFunctions("sales", "t*")));
        calls.put("dropFunction", (client, user, name) -> {
            client.dropFunction("sales", name.equals("orders") ? "totals" : "absent");
            return "done";
        });
    }

    private void ofRights() {
        calls.put("grant_privileges", (client, user, name) -> {
            HiveObjectRef on = new HiveObjectRef(HiveObjectType.TABLE, "sales", name, null, null);
            PrivilegeGrantInfo info = new PrivilegeGrantInfo("SELECT", 0, user, PrincipalType.USER, false);
            HiveObjectPrivilege privilege = new HiveObjectPrivilege();
            privilege.setHiveObject(on);
            privilege.setPrincipalName("zoe");
            privilege.setPrincipalType(PrincipalType.USER);
            privilege.setGrantInfo(info);
            setIfPresent(privilege, "setAuthorizer", "SQL");
            return client.grant_privileges(new PrivilegeBag(new ArrayList<>(Arrays.asList(privilege))));
        });
        calls.put("create_role", (client, user, name) ->
                client.create_role(new Role("role_of_" + user, 0, user)));
        calls.put("addMasterKey", (client, user, name) -> client.addMasterKey("key"));
        calls.put("give-table-away", (client, user, name) -> {
            Table table = client.getTable("sales", name);
            table.setOwner("ned");
            client.alter_table("sales", name, table);
            table.setOwner("olga");
            client.alter_table("sales", name, table);
            return "done";
        });
        calls.put("move-onto-another-table", (client, user, name) -> {
            Table table = client.getTable("sales", name);
            table.getSd().setLocation(client.getDatabase("sales").getLocationUri().replace("sales.db", "hidden.db/salaries"));
            client.alter_table("sales", name, table);
            return "done";
        });
        calls.put("create-over-another-table", (client, user, name) -> {
            Table table = table(name.equals("orders") ? "sales" : "nixes", "over_by_" + user);
            table.getSd().setLocation(client.getDatabase("sales").getLocationUri().replace("sales.db", "hidden.db/salaries"));
            table.setTableType("EXTERNAL_TABLE");
            table.putToParameters("EXTERNAL", "TRUE");
            client.createTable(table);
            return "done";
        });
        calls.put("getNextNotification", (client, user, name) -> {
            TreeSet<String> found = new TreeSet<>();
            for (NotificationEvent event : client.getNextNotification(0, 0, null).getEvents()) {
                found.add(event.getDbName() + "." + event.getTableName());
            }
            return found;
        });
    }

    private void drops() {
        calls.put("dropTable", (client, user, name) -> {
            client.dropTable("sales", name, true, false);
            return "done";
        });
        calls.put("dropDatabase", (client, user, name) -> {
            client.dropDatabase(name, true, false, true);
            return "done";
        });
    }

    private static Object locked(HiveMetaStoreClient client, String user, String name, boolean isShared) throws Exception {
        LockType type = isShared ? LockType.SHARED_READ : LockType.EXCLUSIVE;
        LockComponent component = new LockComponent(type, LockLevel.TABLE, "sales");
        component.setTablename(name);
        component.setOperationType(isShared ? DataOperationType.SELECT : DataOperationType.NO_TXN);
        LockResponse response = client.lock(
                new LockRequestBuilder("calls").setUser(user).addLockComponent(component).build());
        client.unlock(response.getLockid());
        return response.getState();
    }

    private static Table table(String database, String name) {
        SerDeInfo serde = new SerDeInfo(
                null, "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe", new HashMap<>());
        StorageDescriptor storage = new StorageDescriptor(columns(), null, "org.apache.hadoop.mapred.TextInputFormat",
                "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat", false, 0, serde, new ArrayList<>(),
                new ArrayList<>(), new HashMap<>());
        Table table = new Table(name, database, "olga", 0, 0, 0, storage,
                new ArrayList<>(Arrays.asList(new FieldSchema("dt", "string", null))), new HashMap<>(), null, null,
                "MANAGED_TABLE");
        setIfPresent(table, "setCatName", "hive");
        return table;
    }

    private static List<FieldSchema> columns() {
        return new ArrayList<>(Arrays.asList(new FieldSchema("id", "bigint", null), new FieldSchema("city", "string", null)));
    }

    private static Partition partition(String table, String value) {
        return new Partition(new ArrayList<>(Arrays.asList(value)), "sales", table, 0, 0, table("sales", table).getSd(),
                new HashMap<>());
    }

    /** Return the arguments of a call of statistics, which take the name of an engine since Hive 4, in both forms. */
    private static Object[][] engine(Object... arguments) {
        Object[] further = Arrays.copyOf(arguments, arguments.length + 1);
        further[arguments.length] = "hive";
        // Hive 3 has calls with the name of a catalog, which take as many texts.
        return new Object[][] {arguments, further};
    }

    /** Call the method of this name that takes the first possible list of arguments. */
    private static Object invoked(HiveMetaStoreClient client, String name, Object[][] forms) throws Exception {
        for (Object[] arguments : forms) {
            for (Method method : HiveMetaStoreClient.class.getMethods()) {
                if (method.getName().equals(name) && takes(method, arguments)) {
                    try {
                        return method.invoke(client, arguments);
                    } catch (InvocationTargetException error) {
                        throw error.getCause() instanceof Exception ? (Exception) error.getCause() : error;
                    }
                }
            }
        }
        throw new NoSuchMethodException(name);
    }

    private static boolean takes(Method method, Object[] arguments) {
        Class<?>[] types = method.getParameterTypes();
        boolean fits = types.length == arguments.length;
        for (int at = 0; fits && at < types.length; at++) {
            fits = arguments[at] == null ? !types[at].isPrimitive() : types[at].isInstance(arguments[at]);
        }
        return fits;
    }

    /** Set a field that later releases have. */
    private static void setIfPresent(Object structure, String setter, String value) {
        try {
            structure.getClass().getMethod(setter, String.class).invoke(structure, value);
        } catch (ReflectiveOperationException absent) {
            return;
        }
    }

    private static HiveMetaStoreClient client(String uri, String text) throws Exception {
        Token<AbstractDelegationTokenIdentifier> token = new Token<>();
        token.decodeFromUrlString(text);
        token.setService(new Text(SIGNATURE));
        UserGroupInformation job = UserGroupInformation.createRemoteUser("job");
        job.addToken(token);
        Configuration conf = new Configuration();
        conf.set("hive.metastore.uris", uri);
        conf.set("hive.metastore.connect.retries", "1");
        conf.set("hive.metastore.failure.retries", "0");
        conf.set("hive.metastore.sasl.enabled", "true");
        conf.set("hive.metastore.token.signature", SIGNATURE);
        return job.doAs((PrivilegedExceptionAction<HiveMetaStoreClient>) () -> connected(conf));
    }

    /** The constructors of Hive 2 take a HiveConf, those of later releases any Configuration. */
    private static HiveMetaStoreClient connected(Configuration conf) throws Exception {
        for (Constructor<?> each : HiveMetaStoreClient.class.getConstructors()) {
            Class<?>[] types = each.getParameterTypes();
            if (types.length == 1 && types[0] == Configuration.class) {
                return (HiveMetaStoreClient) each.newInstance(conf);
            }
            if (types.length == 1) {
                Constructor<?> wrapper = types[0].getConstructor(Configuration.class, Class.class);
                return (HiveMetaStoreClient) each.newInstance(wrapper.newInstance(conf, GrantedCalls.class));
            }
        }
        throw new IllegalStateException("no constructor");
    }
}
