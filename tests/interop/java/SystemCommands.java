import org.apache.paimon.data.InternalRow;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.JsonSerdeUtil;

/** System tables, as any reader sees them. */
final class SystemCommands {

    private static final ObjectMapper MAPPER = new ObjectMapper();

    private SystemCommands() {}

    static JsonNode read(Table table) throws Exception {
        RowType type = table.rowType();
        ArrayNode rows = MAPPER.createArrayNode();
        ReadBuilder read = table.newReadBuilder();
        try (RecordReader<InternalRow> reader = read.newRead().createReader(read.newScan().plan())) {
            reader.forEachRemaining(
                    row -> rows.add(MAPPER.createArrayNode().add("+I").add(RowJson.json(row, type))));
        }
        ObjectNode out = MAPPER.createObjectNode();
        out.set("fields", MAPPER.readTree(JsonSerdeUtil.toJson(type.getFields())));
        out.set("rows", rows);
        return out;
    }
}
