import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.paimon.append.AppendCompactCoordinator;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.manifest.BucketEntry;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.SpecialFields;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.InnerTableCommit;
import org.apache.paimon.table.sink.TableWriteImpl;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.table.source.TableRead;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.JsonSerdeUtil;
import org.apache.paimon.Snapshot;

/**
 * Java Paimon behind a pipe: one JSON command a line on stdin, one JSON answer a line on stdout, until stdin
 * ends. The commands and their fields are the methods of JavaPaimon in tests/support/peers_java.py.
 */
public final class PaimonPeer {

    private static final ObjectMapper MAPPER = new ObjectMapper();

    private final Map<String, Catalog> catalogs = new HashMap<>();
    private final String temporary;

    private PaimonPeer(String temporary) {
        this.temporary = temporary;
    }

    public static void main(String[] args) throws Exception {
        CommandLoop.run(new PaimonPeer(args[0])::execute);
    }

    private JsonNode execute(JsonNode command) throws Exception {
        switch (command.get("command").textValue()) {
            case "option_keys":
                return OptionCommands.keys(command);
            case "ping":
                return MAPPER.createObjectNode().put("java", System.getProperty("java.version"));
            case "create_table":
                return createTable(command);
            case "drop_table":
                catalog(command).dropTable(identifier(command), true);
                return MAPPER.nullNode();
            case "list":
                return MAPPER.valueToTree(
                        command.has("database")
                                ? catalog(command).listTables(command.get("database").textValue())
                                : catalog(command).listDatabases());
            case "alter":
                return alter(command);
            case "schema":
                return MAPPER.readTree(JsonSerdeUtil.toJson(table(command).schema()));
            case "write":
                return write(command);
            case "write_columns":
                ColumnCommands.write(table(command), command);
                return latest(table(command));
            case "compact":
                return compact(command);
            case "read":
                return read(command);
            case "changes":
                return ChangeCommands.changes(table(command), command, temporary);
            case "system":
                return SystemCommands.read(catalog(command).getTable(identifier(command)));
            case "version":
                return VersionCommands.execute(table(command), command);
            case "stream":
                return StreamCommands.stream(anyTable(command), command, temporary);
            case "format_write":
                return FormatCommands.write(anyTable(command), command);
            case "format_read":
                return FormatCommands.read(anyTable(command));
            case "read_table":
                return StreamCommands.readTable(anyTable(command), temporary);
            case "picks":
                return StrategyCommands.picks(command);
            case "plan":
                return plan(command);
            case "snapshots":
                return snapshots(command);
            case "buckets":
                return Codec.buckets(command);
            case "binary_rows":
                return Codec.binaryRows(command);
            default:
                throw new IllegalArgumentException("unknown command " + command);
        }
    }

    private Catalog catalog(JsonNode command) {
        return catalogs.computeIfAbsent(
                command.get("warehouse").textValue(),
                warehouse -> {
                    Options options = new Options();
                    options.set("warehouse", warehouse);
                    if (warehouse.startsWith("http://")) {
                        // The address of a REST catalog, with the name of its warehouse and a token, each behind a #.
                        String[] parts = warehouse.split("#");
                        options.set("metastore", "rest");
                        options.set("uri", parts[0]);
                        options.set("warehouse", parts.length > 1 ? parts[1] : "hive");
                        options.set("token.provider", "bear");
                        options.set("token", parts.length > 2 ? parts[2] : "none");
                    }
                    // Other processes change the same tables, so nothing may be remembered between commands.
                    options.set("cache-enabled", "false");
                    return CatalogFactory.createCatalog(CatalogContext.create(options));
                });
    }

    private static Identifier identifier(JsonNode command) {
        return Identifier.fromString(command.get("table").textValue());
    }

    private FileStoreTable table(JsonNode command) throws Exception {
        return (FileStoreTable) anyTable(command);
    }

    private Table anyTable(JsonNode command) throws Exception {
        Table table = catalog(command).getTable(identifier(command));
        Map<String, String> options = CommandLoop.strings(command.get("dynamic_options"));
        if (command.hasNonNull("snapshot_id")) {
            options.put("scan.snapshot-id", command.get("snapshot_id").asText());
        }
        return options.isEmpty() ? table : table.copy(options);
    }

    private JsonNode createTable(JsonNode command) throws Exception {
        Identifier identifier = identifier(command);
        catalog(command).createDatabase(identifier.getDatabaseName(), true);
        Schema.Builder schema = Schema.newBuilder();
        AtomicInteger fieldId = new AtomicInteger(-1);
        for (JsonNode column : command.get("columns")) {
            // The builder counts the ids of top-level fields; only nested ones need the counter here.
            schema.column(
                    column.get("name").textValue(),
                    DataTypeJsonParser.parseDataType(column.get("type"), fieldId),
                    column.hasNonNull("comment") ? column.get("comment").textValue() : null);
        }
        schema.primaryKey(CommandLoop.names(command.get("primary_keys")));
        schema.partitionKeys(CommandLoop.names(command.get("partition_keys")));
        schema.options(CommandLoop.strings(command.get("options")));
        if (command.hasNonNull("comment")) {
            schema.comment(command.get("comment").textValue());
        }
        catalog(command).createTable(identifier, schema.build(), false);
        // An object table has no file of its schema.
        return anyTable(command) instanceof FileStoreTable
                ? MAPPER.readTree(JsonSerdeUtil.toJson(table(command).schema()))
                : MAPPER.createObjectNode();
    }

    private JsonNode alter(JsonNode command) throws Exception {
        List<SchemaChange> changes = new ArrayList<>();
        for (JsonNode change : command.get("changes")) {
            changes.add(change(change));
        }
        catalog(command).alterTable(identifier(command), changes, false);
        return MAPPER.readTree(JsonSerdeUtil.toJson(table(command).schema()));
    }

    private static SchemaChange change(JsonNode change) {
        String[] path = change.has("path") ? CommandLoop.names(change.get("path")).toArray(new String[0]) : null;
        switch (change.get("op").textValue()) {
            case "add":
                SchemaChange.Move move = null;
                if (change.hasNonNull("first")) {
                    move = SchemaChange.Move.first(path[path.length - 1]);
                } else if (change.hasNonNull("after")) {
                    move = SchemaChange.Move.after(path[path.length - 1], change.get("after").textValue());
                }
                String comment = change.hasNonNull("comment") ? change.get("comment").textValue() : null;
                return SchemaChange.addColumn(path, type(change), comment, move);
            case "rename":
                return SchemaChange.renameColumn(path, change.get("to").textValue());
            case "drop":
                return SchemaChange.dropColumn(path);
            case "update_type":
                return SchemaChange.updateColumnType(path, type(change), change.path("keep_nullability").asBoolean(true));
            case "update_nullability":
                return SchemaChange.updateColumnNullability(path, change.get("nullable").booleanValue());
            case "set_option":
                return SchemaChange.setOption(change.get("key").textValue(), change.get("value").asText());
            case "remove_option":
                return SchemaChange.removeOption(change.get("key").textValue());
            default:
                throw new IllegalArgumentException("unknown schema change " + change);
        }
    }

    private static DataType type(JsonNode change) {
        // Ids below are replaced by the schema manager, which numbers new fields itself.
        return DataTypeJsonParser.parseDataType(change.get("type"), new AtomicInteger(-1));
    }

    private JsonNode write(JsonNode command) throws Exception {
        FileStoreTable table = table(command);
        RowType type = table.rowType();
        String user = command.hasNonNull("commit_user") ? command.get("commit_user").textValue() : "java-peer";
        long commitId =
                command.hasNonNull("commit_identifier")
                        ? command.get("commit_identifier").longValue()
                        : BatchWriteBuilder.COMMIT_IDENTIFIER;
        boolean overwrite = command.hasNonNull("overwrite");
        try (IOManager io = IOManager.create(temporary);
                TableWriteImpl<?> write = table.newWrite(user);
                InnerTableCommit commit = table.newCommit(user)) {
            write.withIOManager(io).withIgnorePreviousFiles(overwrite);
            BucketCommands.RowSink sink = BucketCommands.sink(table, write, user, overwrite);
            for (JsonNode kindAndRow : command.get("rows")) {
                GenericRow row = RowJson.row(kindAndRow.get(1), type);
                row.setRowKind(RowKind.fromShortString(kindAndRow.get(0).textValue()));
                sink.write(row);
            }
            if (overwrite) {
                // {} with dynamic-partition-overwrite (the default) replaces the partitions that have rows.
                commit.withOverwrite(CommandLoop.strings(command.get("overwrite")));
            }
            commit.commit(commitId, write.prepareCommit(true, commitId));
        }
        return latest(table);
    }

    private JsonNode compact(JsonNode command) throws Exception {
        FileStoreTable table = table(command);
        String user = command.hasNonNull("commit_user") ? command.get("commit_user").textValue() : "java-peer";
        boolean full = command.path("full").asBoolean(true);
        long commitId = BatchWriteBuilder.COMMIT_IDENTIFIER;
        // A write-only table compacts all the same when it is asked to.
        table = table.copy(Map.of("write-only", "false"));
        List<CommitMessage> messages = new ArrayList<>();
        try (IOManager io = IOManager.create(temporary);
                TableWriteImpl<?> write = table.newWrite(user);
                InnerTableCommit commit = table.newCommit(user)) {
            write.withIOManager(io);
            if (table.coreOptions().dataEvolutionEnabled()) {
                messages.addAll(ColumnCommands.compacted(table, user));
            } else if (table.bucketMode() == BucketMode.BUCKET_UNAWARE) {
                BaseAppendFileStoreWrite files = (BaseAppendFileStoreWrite) write.getWrite();
                if (table.coreOptions().rowTrackingEnabled()) {
                    // As Paimon's jobs: otherwise the compacted rows lose their ids.
                    files.withWriteType(SpecialFields.rowTypeWithRowTracking(table.rowType()));
                }
                for (AppendCompactTask task : new AppendCompactCoordinator(table, false).run()) {
                    messages.add(task.doCompact(table, files));
                }
            } else if (table.bucketMode() == BucketMode.POSTPONE_MODE) {
                messages.addAll(BucketCommands.compactPostponed(table, user, temporary));
            } else {
                // Not by a plan of a read, which leaves out buckets that have files of level 0 alone.
                for (BucketEntry bucket : table.newSnapshotReader().bucketEntries()) {
                    write.compact(bucket.partition(), bucket.bucket(), full);
                }
                messages.addAll(write.prepareCommit(true, commitId));
            }
            commit.commit(commitId, messages);
        }
        return latest(table);
    }

    private static JsonNode latest(FileStoreTable table) throws Exception {
        Snapshot snapshot = table.snapshotManager().latestSnapshot();
        return snapshot == null ? MAPPER.nullNode() : MAPPER.readTree(snapshot.toJson());
    }

    private JsonNode read(JsonNode command) throws Exception {
        FileStoreTable table = table(command);
        ReadBuilder builder = table.newReadBuilder();
        RowType type = table.rowType();
        if (command.hasNonNull("filter")) {
            builder.withFilter(predicate(command.get("filter"), type));
        }
        List<String> asked = type.getFieldNames();
        if (command.hasNonNull("columns")) {
            asked = CommandLoop.names(command.get("columns"));
            // Paimon 1.4.2 filters wrongly by a column that is not read, so the filter's columns are read too.
            List<String> columns = new ArrayList<>(asked);
            if (command.hasNonNull("filter")) {
                addFilterFields(command.get("filter"), columns);
            }
            type = type.project(columns);
            builder.withReadType(type);
        }
        ObjectNode out = MAPPER.createObjectNode();
        ArrayNode rows = MAPPER.createArrayNode();
        // The asked columns come first in what is read, in their order.
        RowType readType = type.project(asked);
        try (IOManager io = IOManager.create(temporary)) {
            TableRead read = builder.newRead().withIOManager(io);
            if (command.hasNonNull("filter")) {
                read = read.executeFilter();
            }
            try (RecordReader<InternalRow> reader = read.createReader(builder.newScan().plan())) {
                reader.forEachRemaining(
                        row -> rows.add(
                                MAPPER.createArrayNode()
                                        .add(row.getRowKind().shortString())
                                        .add(RowJson.json(row, readType))));
            }
        }
        out.set("fields", MAPPER.readTree(JsonSerdeUtil.toJson(readType.getFields())));
        out.set("rows", rows);
        return out;
    }

    private static void addFilterFields(JsonNode filter, List<String> columns) {
        filter.path("args").forEach(n -> addFilterFields(n, columns));
        if (filter.has("field") && !columns.contains(filter.get("field").textValue())) {
            columns.add(filter.get("field").textValue());
        }
    }

    /** {"op": "=", "field": f, "value": v}, in the words of SQL; "and", "or" take "args". */
    private static Predicate predicate(JsonNode node, RowType type) {
        String op = node.get("op").textValue();
        if (op.equals("and") || op.equals("or")) {
            List<Predicate> args = new ArrayList<>();
            node.get("args").forEach(n -> args.add(predicate(n, type)));
            return op.equals("and") ? PredicateBuilder.and(args) : PredicateBuilder.or(args);
        }
        PredicateBuilder builder = new PredicateBuilder(type);
        int at = type.getFieldIndex(node.get("field").textValue());
        DataType fieldType = type.getTypeAt(at);
        if (op.equals("in") || op.equals("not in")) {
            List<Object> values = new ArrayList<>();
            node.get("value").forEach(n -> values.add(RowJson.value(n, fieldType)));
            return op.equals("in") ? builder.in(at, values) : builder.notIn(at, values);
        }
        Object value = RowJson.value(node.get("value"), fieldType);
        switch (op) {
            case "=":
                return builder.equal(at, value);
            case "<>":
                return builder.notEqual(at, value);
            case "<":
                return builder.lessThan(at, value);
            case "<=":
                return builder.lessOrEqual(at, value);
            case ">":
                return builder.greaterThan(at, value);
            case ">=":
                return builder.greaterOrEqual(at, value);
            case "is null":
                return builder.isNull(at);
            case "is not null":
                return builder.isNotNull(at);
            case "startswith":
                return builder.startsWith(at, value);
            default:
                throw new IllegalArgumentException("unknown predicate " + node);
        }
    }

    private JsonNode plan(JsonNode command) throws Exception {
        FileStoreTable table = table(command);
        ReadBuilder builder = table.newReadBuilder();
        if (command.hasNonNull("filter")) {
            builder.withFilter(predicate(command.get("filter"), table.rowType()));
        }
        ArrayNode out = MAPPER.createArrayNode();
        for (Split split : builder.newScan().plan().splits()) {
            out.add(Codec.split((DataSplit) split, table));
        }
        return out;
    }

    private JsonNode snapshots(JsonNode command) throws Exception {
        ArrayNode out = MAPPER.createArrayNode();
        List<Snapshot> all = new ArrayList<>();
        table(command).snapshotManager().snapshots().forEachRemaining(all::add);
        all.sort((a, b) -> Long.compare(a.id(), b.id()));
        for (Snapshot snapshot : all) {
            out.add(MAPPER.readTree(snapshot.toJson()));
        }
        return out;
    }
}
