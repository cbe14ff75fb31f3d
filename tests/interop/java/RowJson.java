import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Blob;
import org.apache.paimon.data.BlobData;
import org.apache.paimon.data.DataGetters;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericArray;
import org.apache.paimon.data.GenericMap;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.data.variant.GenericVariant;
import org.apache.paimon.data.variant.Variant;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.JsonNodeFactory;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeChecks;
import org.apache.paimon.types.DecimalType;
import org.apache.paimon.types.IntType;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.MultisetType;
import org.apache.paimon.types.RowType;

/**
 * Rows as JSON without loss. The same encoding is written down in tests/support/peers_json.py:
 * a row is an array in field order; null is null; integers, DATE (days), TIME (milliseconds) and
 * TIMESTAMP (nanoseconds since 1970-01-01 00:00) are integers; FLOAT and DOUBLE are strings, a FLOAT widened
 * to a double first; DECIMAL is a string; byte strings are base64; MAP and MULTISET are arrays of pairs.
 */
final class RowJson {

    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    private static final BigInteger NANOS_PER_MILLI = BigInteger.valueOf(1_000_000);

    private RowJson() {}

    static GenericRow row(JsonNode values, RowType type) {
        if (!values.isArray() || values.size() != type.getFieldCount()) {
            throw new IllegalArgumentException("expected " + type.getFieldCount() + " values, got " + values);
        }
        GenericRow row = new GenericRow(type.getFieldCount());
        for (int i = 0; i < values.size(); i++) {
            row.setField(i, value(values.get(i), type.getTypeAt(i)));
        }
        return row;
    }

    static Object value(JsonNode node, DataType type) {
        if (node == null || node.isNull()) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return node.booleanValue();
            case TINYINT:
                return (byte) integer(node, Byte.MIN_VALUE, Byte.MAX_VALUE);
            case SMALLINT:
                return (short) integer(node, Short.MIN_VALUE, Short.MAX_VALUE);
            case INTEGER:
            case DATE:
            case TIME_WITHOUT_TIME_ZONE:
                return (int) integer(node, Integer.MIN_VALUE, Integer.MAX_VALUE);
            case BIGINT:
                return integer(node, Long.MIN_VALUE, Long.MAX_VALUE);
            case FLOAT:
                return (float) Double.parseDouble(node.textValue());
            case DOUBLE:
                return Double.parseDouble(node.textValue());
            case CHAR:
            case VARCHAR:
                return BinaryString.fromString(node.textValue());
            case BINARY:
            case VARBINARY:
                return Base64.getDecoder().decode(node.textValue());
            case BLOB:
                return new BlobData(Base64.getDecoder().decode(node.textValue()));
            case DECIMAL:
                DecimalType decimal = (DecimalType) type;
                BigDecimal exact = new BigDecimal(node.textValue());
                Decimal fitted = Decimal.fromBigDecimal(exact, decimal.getPrecision(), decimal.getScale());
                if (fitted == null || fitted.toBigDecimal().compareTo(exact) != 0) {
                    throw new IllegalArgumentException(exact + " does not fit " + type);
                }
                return fitted;
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                return timestamp(node.bigIntegerValue());
            case VARIANT:
                return new GenericVariant(
                        Base64.getDecoder().decode(node.get("value").textValue()),
                        Base64.getDecoder().decode(node.get("metadata").textValue()));
            case ARRAY:
                DataType elementType = ((ArrayType) type).getElementType();
                Object[] elements = new Object[node.size()];
                for (int i = 0; i < elements.length; i++) {
                    elements[i] = value(node.get(i), elementType);
                }
                return new GenericArray(elements);
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

    static ArrayNode json(InternalRow row, RowType type) {
        ArrayNode out = JSON.arrayNode();
        for (int i = 0; i < type.getFieldCount(); i++) {
            out.add(json(row, i, type.getTypeAt(i)));
        }
        return out;
    }

    static JsonNode json(DataGetters from, int at, DataType type) {
        if (from.isNullAt(at)) {
            return JSON.nullNode();
        }
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return JSON.booleanNode(from.getBoolean(at));
            case TINYINT:
                return JSON.numberNode(from.getByte(at));
            case SMALLINT:
                return JSON.numberNode(from.getShort(at));
            case INTEGER:
            case DATE:
            case TIME_WITHOUT_TIME_ZONE:
                return JSON.numberNode(from.getInt(at));
            case BIGINT:
                return JSON.numberNode(from.getLong(at));
            case FLOAT:
                return JSON.textNode(Double.toString(from.getFloat(at)));
            case DOUBLE:
                return JSON.textNode(Double.toString(from.getDouble(at)));
            case CHAR:
            case VARCHAR:
                return JSON.textNode(from.getString(at).toString());
            case BINARY:
            case VARBINARY:
                return JSON.textNode(Base64.getEncoder().encodeToString(from.getBinary(at)));
            case BLOB:
                Blob blob = from.getBlob(at);
                return JSON.textNode(Base64.getEncoder().encodeToString(blob.toData()));
            case DECIMAL:
                DecimalType decimal = (DecimalType) type;
                // A cast that overflows gives null where isNullAt says that there is a value.
                Decimal found = from.getDecimal(at, decimal.getPrecision(), decimal.getScale());
                return found == null ? JSON.nullNode() : JSON.textNode(found.toBigDecimal().toPlainString());
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                return JSON.numberNode(nanos(from.getTimestamp(at, DataTypeChecks.getPrecision(type))));
            case VARIANT:
                Variant variant = from.getVariant(at);
                ObjectNode node = JSON.objectNode();
                node.put("value", Base64.getEncoder().encodeToString(variant.value()));
                node.put("metadata", Base64.getEncoder().encodeToString(variant.metadata()));
                return node;
            case ARRAY:
                InternalArray array = from.getArray(at);
                ArrayNode elements = JSON.arrayNode();
                for (int i = 0; i < array.size(); i++) {
                    elements.add(json(array, i, ((ArrayType) type).getElementType()));
                }
                return elements;
            case MAP:
                return pairs(from.getMap(at), ((MapType) type).getKeyType(), ((MapType) type).getValueType());
            case MULTISET:
                return pairs(from.getMap(at), ((MultisetType) type).getElementType(), new IntType(false));
            case ROW:
                RowType nested = (RowType) type;
                return json(from.getRow(at, nested.getFieldCount()), nested);
            default:
                throw new UnsupportedOperationException("no JSON form for " + type);
        }
    }

    private static long integer(JsonNode node, long min, long max) {
        if (!node.isIntegralNumber() || !node.canConvertToLong() || node.longValue() < min || node.longValue() > max) {
            throw new IllegalArgumentException(node + " is no integer from " + min + " to " + max);
        }
        return node.longValue();
    }

    private static Timestamp timestamp(BigInteger nanos) {
        BigInteger millis = floorDivide(nanos);
        BigInteger rest = nanos.subtract(millis.multiply(NANOS_PER_MILLI));
        return Timestamp.fromEpochMillis(millis.longValueExact(), rest.intValueExact());
    }

    private static BigInteger floorDivide(BigInteger nanos) {
        BigInteger[] quotient = nanos.divideAndRemainder(NANOS_PER_MILLI);
        return quotient[1].signum() < 0 ? quotient[0].subtract(BigInteger.ONE) : quotient[0];
    }

    private static BigInteger nanos(Timestamp timestamp) {
        return BigInteger.valueOf(timestamp.getMillisecond())
                .multiply(NANOS_PER_MILLI)
                .add(BigInteger.valueOf(timestamp.getNanoOfMillisecond()));
    }

    private static GenericMap map(JsonNode node, DataType keyType, DataType valueType) {
        Map<Object, Object> map = new LinkedHashMap<>();
        for (JsonNode pair : node) {
            map.put(value(pair.get(0), keyType), value(pair.get(1), valueType));
        }
        return new GenericMap(map);
    }

    private static ArrayNode pairs(InternalMap map, DataType keyType, DataType valueType) {
        InternalArray keys = map.keyArray();
        InternalArray values = map.valueArray();
        List<JsonNode> pairs = new ArrayList<>();
        for (int i = 0; i < map.size(); i++) {
            pairs.add(JSON.arrayNode().add(json(keys, i, keyType)).add(json(values, i, valueType)));
        }
        return JSON.arrayNode().addAll(pairs);
    }
}
