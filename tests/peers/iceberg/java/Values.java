package interbed.tests.iceberg;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.iceberg.PartitionData;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.SingleValueParser;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.shaded.com.fasterxml.jackson.core.JsonProcessingException;
import org.apache.iceberg.shaded.com.fasterxml.jackson.core.json.JsonReadFeature;
import org.apache.iceberg.shaded.com.fasterxml.jackson.core.json.JsonWriteFeature;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.json.JsonMapper;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.JsonNodeFactory;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;

/**
 * JSON into what Iceberg's generic records hold, and back, by the Iceberg type. Times are ISO text, decimals and UUIDs
 * text, bytes hexadecimal; a map is a list of pairs; a struct is a list in the order of its fields, or an object in which
 * absent fields are null. NaN and the infinities are themselves, as Python writes them into JSON.
 */
final class Values {
    static final JsonMapper MAPPER = JsonMapper.builder()
            .enable(JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS)
            .disable(JsonWriteFeature.WRITE_NAN_AS_STRINGS)
            .build();

    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    private Values() {}

    static JsonNode parse(String text) {
        try {
            return MAPPER.readTree(text);
        } catch (JsonProcessingException e) {
            throw new IllegalArgumentException(e);
        }
    }

    static Record record(Types.StructType struct, JsonNode json) {
        List<Types.NestedField> fields = struct.fields();
        Record record = GenericRecord.create(struct);
        if (json.isArray()) {
            if (json.size() != fields.size()) {
                throw new IllegalArgumentException("the fields are " + struct + ", not those of " + json);
            }
            for (int i = 0; i < fields.size(); i++) {
                record.set(i, value(fields.get(i).type(), json.get(i)));
            }
        } else {
            json.fieldNames().forEachRemaining(name -> {
                if (struct.field(name) == null) {
                    throw new IllegalArgumentException("no field " + name + " in " + struct);
                }
            });
            for (int i = 0; i < fields.size(); i++) {
                record.set(i, value(fields.get(i).type(), json.path(fields.get(i).name())));
            }
        }
        return record;
    }

    static Object value(Type type, JsonNode json) {
        if (json.isNull() || json.isMissingNode()) {
            return null;
        }
        switch (type.typeId()) {
            case BOOLEAN:
                return json.booleanValue();
            case INTEGER:
                return Math.toIntExact(json.longValue());
            case LONG:
                return json.longValue();
            case FLOAT:
                return json.floatValue();
            case DOUBLE:
                return json.doubleValue();
            case DATE:
                return LocalDate.parse(json.textValue());
            case TIME:
                return LocalTime.parse(json.textValue());
            case TIMESTAMP:
                return ((Types.TimestampType) type).shouldAdjustToUTC()
                        ? OffsetDateTime.parse(json.textValue())
                        : LocalDateTime.parse(json.textValue());
            case TIMESTAMP_NANO:
                return ((Types.TimestampNanoType) type).shouldAdjustToUTC()
                        ? OffsetDateTime.parse(json.textValue())
                        : LocalDateTime.parse(json.textValue());
            case STRING:
                return json.textValue();
            case UUID:
                return UUID.fromString(json.textValue());
            case FIXED:
                return HexFormat.of().parseHex(json.textValue());
            case BINARY:
                return ByteBuffer.wrap(HexFormat.of().parseHex(json.textValue()));
            case DECIMAL:
                return new BigDecimal(json.asText()).setScale(((Types.DecimalType) type).scale());
            case STRUCT:
                return record(type.asStructType(), json);
            case LIST:
                List<Object> list = new ArrayList<>();
                json.forEach(element -> list.add(value(type.asListType().elementType(), element)));
                return list;
            case MAP:
                Map<Object, Object> map = new LinkedHashMap<>();
                json.forEach(pair -> map.put(
                        value(type.asMapType().keyType(), pair.get(0)),
                        value(type.asMapType().valueType(), pair.get(1))));
                return map;
            default:
                throw new IllegalArgumentException("no values of type " + type + " can be given");
        }
    }

    static JsonNode json(Type type, Object value) {
        if (value == null) {
            return NODES.nullNode();
        }
        switch (type.typeId()) {
            case BOOLEAN:
            case INTEGER:
            case LONG:
            case FLOAT:
            case DOUBLE:
                return MAPPER.valueToTree(value);
            case FIXED:
                return NODES.textNode(HexFormat.of().formatHex((byte[]) value));
            case BINARY:
                ByteBuffer buffer = ((ByteBuffer) value).duplicate();
                byte[] bytes = new byte[buffer.remaining()];
                buffer.get(bytes);
                return NODES.textNode(HexFormat.of().formatHex(bytes));
            case DECIMAL:
                return NODES.textNode(((BigDecimal) value).toPlainString());
            case STRUCT:
                return json(type.asStructType(), (StructLike) value);
            case LIST:
                ArrayNode list = NODES.arrayNode();
                ((List<?>) value).forEach(element -> list.add(json(type.asListType().elementType(), element)));
                return list;
            case MAP:
                ArrayNode map = NODES.arrayNode();
                ((Map<?, ?>) value).forEach((key, of) -> map.addArray()
                        .add(json(type.asMapType().keyType(), key))
                        .add(json(type.asMapType().valueType(), of)));
                return map;
            default:
                return NODES.textNode(value.toString());
        }
    }

    private static ArrayNode json(Types.StructType struct, StructLike row) {
        ArrayNode values = NODES.arrayNode();
        for (int i = 0; i < struct.fields().size(); i++) {
            values.add(json(struct.fields().get(i).type(), row.get(i, Object.class)));
        }
        return values;
    }

    /** The partition with these values of its fields, which are those after the transforms: a bucket, a month's number. */
    static PartitionData partition(PartitionSpec spec, JsonNode json) {
        PartitionData partition = new PartitionData(spec.partitionType());
        List<Types.NestedField> fields = spec.partitionType().fields();
        if (json.size() != fields.size()) {
            throw new IllegalArgumentException("the partition's fields are " + fields + ", not those of " + json);
        }
        for (int i = 0; i < fields.size(); i++) {
            JsonNode value = json.get(i);
            partition.set(i, value.isNull() ? null : SingleValueParser.fromJson(fields.get(i).type(), value));
        }
        return partition;
    }

    /** The values of a partition by the names of its fields. */
    static ObjectNode partitionJson(PartitionSpec spec, StructLike partition) {
        ObjectNode values = NODES.objectNode();
        List<Types.NestedField> fields = spec.partitionType().fields();
        for (int i = 0; i < fields.size(); i++) {
            Object value = partition.get(i, Object.class);
            Type type = fields.get(i).type();
            values.set(fields.get(i).name(), value == null ? null : parse(SingleValueParser.toJson(type, value)));
        }
        return values;
    }
}
