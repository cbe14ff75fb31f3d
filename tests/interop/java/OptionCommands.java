import java.lang.reflect.Field;
import java.lang.reflect.Modifier;

import org.apache.paimon.options.ConfigOption;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;

/** The keys of options, as the classes that define them have them. */
final class OptionCommands {

    private static final ObjectMapper MAPPER = new ObjectMapper();

    private OptionCommands() {}

    /** A list of key, default (null for none) and older keys for each option of the classes. */
    static JsonNode keys(JsonNode command) throws Exception {
        ArrayNode found = MAPPER.createArrayNode();
        for (JsonNode name : command.get("classes")) {
            for (Field field : Class.forName(name.asText()).getDeclaredFields()) {
                if (Modifier.isStatic(field.getModifiers())
                        && ConfigOption.class.isAssignableFrom(field.getType())) {
                    field.setAccessible(true);
                    ConfigOption<?> option = (ConfigOption<?>) field.get(null);
                    ArrayNode older = MAPPER.createArrayNode();
                    option.fallbackKeys().forEach(fallback -> older.add(fallback.getKey()));
                    Object value = option.defaultValue();
                    found.addArray().add(option.key()).add(value == null ? null : value.toString()).add(older);
                }
            }
        }
        return found;
    }
}
