import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;

import org.apache.flink.table.data.ArrayData;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.GenericArrayData;
import org.apache.flink.table.data.GenericMapData;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.MapData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.types.logical.ArrayType;
import org.apache.flink.table.types.logical.DecimalType;
import org.apache.flink.table.types.logical.IntType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.MapType;
import org.apache.flink.table.types.logical.MultisetType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.JsonNodeFactory;

/** Flink's rows as JSON without loss, as tests/support/peers/json.py has it. */
final class FlinkRows {

    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    private static final BigInteger NANOS_PER_MILLI = BigInteger.valueOf(1_000_000);

    private FlinkRows() {}

    static ArrayNode json(RowData row, RowType type) {
        ArrayNode out = JSON.arrayNode();
        for (int i = 0; i < type.getFieldCount(); i++) {
            LogicalType of = type.getTypeAt(i);
            out.add(json(RowData.createFieldGetter(of, i).getFieldOrNull(row), of));
        }
        return out;
    }

    private static JsonNode json(Object value, LogicalType type) {
        if (value == null) {
            return JSON.nullNode();
        }
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return JSON.booleanNode((Boolean) value);
            case TINYINT:
            case SMALLINT:
            case INTEGER:
            case DATE:
            case TIME_WITHOUT_TIME_ZONE:
            case BIGINT:
                return JSON.numberNode(((Number) value).longValue());
            case FLOAT:
            case DOUBLE:
                return JSON.textNode(Double.toString(((Number) value).doubleValue()));
            case CHAR:
            case VARCHAR:
                return JSON.textNode(value.toString());
            case BINARY:
            case VARBINARY:
                return JSON.textNode(Base64.getEncoder().encodeToString((byte[]) value));
            case DECIMAL:
                return JSON.textNode(((DecimalData) value).toBigDecimal().toPlainString());
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                TimestampData time = (TimestampData) value;
                return JSON.numberNode(
                        BigInteger.valueOf(time.getMillisecond())
                                .multiply(NANOS_PER_MILLI)
                                .add(BigInteger.valueOf(time.getNanoOfMillisecond())));
            case ARRAY:
                return json((ArrayData) value, ((ArrayType) type).getElementType());
            case MAP:
                return json((MapData) value, ((MapType) type).getKeyType(), ((MapType) type).getValueType());
            case MULTISET:
                return json((MapData) value, ((MultisetType) type).getElementType(), new IntType(false));
            case ROW:
                return json((RowData) value, (RowType) type);
            default:
                throw new UnsupportedOperationException("no JSON form for " + type);
        }
    }

    private static ArrayNode json(ArrayData array, LogicalType type) {
        ArrayData.ElementGetter elements = ArrayData.createElementGetter(type);
        ArrayNode out = JSON.arrayNode();
        for (int i = 0; i < array.size(); i++) {
            out.add(json(elements.getElementOrNull(array, i), type));
        }
        return out;
    }

    private static ArrayNode json(MapData map, LogicalType keyType, LogicalType valueType) {
        ArrayNode keys = json(map.keyArray(), keyType);
        ArrayNode values = json(map.valueArray(), valueType);
        ArrayNode out = JSON.arrayNode();
        for (int i = 0; i < map.size(); i++) {
            out.add(JSON.arrayNode().add(keys.get(i)).add(values.get(i)));
        }
        return out;
    }

    static GenericRowData row(JsonNode values, RowType type) {
        if (!values.isArray() || values.size() != type.getFieldCount()) {
            throw new IllegalArgumentException("expected " + type.getFieldCount() + " values, got " + values);
        }
        GenericRowData row = new GenericRowData(type.getFieldCount());
        for (int i = 0; i < values.size(); i++) {
            row.setField(i, value(values.get(i), type.getTypeAt(i)));
        }
        return row;
    }

    private static Object value(JsonNode node, LogicalType type) {
        if (node.isNull()) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return node.booleanValue();
            case TINYINT:
                return (byte) node.intValue();
            case SMALLINT:
                return (short) node.intValue();
            case INTEGER:
            case DATE:
            case TIME_WITHOUT_TIME_ZONE:
                return node.intValue();
            case BIGINT:
                return node.longValue();
            case FLOAT:
                return (float) Double.parseDouble(node.textValue());
            case DOUBLE:
                return Double.parseDouble(node.textValue());
            case CHAR:
            case VARCHAR:
                return StringData.fromString(node.textValue());
            case BINARY:
            case VARBINARY:
                return Base64.getDecoder().decode(node.textValue());
            case DECIMAL:
                DecimalType decimal = (DecimalType) type;
                BigDecimal exact = new BigDecimal(node.textValue());
                return DecimalData.fromBigDecimal(exact, decimal.getPrecision(), decimal.getScale());
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                // The remainder is not negative, before 1970 either.
                BigInteger nanos = node.bigIntegerValue();
                BigInteger rest = nanos.mod(NANOS_PER_MILLI);
                long millis = nanos.subtract(rest).divide(NANOS_PER_MILLI).longValueExact();
                return TimestampData.fromEpochMillis(millis, rest.intValue());
            case ARRAY:
                Object[] elements = new Object[node.size()];
                for (int i = 0; i < elements.length; i++) {
                    elements[i] = value(node.get(i), ((ArrayType) type).getElementType());
                }
                return new GenericArrayData(elements);
            case MAP:
                return map(node, ((MapType) type).getKeyType(), ((MapType) type).getValueType());
            case MULTISET:
                return map(node, ((MultisetType) type).getElementType(), new IntType(false));
            case ROW:
                return row(node, (RowType) type);
            default:
                throw new UnsupportedOperationException("no JSON form for " + type);
        }
    }

    private static GenericMapData map(JsonNode node, LogicalType keyType, LogicalType valueType) {
        Map<Object, Object> map = new LinkedHashMap<>();
        for (JsonNode pair : node) {
            map.put(value(pair.get(0), keyType), value(pair.get(1), valueType));
        }
        return new GenericMapData(map);
    }
}
