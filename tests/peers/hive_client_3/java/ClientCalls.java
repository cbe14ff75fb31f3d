import java.io.PrintStream;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.metastore.LockComponentBuilder;
import org.apache.hadoop.hive.metastore.LockRequestBuilder;
import org.apache.hadoop.hive.metastore.TableType;
import org.apache.hadoop.hive.metastore.api.*;
import org.apache.hadoop.hive.metastore.client.builder.*;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;

/**
 * Calls of the client of Hive 3.1 to a metastore whose address is the argument. For each call one line: its name, a tab,
 * and what was answered, or the exception. Times are NOW, paths of the warehouse (the second argument) WAREHOUSE.
 */
public final class ClientCalls {
    private static final String DB = "calls";

    private final PrintStream out;
    private final String warehouse;
    private final Configuration conf;
    private final HiveMetaStoreClient client;

    private interface Step {
        Object run() throws Exception;
    }

    private interface Change {
        void run() throws Exception;
    }

    private ClientCalls(PrintStream out, String uri, String warehouse) throws Exception {
        this.out = out;
        this.warehouse = warehouse;
        conf = MetastoreConf.newMetastoreConf();
        MetastoreConf.setVar(conf, MetastoreConf.ConfVars.THRIFT_URIS, uri);
        client = new HiveMetaStoreClient(conf);
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        ClientCalls calls = new ClientCalls(out, arguments[0], arguments[1]);
        calls.databases();
        calls.tables();
        calls.partitions();
        calls.statistics();
        calls.constraints();
        calls.functions();
        calls.locks();
        calls.catalogs();
        calls.settings();
        calls.events();
        calls.drops();
        out.flush();
        System.exit(0);
    }

    private void databases() {
        does("create database", () -> new DatabaseBuilder().setName(DB).setDescription("of calls")
                .addParam("a", "1").setOwnerName("me").setOwnerType(PrincipalType.USER).create(client, conf));
        does("create it again", () -> new DatabaseBuilder().setName(DB).create(client, conf));
        says("database", () -> client.getDatabase(DB));
        says("databases", () -> client.getAllDatabases());
        says("databases by pattern", () -> client.getDatabases("call*|x*"));
        does("alter database", () -> {
            Database database = client.getDatabase(DB);
            database.setDescription("changed");
            database.putToParameters("b", "2");
            client.alterDatabase(DB, database);
        });
        says("altered database", () -> client.getDatabase(DB));
        says("no database", () -> client.getDatabase("nowhere"));
        does("drop no database", () -> client.dropDatabase("nowhere"));
    }

    private void tables() {
        does("create table", () -> plain("t").addTableParam("k", "v").create(client, conf));
        does("create it again", () -> plain("t").create(client, conf));
        does("create partitioned table", () -> plain("p").addPartCol("dt", "string").addPartCol("h", "int")
                .create(client, conf));
        does("create view", () -> new TableBuilder().setDbName(DB).setTableName("v").setType("VIRTUAL_VIEW")
                .setViewOriginalText("select 1").setViewExpandedText("select 1").addCol("a", "int")
                .create(client, conf));
        does("create table in no database", () -> plain("t").setDbName("nowhere").create(client, conf));
        does("create table without columns", () -> new TableBuilder().setDbName(DB).setTableName("none")
                .create(client, conf));
        does("create table of a bad name", () -> plain("a,b").create(client, conf));
        says("table", () -> client.getTable(DB, "t"));
        says("partitioned table", () -> client.getTable(DB, "p"));
        says("view", () -> client.getTable(DB, "v"));
        says("no table", () -> client.getTable(DB, "nothing"));
        says("tables", () -> client.getAllTables(DB));
        says("tables by pattern", () -> client.getTables(DB, "t*|v"));
        says("tables by type", () -> client.getTables(DB, "*", TableType.VIRTUAL_VIEW));
        says("tables by filter", () -> client.listTableNamesByFilter(DB, "hive_filter_field_params__k = \"v\"", (short) -1));
        says("table objects", () -> client.getTableObjectsByName(DB, Arrays.asList("t", "v", "nothing")).size());
        says("table exists", () -> client.tableExists(DB, "t") + " " + client.tableExists(DB, "nothing"));
        says("fields", () -> client.getFields(DB, "p"));
        says("schema", () -> client.getSchema(DB, "p"));
        says("metas", () -> client.getTableMeta(DB, "*", Collections.emptyList()).stream()
                .map(meta -> meta.getTableName() + ":" + meta.getTableType()).sorted().collect(Collectors.toList()));
        does("alter table", () -> {
            Table table = client.getTable(DB, "t");
            table.putToParameters("k", "w");
            table.getSd().addToCols(new FieldSchema("c", "bigint", "more"));
            client.alter_table(DB, "t", table);
        });
        does("rename table", () -> {
            Table table = client.getTable(DB, "t");
            table.setTableName("u");
            client.alter_table(DB, "t", table);
        });
        says("renamed table", () -> client.getTable(DB, "u"));
        does("rename no table", () -> client.alter_table(DB, "nothing", client.getTable(DB, "u")));
        does("truncate table", () -> client.truncateTable(DB, "u", null));
    }

    private void partitions() {
        does("add partition", () -> partition("x", "1").addToTable(client, conf));
        does("add it again", () -> partition("x", "1").addToTable(client, conf));
        says("add partitions", () -> client.add_partitions(Arrays.asList(
                partition("x", "2").build(conf), partition("y/ z", "10").build(conf))));
        says("append partition", () -> client.appendPartition(DB, "p", "dt=w/h=3"));
        says("append too few values", () -> client.appendPartition(DB, "p", Arrays.asList("a")));
        says("partition", () -> client.getPartition(DB, "p", Arrays.asList("x", "1")));
        says("partition by name", () -> client.getPartition(DB, "p", "dt=y%2F z/h=10").getValues());
        says("no partition", () -> client.getPartition(DB, "p", Arrays.asList("x", "9")));
        says("partition names", () -> sorted(client.listPartitionNames(DB, "p", (short) -1)));
        says("some partition names", () -> sorted(client.listPartitionNames(DB, "p", Arrays.asList("x"), (short) -1)));
        says("partitions by filter", () -> values(client.listPartitionsByFilter(DB, "p", "dt = \"x\" and h > 1", (short) -1)));
        says("partitions by a bad filter", () -> values(client.listPartitionsByFilter(DB, "p", "no = 1", (short) -1)));
        says("how many by filter", () -> client.getNumPartitionsByFilter(DB, "p", "h >= 2"));
        says("partitions by names", () -> values(client.getPartitionsByNames(DB, "p", Arrays.asList("dt=x/h=1", "dt=x/h=9"))));
        says("with auth", () -> values(client.listPartitionsWithAuthInfo(DB, "p", (short) -1, "me", Collections.emptyList())));
        says("partition values", () -> client.listPartitionValues(new PartitionValuesRequest(DB, "p",
                Arrays.asList(new FieldSchema("dt", "string", null)))).getPartitionValues().size());
        does("alter partition", () -> {
            Partition partition = client.getPartition(DB, "p", Arrays.asList("x", "1"));
            partition.putToParameters("seen", "yes");
            client.alter_partition(DB, "p", partition);
        });
        says("altered partition", () -> client.getPartition(DB, "p", Arrays.asList("x", "1")).getParameters().get("seen"));
        does("rename partition", () -> {
            Partition partition = client.getPartition(DB, "p", Arrays.asList("x", "2"));
            partition.setValues(Arrays.asList("x", "22"));
            client.renamePartition(DB, "p", Arrays.asList("x", "2"), partition);
        });
        says("renamed partition", () -> client.getPartition(DB, "p", Arrays.asList("x", "22")));
        says("drop partition", () -> client.dropPartition(DB, "p", Arrays.asList("w", "3"), true));
        says("drop no partition", () -> client.dropPartition(DB, "p", Arrays.asList("w", "3"), true));
        does("a table to exchange with", () -> plain("q").addPartCol("dt", "string").addPartCol("h", "int")
                .create(client, conf));
        says("exchange partitions", () -> {
            Map<String, String> spec = new TreeMap<>();
            spec.put("dt", "x");
            spec.put("h", "22");
            return values(client.exchange_partitions(spec, DB, "p", DB, "q"));
        });
        says("exchanged", () -> sorted(client.listPartitionNames(DB, "q", (short) -1)));
    }

    private void statistics() {
        says("set statistics", () -> client.updateTableColumnStatistics(statistics(new ColumnStatisticsDesc(true, DB, "u"), 7)));
        says("statistics", () -> client.getTableColumnStatistics(DB, "u", Arrays.asList("a", "b")));
        says("set statistics of no column", () -> {
            ColumnStatistics wrong = statistics(new ColumnStatisticsDesc(true, DB, "u"), 7);
            wrong.getStatsObj().get(0).setColName("nothing");
            return client.updateTableColumnStatistics(wrong);
        });
        for (String[] values : new String[][] {{"dt=x/h=1", "5"}, {"dt=y%2F z/h=10", "9"}}) {
            says("set statistics of " + values[0], () -> {
                ColumnStatisticsDesc about = new ColumnStatisticsDesc(false, DB, "p");
                about.setPartName(values[0]);
                return client.updatePartitionColumnStatistics(statistics(about, Long.parseLong(values[1])));
            });
        }
        says("statistics of partitions", () -> new TreeMap<>(client.getPartitionColumnStatistics(DB, "p",
                Arrays.asList("dt=x/h=1", "dt=y%2F z/h=10"), Arrays.asList("a"))));
        says("aggregated", () -> client.getAggrColStatsFor(DB, "p", Arrays.asList("a"),
                Arrays.asList("dt=x/h=1", "dt=y%2F z/h=10")));
        says("delete statistics", () -> client.deleteTableColumnStatistics(DB, "u", "a"));
        says("deleted statistics", () -> client.getTableColumnStatistics(DB, "u", Arrays.asList("a")));
        says("delete statistics of a partition", () -> client.deletePartitionColumnStatistics(DB, "p", "dt=x/h=1", "a"));
    }

    private void constraints() {
        does("create table with constraints", () -> {
            Table parent = plain("parent").build(conf);
            client.createTableWithConstraints(parent,
                    new SQLPrimaryKeyBuilder().onTable(parent).addColumn("a").setConstraintName("pk").build(conf),
                    Collections.emptyList(),
                    new SQLUniqueConstraintBuilder().onTable(parent).addColumn("b").setConstraintName("uk").build(conf),
                    new SQLNotNullConstraintBuilder().onTable(parent).addColumn("a").setConstraintName("nn").build(conf),
                    new SQLDefaultConstraintBuilder().onTable(parent).addColumn("b").setDefaultVal("1")
                            .setConstraintName("df").build(conf),
                    new SQLCheckConstraintBuilder().onTable(parent).addColumn("b").setCheckExpression("b > 0")
                            .setConstraintName("ck").build(conf));
        });
        does("a child", () -> plain("child").create(client, conf));
        does("add foreign key", () -> client.addForeignKey(new SQLForeignKeyBuilder()
                .fromPrimaryKey(client.getPrimaryKeys(new PrimaryKeysRequest(DB, "parent")))
                .onTable(client.getTable(DB, "child")).addColumn("a").setConstraintName("fk").build(conf)));
        does("add primary key", () -> client.addPrimaryKey(new SQLPrimaryKeyBuilder()
                .onTable(client.getTable(DB, "child")).addColumn("b").setConstraintName("pk2").build(conf)));
        says("primary keys", () -> client.getPrimaryKeys(new PrimaryKeysRequest(DB, "parent")));
        says("foreign keys", () -> client.getForeignKeys(new ForeignKeysRequest(DB, "parent", DB, "child")));
        says("unique", () -> client.getUniqueConstraints(new UniqueConstraintsRequest("hive", DB, "parent")));
        says("not null", () -> client.getNotNullConstraints(new NotNullConstraintsRequest("hive", DB, "parent")));
        says("default", () -> client.getDefaultConstraints(new DefaultConstraintsRequest("hive", DB, "parent")));
        says("check", () -> client.getCheckConstraints(new CheckConstraintsRequest("hive", DB, "parent")));
        does("drop constraint", () -> client.dropConstraint(DB, "child", "fk"));
        says("dropped", () -> client.getForeignKeys(new ForeignKeysRequest(DB, "parent", DB, "child")));
        does("drop no constraint", () -> client.dropConstraint(DB, "child", "fk"));
    }

    private void functions() {
        does("create function", () -> new FunctionBuilder().setDbName(DB).setName("f").setClass("org.example.F")
                .setOwner("me").setFunctionType(FunctionType.JAVA)
                .addResourceUri(new ResourceUri(ResourceType.JAR, "file:/f.jar")).create(client, conf));
        says("function", () -> client.getFunction(DB, "f"));
        says("functions", () -> client.getFunctions(DB, "*"));
        does("alter function", () -> {
            Function function = client.getFunction(DB, "f");
            function.setClassName("org.example.G");
            client.alterFunction(DB, "f", function);
        });
        says("altered function", () -> client.getFunction(DB, "f").getClassName());
        does("drop function", () -> client.dropFunction(DB, "f"));
        says("no function", () -> client.getFunction(DB, "f"));
    }

    private void locks() {
        long[] ids = new long[2];
        says("lock", () -> {
            LockResponse response = client.lock(exclusive());
            ids[0] = response.getLockid();
            return response.getState();
        });
        says("lock beside it", () -> {
            LockResponse response = client.lock(exclusive());
            ids[1] = response.getLockid();
            return response.getState();
        });
        says("locks", () -> client.showLocks().getLocks().stream()
                .map(lock -> lock.getDbname() + "." + lock.getTablename() + " " + lock.getState() + " " + lock.getType()
                        + " " + lock.getUser()).sorted().collect(Collectors.toList()));
        does("heartbeat", () -> client.heartbeat(0, ids[0]));
        says("check", () -> client.checkLock(ids[1]).getState());
        does("unlock", () -> client.unlock(ids[0]));
        says("check again", () -> client.checkLock(ids[1]).getState());
        does("unlock the other", () -> client.unlock(ids[1]));
        says("check no lock", () -> {
            try {
                return client.checkLock(ids[1]).getState();
            } catch (NoSuchLockException expected) {
                return "no such lock";
            }
        });
        says("no locks", () -> client.showLocks().getLocks());
    }

    private void catalogs() {
        does("create catalog", () -> new CatalogBuilder().setName("other").setLocation("file:" + warehouse + "/other")
                .create(client));
        says("catalogs", () -> sorted(client.getCatalogs()));
        says("catalog", () -> client.getCatalog("other"));
        does("database in it", () -> new DatabaseBuilder().setCatalogName("other").setName(DB).create(client, conf));
        says("databases in it", () -> sorted(client.getAllDatabases("other")));
        does("drop the database in it", () -> client.dropDatabase("other", DB, true, false));
        does("drop catalog", () -> client.dropCatalog("other"));
        says("no catalog", () -> client.getCatalog("other"));
    }

    private void settings() {
        says("setting", () -> client.getMetaConf("metastore.try.direct.sql"));
        does("set it", () -> client.setMetaConf("metastore.try.direct.sql", "false"));
        says("what is set", () -> client.getMetaConf("metastore.try.direct.sql"));
        does("set what is none", () -> client.setMetaConf("not.a.setting", "1"));
        says("value", () -> client.getConfigValue("hive.not.known", "x"));
        says("secret", () -> client.getConfigValue("javax.jdo.option.ConnectionPassword", "x"));
    }

    private void events() {
        says("event id", () -> client.getCurrentNotificationEventId().getEventId() >= 0);
        says("events", () -> client.getNextNotification(0, 0, null).getEvents().stream()
                .map(event -> event.getEventType() + " " + event.getDbName() + "." + event.getTableName())
                .collect(Collectors.toList()));
    }

    private void drops() {
        does("drop table", () -> client.dropTable(DB, "u", true, false));
        does("drop no table", () -> client.dropTable(DB, "u", true, false));
        does("drop no table in silence", () -> client.dropTable(DB, "u", true, true));
        does("drop database with tables", () -> client.dropDatabase(DB));
        does("drop database", () -> client.dropDatabase(DB, true, false, true));
        says("nothing is left", () -> client.getAllDatabases());
    }

    private TableBuilder plain(String name) {
        return new TableBuilder().setDbName(DB).setTableName(name).setOwner("me").addCol("a", "bigint", "first")
                .addCol("b", "int");
    }

    private PartitionBuilder partition(String... values) throws Exception {
        return new PartitionBuilder().inTable(client.getTable(DB, "p")).setValues(Arrays.asList(values));
    }

    private LockRequest exclusive() {
        return new LockRequestBuilder("calls").setUser("me").addLockComponent(new LockComponentBuilder().setExclusive()
                .setOperationType(DataOperationType.NO_TXN).setDbName(DB).setTableName("u").build()).build();
    }

    private static ColumnStatistics statistics(ColumnStatisticsDesc about, long high) {
        LongColumnStatsData data = new LongColumnStatsData(1, high);
        data.setLowValue(0);
        data.setHighValue(high);
        ColumnStatisticsObj object = new ColumnStatisticsObj("a", "bigint", ColumnStatisticsData.longStats(data));
        return new ColumnStatistics(about, Collections.singletonList(object));
    }

    private static List<String> sorted(Collection<String> names) {
        return names.stream().sorted().collect(Collectors.toList());
    }

    private static List<String> values(List<Partition> partitions) {
        return partitions.stream().map(each -> each.getValues().toString()).sorted().collect(Collectors.toList());
    }

    private void does(String name, Change change) {
        says(name, () -> {
            change.run();
            return "done";
        });
    }

    private void says(String name, Step step) {
        String answer;
        try {
            answer = String.valueOf(step.run());
        } catch (Exception error) {
            answer = error.getClass().getSimpleName();
        }
        answer = answer.replace(warehouse, "WAREHOUSE").replaceAll("\\s+", " ")
                .replaceAll("(createTime|lastAccessTime|lastAnalyzed|transient_lastDdlTime)([=:])[1-9][0-9]*", "$1$2NOW");
        out.println(name + "\t" + answer);
    }
}
