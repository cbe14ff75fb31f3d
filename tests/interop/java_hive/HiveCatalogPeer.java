import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.paimon.Snapshot;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.options.Options;
import org.apache.paimon.partition.Partition;
import org.apache.paimon.partition.PartitionStatistics;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.InnerTableCommit;
import org.apache.paimon.table.sink.TableWriteImpl;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.JsonSerdeUtil;

/**
 * Java Paimon's Hive catalog behind a pipe: one JSON command a line on stdin, one JSON answer a line on stdout, until
 * stdin ends. The commands are the methods of JavaHiveCatalog in tests/support/peers_java_hive.py. Rows are arrays of
 * INT, BIGINT and STRING, which is all that the tests of catalogs write.
 */
public final class HiveCatalogPeer {

    private static final ObjectMapper MAPPER = new ObjectMapper();

    private final String temporary;
    private final Map<String, Catalog> catalogs = new HashMap<>();

    private HiveCatalogPeer(String temporary) {
        this.temporary = temporary;
    }

    public static void main(String[] args) throws Exception {
        CommandLoop.run(new HiveCatalogPeer(args[0])::execute);
    }

    private JsonNode execute(JsonNode command) throws Exception {
        Catalog catalog = catalog(command.get("options"));
        switch (command.get("command").textValue()) {
            case "databases":
                return MAPPER.valueToTree(catalog.listDatabases());
            case "create_database":
                catalog.createDatabase(command.get("database").textValue(), false);
                return MAPPER.nullNode();
            case "tables":
                return MAPPER.valueToTree(catalog.listTables(command.get("database").textValue()));
            case "create_table":
                return createTable(catalog, command);
            case "drop_table":
                catalog.dropTable(identifier(command), false);
                return MAPPER.nullNode();
            case "rename_table":
                catalog.renameTable(identifier(command), Identifier.fromString(command.get("to").textValue()), false);
                return MAPPER.nullNode();
            case "alter":
                return alter(catalog, command);
            case "schema":
                return MAPPER.readTree(JsonSerdeUtil.toJson(table(catalog, command).schema()));
            case "repair":
                repair(catalog, command);
                return MAPPER.nullNode();
            case "read":
                return read(table(catalog, command));
            case "write":
                return write(catalog, command);
            case "write_at_once":
                return writeAtOnce(catalog, command);
            case "partitions":
                return partitions(catalog, command);
            case "drop_partitions":
                catalog.dropPartitions(identifier(command), specs(command));
                return MAPPER.nullNode();
            case "create_partitions":
                catalog.createPartitions(identifier(command), specs(command));
                return MAPPER.nullNode();
            case "report_partitions":
                return report(catalog, command);
            case "view_names":
            case "view_create":
            case "view_get":
            case "view_rename":
            case "view_drop":
                return ViewCommands.run(catalog, command);
            default:
                throw new IllegalArgumentException("unknown command " + command);
        }
    }

    private Catalog catalog(JsonNode options) {
        return catalogs.computeIfAbsent(
                options.toString(),
                text -> CatalogFactory.createCatalog(CatalogContext.create(Options.fromMap(CommandLoop.strings(options)))));
    }

    private static Identifier identifier(JsonNode command) {
        return Identifier.fromString(command.get("table").textValue());
    }

    private static FileStoreTable table(Catalog catalog, JsonNode command) throws Exception {
        return (FileStoreTable) catalog.getTable(identifier(command));
    }

    private static List<Map<String, String>> specs(JsonNode command) {
        List<Map<String, String>> out = new ArrayList<>();
        command.get("partitions").forEach(spec -> out.add(CommandLoop.strings(spec)));
        return out;
    }

    private JsonNode createTable(Catalog catalog, JsonNode command) throws Exception {
        Schema.Builder schema = Schema.newBuilder();
        AtomicInteger fieldId = new AtomicInteger(-1);
        for (JsonNode column : command.get("columns")) {
            schema.column(
                    column.get("name").textValue(),
                    DataTypeJsonParser.parseDataType(column.get("type"), fieldId),
                    column.hasNonNull("comment") ? column.get("comment").textValue() : null);
        }
        schema.primaryKey(CommandLoop.names(command.get("primary_keys")));
        schema.partitionKeys(CommandLoop.names(command.get("partition_keys")));
        schema.options(CommandLoop.strings(command.get("table_options")));
        if (command.hasNonNull("comment")) {
            schema.comment(command.get("comment").textValue());
        }
        catalog.createTable(identifier(command), schema.build(), false);
        return MAPPER.readTree(JsonSerdeUtil.toJson(table(catalog, command).schema()));
    }

    private static JsonNode alter(Catalog catalog, JsonNode command) throws Exception {
        List<SchemaChange> changes = new ArrayList<>();
        for (JsonNode change : command.get("changes")) {
            String name = change.path("name").textValue();
            switch (change.get("op").textValue()) {
                case "add":
                    changes.add(SchemaChange.addColumn(name, type(change)));
                    break;
                case "rename":
                    changes.add(SchemaChange.renameColumn(name, change.get("to").textValue()));
                    break;
                case "drop":
                    changes.add(SchemaChange.dropColumn(name));
                    break;
                case "retype":
                    changes.add(SchemaChange.updateColumnType(name, type(change)));
                    break;
                case "describe":
                    changes.add(SchemaChange.updateColumnComment(name, change.get("comment").textValue()));
                    break;
                case "comment":
                    changes.add(SchemaChange.updateComment(change.get("comment").textValue()));
                    break;
                case "set_option":
                    changes.add(SchemaChange.setOption(change.get("key").textValue(), change.get("value").asText()));
                    break;
                case "remove_option":
                    changes.add(SchemaChange.removeOption(change.get("key").textValue()));
                    break;
                default:
                    throw new IllegalArgumentException("unknown schema change " + change);
            }
        }
        catalog.alterTable(identifier(command), changes, false);
        return MAPPER.readTree(JsonSerdeUtil.toJson(table(catalog, command).schema()));
    }

    private static DataType type(JsonNode change) {
        return DataTypeJsonParser.parseDataType(change.get("type"), new AtomicInteger(-1));
    }

    private static void repair(Catalog catalog, JsonNode command) throws Exception {
        if (command.hasNonNull("table")) {
            catalog.repairTable(identifier(command));
        } else if (command.hasNonNull("database")) {
            catalog.repairDatabase(command.get("database").textValue());
        } else {
            catalog.repairCatalog();
        }
    }

    private static GenericRow row(JsonNode values, RowType type) {
        GenericRow row = new GenericRow(values.size());
        for (int i = 0; i < values.size(); i++) {
            JsonNode value = values.get(i);
            switch (type.getTypeAt(i).getTypeRoot()) {
                case INTEGER:
                    row.setField(i, value.isNull() ? null : (Object) value.intValue());
                    break;
                case BIGINT:
                    row.setField(i, value.isNull() ? null : (Object) value.longValue());
                    break;
                default:
                    row.setField(i, value.isNull() ? null : BinaryString.fromString(value.textValue()));
            }
        }
        return row;
    }

    private JsonNode write(Catalog catalog, JsonNode command) throws Exception {
        List<JsonNode> rows = new ArrayList<>();
        command.get("rows").forEach(rows::add);
        Map<String, String> overwrite = command.hasNonNull("overwrite") ? CommandLoop.strings(command.get("overwrite")) : null;
        return MAPPER.getNodeFactory().numberNode(commit(table(catalog, command), rows, overwrite));
    }

    private long commit(FileStoreTable table, List<JsonNode> rows, Map<String, String> overwrite) throws Exception {
        String user = UUID.randomUUID().toString();
        try (IOManager io = IOManager.create(temporary);
                TableWriteImpl<?> write = table.newWrite(user);
                InnerTableCommit commit = table.newCommit(user)) {
            write.withIOManager(io).withIgnorePreviousFiles(overwrite != null);
            for (JsonNode row : rows) {
                write.write(row(row, table.rowType()));
            }
            if (overwrite != null) {
                commit.withOverwrite(overwrite);
            }
            commit.commit(0, write.prepareCommit(true, 0));
        }
        Snapshot latest = table.snapshotManager().latestSnapshotOfUser(user).orElse(null);
        return latest == null ? -1 : latest.id();
    }

    /** Threads that commit at once: `work` holds, for each, a list of commits, which are lists of rows. */
    private JsonNode writeAtOnce(Catalog catalog, JsonNode command) throws Exception {
        List<Callable<List<Long>>> writers = new ArrayList<>();
        for (JsonNode commits : command.get("work")) {
            FileStoreTable table = table(catalog, command);
            writers.add(
                    () -> {
                        List<Long> ids = new ArrayList<>();
                        for (JsonNode rows : commits) {
                            List<JsonNode> list = new ArrayList<>();
                            rows.forEach(list::add);
                            ids.add(commit(table, list, null));
                        }
                        return ids;
                    });
        }
        ExecutorService pool = Executors.newFixedThreadPool(writers.size());
        ArrayNode out = MAPPER.createArrayNode();
        try {
            for (Future<List<Long>> done : pool.invokeAll(writers)) {
                out.add(MAPPER.<JsonNode>valueToTree(done.get()));
            }
        } finally {
            pool.shutdown();
        }
        return out;
    }

    private JsonNode read(FileStoreTable table) throws Exception {
        RowType type = table.rowType();
        ArrayNode rows = MAPPER.createArrayNode();
        ReadBuilder builder = table.newReadBuilder();
        try (RecordReader<InternalRow> reader = builder.newRead().createReader(builder.newScan().plan())) {
            reader.forEachRemaining(
                    row -> {
                        ArrayNode out = rows.addArray();
                        for (int i = 0; i < type.getFieldCount(); i++) {
                            if (row.isNullAt(i)) {
                                out.addNull();
                                continue;
                            }
                            switch (type.getTypeAt(i).getTypeRoot()) {
                                case INTEGER:
                                    out.add(row.getInt(i));
                                    break;
                                case BIGINT:
                                    out.add(row.getLong(i));
                                    break;
                                default:
                                    out.add(row.getString(i).toString());
                            }
                        }
                    });
        }
        return rows;
    }

    private JsonNode partitions(Catalog catalog, JsonNode command) throws Exception {
        ArrayNode out = MAPPER.createArrayNode();
        for (Partition partition : catalog.listPartitions(identifier(command))) {
            ObjectNode node = out.addObject();
            node.set("spec", MAPPER.valueToTree(partition.spec()));
            node.put("record_count", partition.recordCount());
            node.put("file_size_in_bytes", partition.fileSizeInBytes());
            node.put("file_count", partition.fileCount());
            node.put("last_file_creation_time", partition.lastFileCreationTime());
            node.put("done", partition.done());
        }
        return out;
    }

    /** Hands statistics to the metastore as Paimon's reporter does; the answer is what was handed over. */
    private JsonNode report(Catalog catalog, JsonNode command) throws Exception {
        List<PartitionStatistics> statistics = new ArrayList<>();
        for (Partition p : catalog.listPartitions(identifier(command))) {
            statistics.add(
                    new PartitionStatistics(
                            p.spec(),
                            p.recordCount(),
                            p.fileSizeInBytes(),
                            p.fileCount(),
                            p.lastFileCreationTime()));
        }
        catalog.alterPartitions(identifier(command), statistics);
        return partitions(catalog, command);
    }
}
