import java.util.Objects;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.table.InnerTable;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.source.EndOfScanException;
import org.apache.paimon.table.source.SnapshotNotExistPlan;
import org.apache.paimon.table.source.StreamDataTableScan;
import org.apache.paimon.table.source.TableScan;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.JsonSerdeUtil;

/** Streams from any start mode, and batch reads, of data tables and of system tables such as `t$audit_log`. */
final class StreamCommands {

    private static final ObjectMapper MAPPER = new ObjectMapper();

    private StreamCommands() {}

    /** All plans that there are now, each with its rows; begins at `restore` or where the options say. */
    static JsonNode stream(Table table, JsonNode command, String temporary) throws Exception {
        StreamDataTableScan scan = (StreamDataTableScan) ((InnerTable) table).newStreamScan();
        if (command.hasNonNull("restore")) {
            scan.restore(command.get("restore").longValue());
        }
        ObjectNode out = MAPPER.createObjectNode();
        ArrayNode plans = out.putArray("plans");
        boolean ended = false;
        try {
            while (true) {
                Long before = scan.checkpoint();
                TableScan.Plan plan = scan.plan();
                if (plan == SnapshotNotExistPlan.INSTANCE) {
                    // The first one of a stream that begins with changes only finds out where.
                    if (Objects.equals(before, scan.checkpoint())) {
                        break;
                    }
                    continue;
                }
                ObjectNode planned = plans.addObject();
                planned.set("rows", rows((InnerTable) table, plan, temporary));
                planned.put("checkpoint", scan.checkpoint());
                planned.put("watermark", scan.watermark());
            }
        } catch (EndOfScanException e) {
            ended = true;
        }
        if (command.path("notify").asBoolean(false)) {
            scan.notifyCheckpointComplete(scan.checkpoint());
        }
        out.put("ended", ended);
        out.put("checkpoint", scan.checkpoint());
        out.set("fields", MAPPER.readTree(JsonSerdeUtil.toJson(table.rowType().getFields())));
        return out;
    }

    /** A batch read. */
    static JsonNode readTable(Table table, String temporary) throws Exception {
        ObjectNode out = MAPPER.createObjectNode();
        out.set("rows", rows((InnerTable) table, ((InnerTable) table).newScan().plan(), temporary));
        out.set("fields", MAPPER.readTree(JsonSerdeUtil.toJson(table.rowType().getFields())));
        return out;
    }

    private static ArrayNode rows(InnerTable table, TableScan.Plan plan, String temporary) throws Exception {
        ArrayNode rows = MAPPER.createArrayNode();
        RowType type = table.rowType();
        try (IOManager io = IOManager.create(temporary);
                RecordReader<InternalRow> reader = table.newRead().withIOManager(io).createReader(plan)) {
            reader.forEachRemaining(
                    row -> rows.add(
                            MAPPER.createArrayNode()
                                    .add(row.getRowKind().shortString())
                                    .add(RowJson.json(row, type))));
        }
        return rows;
    }
}
