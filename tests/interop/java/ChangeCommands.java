import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.source.SnapshotNotExistPlan;
import org.apache.paimon.table.source.StreamDataTableScan;
import org.apache.paimon.table.source.TableScan;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.JsonSerdeUtil;

/** What readers of changes see: the follow-up scans of a streaming read. */
final class ChangeCommands {

    private static final ObjectMapper MAPPER = new ObjectMapper();

    private ChangeCommands() {}

    /** The changes of the snapshots `from` to `to`, each row as its kind and its values. */
    static JsonNode changes(FileStoreTable table, JsonNode command, String temporary) throws Exception {
        long last = command.get("to").longValue();
        RowType type = table.rowType();
        ArrayNode rows = MAPPER.createArrayNode();
        StreamDataTableScan scan = table.newStreamScan();
        scan.restore(command.get("from").longValue());
        try (IOManager io = IOManager.create(temporary)) {
            while (scan.checkpoint() <= last) {
                TableScan.Plan plan = scan.plan();
                // A plan passes over snapshots that change nothing, and may end beyond what was asked for.
                if (plan == SnapshotNotExistPlan.INSTANCE || scan.checkpoint() > last + 1) {
                    break;
                }
                try (RecordReader<InternalRow> reader = table.newRead().withIOManager(io).createReader(plan)) {
                    reader.forEachRemaining(
                            row -> rows.add(
                                    MAPPER.createArrayNode()
                                            .add(row.getRowKind().shortString())
                                            .add(RowJson.json(row, type))));
                }
            }
        }
        ObjectNode out = MAPPER.createObjectNode();
        out.set("fields", MAPPER.readTree(JsonSerdeUtil.toJson(type.getFields())));
        out.set("rows", rows);
        return out;
    }
}
