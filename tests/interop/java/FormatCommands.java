import org.apache.paimon.data.InternalRow;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.JsonSerdeUtil;

/** Commands about format tables, which have no snapshots. */
final class FormatCommands {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private FormatCommands() {}

    /** Writes rows in one commit, or overwrites the table or a partition by them. */
    static JsonNode write(Table table, JsonNode command) throws Exception {
        RowType type = table.rowType();
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        if (command.hasNonNull("overwrite")) {
            builder.withOverwrite(CommandLoop.strings(command.get("overwrite")));
        }
        try (BatchTableWrite write = builder.newWrite();
                BatchTableCommit commit = builder.newCommit()) {
            for (JsonNode kindAndRow : command.get("rows")) {
                write.write(RowJson.row(kindAndRow.get(1), type));
            }
            commit.commit(write.prepareCommit());
        }
        return MAPPER.nullNode();
    }

    /** Returns all rows. */
    static JsonNode read(Table table) throws Exception {
        ObjectNode out = MAPPER.createObjectNode();
        ArrayNode rows = out.putArray("rows");
        RowType type = table.rowType();
        ReadBuilder builder = table.newReadBuilder();
        try (RecordReader<InternalRow> reader = builder.newRead().createReader(builder.newScan().plan())) {
            reader.forEachRemaining(
                    row -> rows.add(MAPPER.createArrayNode().add("+I").add(RowJson.json(row, type))));
        }
        out.set("fields", MAPPER.readTree(JsonSerdeUtil.toJson(type.getFields())));
        return out;
    }
}
