import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.utils.JsonSerdeUtil;
import org.apache.paimon.view.View;
import org.apache.paimon.view.ViewImpl;

/** Views of a catalog: each command begins with `view_`, and the answer tells the view or the views' names. */
final class ViewCommands {

    private static final ObjectMapper MAPPER = new ObjectMapper();

    private ViewCommands() {}

    static JsonNode run(Catalog catalog, JsonNode command) throws Exception {
        switch (command.get("command").textValue()) {
            case "view_names":
                return MAPPER.valueToTree(catalog.listViews(command.get("database").textValue()));
            case "view_create":
                create(catalog, command);
                break;
            case "view_rename":
                catalog.renameView(name(command, "view"), name(command, "to"), false);
                return MAPPER.nullNode();
            case "view_drop":
                catalog.dropView(name(command, "view"), false);
                return MAPPER.nullNode();
            case "view_get":
                break;
            default:
                throw new IllegalArgumentException("unknown command " + command);
        }
        View view = catalog.getView(name(command, "view"));
        ObjectNode out = MAPPER.createObjectNode();
        out.put("query", view.query());
        out.put("comment", view.comment().orElse(null));
        out.set("columns", MAPPER.readTree(JsonSerdeUtil.toJson(view.rowType().getFields())));
        out.set("options", MAPPER.valueToTree(new TreeMap<>(view.options())));
        return out;
    }

    private static void create(Catalog catalog, JsonNode command) throws Exception {
        AtomicInteger id = new AtomicInteger(-1);
        List<DataField> fields = new ArrayList<>();
        for (JsonNode column : command.get("columns")) {
            fields.add(
                    new DataField(
                            fields.size(),
                            column.get("name").textValue(),
                            DataTypeJsonParser.parseDataType(column.get("type"), id),
                            column.hasNonNull("comment") ? column.get("comment").textValue() : null));
        }
        String comment = command.hasNonNull("comment") ? command.get("comment").textValue() : null;
        Map<String, String> options = CommandLoop.strings(command.get("view_options"));
        String query = command.get("query").textValue();
        Identifier name = name(command, "view");
        catalog.createView(name, new ViewImpl(name, fields, query, Map.of(), comment, options), false);
    }

    private static Identifier name(JsonNode command, String key) {
        return Identifier.fromString(command.get(key).textValue());
    }
}
