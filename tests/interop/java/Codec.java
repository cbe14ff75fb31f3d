import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.paimon.data.BinaryArray;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.serializer.InternalRowSerializer;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.manifest.FileSource;
import org.apache.paimon.schema.TableSchema;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.stats.SimpleStats;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.FixedBucketRowKeyExtractor;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.RowType;

/** What Paimon keeps below the rows: bytes of BinaryRow, bucket numbers, files of a plan and their statistics. */
final class Codec {

    private static final ObjectMapper MAPPER = new ObjectMapper();

    private Codec() {}

    private static RowType rowType(JsonNode types) {
        List<DataField> fields = new ArrayList<>();
        AtomicInteger nestedId = new AtomicInteger(-1);
        for (int i = 0; i < types.size(); i++) {
            fields.add(new DataField(i, "f" + i, DataTypeJsonParser.parseDataType(types.get(i), nestedId)));
        }
        return new RowType(fields);
    }

    private static String base64(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }

    /** Each row's hash of the whole row as the bucket key, and its bucket for every asked number of buckets. */
    static JsonNode buckets(JsonNode command) {
        RowType type = rowType(command.get("types"));
        List<String> names = type.getFieldNames();
        Map<Integer, FixedBucketRowKeyExtractor> extractors = new HashMap<>();
        for (JsonNode count : command.get("num_buckets")) {
            Map<String, String> options = new HashMap<>();
            options.put("bucket", count.asText());
            options.put("bucket-key", String.join(",", names));
            options.putAll(CommandLoop.strings(command.get("options")));
            TableSchema schema =
                    new TableSchema(0L, type.getFields(), names.size(), List.of(), List.of(), options, "");
            extractors.put(count.intValue(), new FixedBucketRowKeyExtractor(schema));
        }
        InternalRowSerializer serializer = new InternalRowSerializer(type);
        ArrayNode out = MAPPER.createArrayNode();
        for (JsonNode values : command.get("rows")) {
            GenericRow row = RowJson.row(values, type);
            ObjectNode answer = out.addObject();
            answer.put("hash", serializer.toBinaryRow(row).hashCode());
            ArrayNode buckets = answer.putArray("buckets");
            for (JsonNode count : command.get("num_buckets")) {
                FixedBucketRowKeyExtractor extractor = extractors.get(count.intValue());
                extractor.setRecord(row);
                buckets.add(extractor.bucket());
            }
        }
        return out;
    }

    /** The bytes of each row as a BinaryRow, without the four-byte arity that some files put before it. */
    static JsonNode binaryRows(JsonNode command) {
        RowType type = rowType(command.get("types"));
        InternalRowSerializer serializer = new InternalRowSerializer(type);
        ArrayNode out = MAPPER.createArrayNode();
        for (JsonNode values : command.get("rows")) {
            BinaryRow row = serializer.toBinaryRow(RowJson.row(values, type));
            out.addObject().put("bytes", base64(row.toBytes())).put("hash", row.hashCode());
        }
        return out;
    }

    static JsonNode split(DataSplit split, FileStoreTable table) {
        ObjectNode out = MAPPER.createObjectNode();
        TableSchema schema = table.schema();
        out.set("partition", RowJson.json(split.partition(), schema.logicalPartitionType()));
        out.put("bucket", split.bucket());
        out.put("bucket_path", split.bucketPath());
        out.put("raw_convertible", split.rawConvertible());
        ArrayNode files = out.putArray("files");
        for (DataFileMeta file : split.dataFiles()) {
            files.add(file(file, table.schemaManager().schema(file.schemaId())));
        }
        return out;
    }

    private static JsonNode file(DataFileMeta file, TableSchema schema) {
        ObjectNode out = MAPPER.createObjectNode();
        out.put("file_name", file.fileName());
        out.put("file_size", file.fileSize());
        out.put("row_count", file.rowCount());
        out.put("level", file.level());
        out.put("schema_id", file.schemaId());
        out.put("min_sequence_number", file.minSequenceNumber());
        out.put("max_sequence_number", file.maxSequenceNumber());
        out.put("delete_row_count", file.deleteRowCount().orElse(null));
        out.put("file_source", file.fileSource().map(FileSource::name).orElse(null));
        RowType keyType = schema.logicalTrimmedPrimaryKeysType();
        boolean keyed = !schema.primaryKeys().isEmpty();
        out.set("min_key", keyed ? RowJson.json(file.minKey(), keyType) : MAPPER.nullNode());
        out.set("max_key", keyed ? RowJson.json(file.maxKey(), keyType) : MAPPER.nullNode());
        if (keyed) {
            out.set("key_stats", stats(file.keyStats(), keyType));
        }
        List<String> columns = file.valueStatsCols();
        out.set("value_stats_cols", MAPPER.valueToTree(columns));
        RowType valueType = schema.logicalRowType();
        out.set("value_stats", stats(file.valueStats(), columns == null ? valueType : valueType.project(columns)));
        return out;
    }

    private static JsonNode stats(SimpleStats stats, RowType type) {
        ObjectNode out = MAPPER.createObjectNode();
        out.set("types", MAPPER.valueToTree(type.getFieldTypes().stream().map(Object::toString).toArray()));
        out.set("min", RowJson.json(stats.minValues(), type));
        out.set("max", RowJson.json(stats.maxValues(), type));
        BinaryArray nulls = stats.nullCounts();
        ArrayNode counts = out.putArray("null_counts");
        for (int i = 0; i < nulls.size(); i++) {
            if (nulls.isNullAt(i)) {
                counts.addNull();
            } else {
                counts.add(nulls.getLong(i));
            }
        }
        out.put("min_bytes", base64(stats.minValues().toBytes()));
        out.put("max_bytes", base64(stats.maxValues().toBytes()));
        InternalRow whole = stats.toRow();
        out.put("row_bytes", base64(new InternalRowSerializer(SimpleStats.SCHEMA).toBinaryRow(whole).toBytes()));
        out.put("null_counts_bytes", base64(nulls.toBytes()));
        return out;
    }
}
