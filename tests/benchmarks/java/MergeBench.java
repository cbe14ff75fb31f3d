import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import org.apache.paimon.CoreOptions;
import org.apache.paimon.KeyValue;
import org.apache.paimon.KeyValueSerializer;
import org.apache.paimon.codegen.CodeGenUtils;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.columnar.ColumnVector;
import org.apache.paimon.data.columnar.ColumnarRow;
import org.apache.paimon.data.columnar.VectorizedColumnBatch;
import org.apache.paimon.data.columnar.heap.HeapArrayVector;
import org.apache.paimon.data.columnar.heap.HeapByteVector;
import org.apache.paimon.data.columnar.heap.HeapBytesVector;
import org.apache.paimon.data.columnar.heap.HeapDoubleVector;
import org.apache.paimon.data.columnar.heap.HeapIntVector;
import org.apache.paimon.data.columnar.heap.HeapLongVector;
import org.apache.paimon.mergetree.compact.DeduplicateMergeFunction;
import org.apache.paimon.mergetree.compact.FirstRowMergeFunction;
import org.apache.paimon.mergetree.compact.MergeFunctionFactory;
import org.apache.paimon.mergetree.compact.PartialUpdateMergeFunction;
import org.apache.paimon.mergetree.compact.ReducerMergeFunctionWrapper;
import org.apache.paimon.mergetree.compact.SortMergeReader;
import org.apache.paimon.mergetree.compact.aggregate.AggregateMergeFunction;
import org.apache.paimon.options.Options;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeRoot;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.RowType;

/**
 * Paimon's streaming merge over runs in memory: no files, no decoding, one thread.
 *
 * <p>Argument: a case as JSON, with columns ({name: kind}), options, runs, rows and repeats. Prints as JSON the CPU
 * seconds of each repetition (the first ones warm the compiler up) and sums over the result. The rows are those that
 * tests/benchmarks/merge_kernels.py makes, column vectors of 1024 rows as the Parquet reader hands them out; results
 * are copied into column arrays, as a reader of batches needs them.
 */
public final class MergeBench {

    private static final int BATCH = 1024;
    private static final int CHUNK = 131_072;

    private final RowType keyType = RowType.of(new DataType[] {DataTypes.BIGINT().notNull()}, new String[] {"_KEY_id"});
    private final RowType valueType;
    private final List<List<VectorizedColumnBatch>> runs = new ArrayList<>();
    private final MergeFunctionFactory<KeyValue> factory;
    private final Comparator<InternalRow> comparator;

    private MergeBench(JsonNode command) {
        List<DataField> fields = new ArrayList<>();
        fields.add(new DataField(0, "id", DataTypes.BIGINT().notNull()));
        command.get("columns").fields().forEachRemaining(
                e -> fields.add(new DataField(fields.size(), e.getKey(), type(e.getValue().textValue()))));
        valueType = new RowType(fields);
        Options options = new Options();
        command.get("options").fields().forEachRemaining(e -> options.set(e.getKey(), e.getValue().textValue()));
        List<String> keys = List.of("id");
        switch (options.getString("merge-engine", "deduplicate")) {
            case "partial-update":
                factory = PartialUpdateMergeFunction.factory(options, valueType, keys);
                break;
            case "aggregation":
                factory = AggregateMergeFunction.factory(options, valueType, keys);
                break;
            case "first-row":
                factory = FirstRowMergeFunction.factory(options);
                break;
            default:
                factory = DeduplicateMergeFunction.factory(options);
        }
        comparator = CodeGenUtils.newRecordComparator(keyType.getFieldTypes())::compare;
        int count = command.get("runs").intValue();
        long keySpace = 2L * command.get("rows").longValue() / count;
        for (int run = 0; run < count; run++) {
            runs.add(run(run, keySpace));
        }
    }

    public static void main(String[] args) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        JsonNode command = mapper.readTree(args[0]);
        MergeBench bench = new MergeBench(command);
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        ArrayNode seconds = mapper.createArrayNode();
        Copy copy = null;
        for (int i = 0; i < command.get("repeats").intValue(); i++) {
            long cpu = system.getProcessCpuTime();
            copy = bench.merge();
            seconds.add((system.getProcessCpuTime() - cpu) / 1e9);
        }
        ObjectNode out = mapper.createObjectNode();
        out.set("cpu_s", seconds);
        out.put("rows_in", bench.runs.stream().flatMap(List::stream).mapToLong(VectorizedColumnBatch::getNumRows).sum());
        out.set("sums", mapper.valueToTree(copy.sums));
        System.out.println(mapper.writeValueAsString(out));
        System.exit(0);
    }

    private static DataType type(String kind) {
        switch (kind) {
            case "long":
            case "sequence":
                return DataTypes.BIGINT();
            case "double":
                return DataTypes.DOUBLE();
            case "array":
                return DataTypes.ARRAY(DataTypes.INT());
            default:
                return DataTypes.STRING();
        }
    }

    static long mix(long x) {
        long z = x * 0x9E3779B97F4A7C15L;
        z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
        z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
        return z ^ (z >>> 31);
    }

    private List<VectorizedColumnBatch> run(int run, long keySpace) {
        List<VectorizedColumnBatch> batches = new ArrayList<>();
        long[] keys = new long[BATCH];
        int rows = 0;
        long sequence = run * keySpace;
        for (long key = 0; key < keySpace; key++) {
            if ((mix(key * 64 + run) & 1) == 0) {
                keys[rows++] = key;
            }
            if (rows == BATCH || (key == keySpace - 1 && rows > 0)) {
                batches.add(batch(run, Arrays.copyOf(keys, rows), sequence));
                sequence += rows;
                rows = 0;
            }
        }
        return batches;
    }

    private VectorizedColumnBatch batch(int run, long[] keys, long sequence) {
        int rows = keys.length;
        ColumnVector[] columns = new ColumnVector[3 + valueType.getFieldCount()];
        HeapLongVector key = new HeapLongVector(rows);
        HeapLongVector sequences = new HeapLongVector(rows);
        for (int i = 0; i < rows; i++) {
            key.setLong(i, keys[i]);
            sequences.setLong(i, sequence + i);
        }
        columns[0] = key;
        columns[1] = sequences;
        columns[2] = new HeapByteVector(rows);
        columns[3] = key;
        for (int column = 1; column < valueType.getFieldCount(); column++) {
            columns[3 + column] = vector(run, keys, column, valueType.getTypeAt(column));
        }
        VectorizedColumnBatch batch = new VectorizedColumnBatch(columns);
        batch.setNumRows(rows);
        return batch;
    }

    private ColumnVector vector(int run, long[] keys, int column, DataType type) {
        int rows = keys.length;
        String name = valueType.getFieldNames().get(column);
        boolean isSequence = name.startsWith("seq");
        HeapLongVector longs = new HeapLongVector(rows);
        HeapDoubleVector doubles = new HeapDoubleVector(rows);
        HeapBytesVector bytes = new HeapBytesVector(rows);
        HeapIntVector elements = new HeapIntVector(3 * rows);
        HeapArrayVector arrays = new HeapArrayVector(rows, elements);
        int used = 0;
        for (int i = 0; i < rows; i++) {
            long h = mix((keys[i] * 64 + run) * 16 + column + (1L << 50));
            boolean missing = !isSequence && (h & 3) == 0;
            long number = h >>> 40;
            switch (type.getTypeRoot()) {
                case BIGINT:
                    longs.setLong(i, number);
                    if (missing) {
                        longs.setNullAt(i);
                    }
                    break;
                case DOUBLE:
                    doubles.setDouble(i, number);
                    if (missing) {
                        doubles.setNullAt(i);
                    }
                    break;
                case ARRAY:
                    int size = (int) (number % 4);
                    arrays.putOffsetLength(i, used, missing ? 0 : size);
                    for (int e = 0; e < size && !missing; e++) {
                        elements.setInt(used++, (int) number + e);
                    }
                    if (missing) {
                        arrays.setNullAt(i);
                    }
                    break;
                default:
                    byte[] text = new byte[name.startsWith("wide") ? 64 : 16];
                    for (int digit = 0; digit < text.length; digit++) {
                        text[digit] = (byte) Character.forDigit((int) (h >>> (60 - 4 * (digit % 16))) & 15, 16);
                    }
                    if (missing) {
                        bytes.setNullAt(i);
                    } else {
                        bytes.putByteArray(i, text, 0, text.length);
                    }
            }
        }
        switch (type.getTypeRoot()) {
            case BIGINT:
                return longs;
            case DOUBLE:
                return doubles;
            case ARRAY:
                return arrays;
            default:
                return bytes;
        }
    }

    private Copy merge() throws IOException {
        List<RecordReader<KeyValue>> readers = new ArrayList<>();
        for (List<VectorizedColumnBatch> run : runs) {
            readers.add(new Run(run, new KeyValueSerializer(keyType, valueType)));
        }
        Copy copy = new Copy(valueType);
        try (SortMergeReader<KeyValue> merged =
                SortMergeReader.createSortMergeReader(
                        readers,
                        comparator,
                        null,
                        new ReducerMergeFunctionWrapper(factory.create(null)),
                        CoreOptions.SortEngine.LOSER_TREE)) {
            RecordReader.RecordIterator<KeyValue> batch;
            while ((batch = merged.readBatch()) != null) {
                KeyValue kv;
                while ((kv = batch.next()) != null) {
                    copy.add(kv.value());
                }
                batch.releaseBatch();
            }
        }
        copy.flush();
        return copy;
    }

    /** One run; its key-value pair is reused, as by a file reader. */
    private static final class Run implements RecordReader<KeyValue> {

        private final List<VectorizedColumnBatch> batches;
        private final KeyValueSerializer serializer;
        private int next = 0;

        Run(List<VectorizedColumnBatch> batches, KeyValueSerializer serializer) {
            this.batches = batches;
            this.serializer = serializer;
        }

        @Override
        public RecordIterator<KeyValue> readBatch() {
            if (next == batches.size()) {
                return null;
            }
            VectorizedColumnBatch batch = batches.get(next++);
            ColumnarRow row = new ColumnarRow(batch);
            return new RecordIterator<KeyValue>() {
                private int position = 0;

                @Override
                public KeyValue next() {
                    if (position == batch.getNumRows()) {
                        return null;
                    }
                    row.setRowId(position++);
                    return serializer.fromRow(row).setLevel(0);
                }

                @Override
                public void releaseBatch() {}
            };
        }

        @Override
        public void close() {}
    }

    /** Column arrays that results are copied into, and the sums over them. */
    private static final class Copy {

        private final DataTypeRoot[] types;
        private final String[] names;
        private final Object[] values;
        private final int[] used;
        private final boolean[][] nulls;
        private int rows = 0;
        final Map<String, Long> sums = new java.util.TreeMap<>();

        Copy(RowType type) {
            int columns = type.getFieldCount();
            types = new DataTypeRoot[columns];
            names = type.getFieldNames().toArray(new String[0]);
            values = new Object[columns];
            used = new int[columns];
            nulls = new boolean[columns][CHUNK];
            for (int i = 0; i < columns; i++) {
                types[i] = type.getTypeAt(i).getTypeRoot();
                switch (types[i]) {
                    case BIGINT:
                        values[i] = new long[CHUNK];
                        break;
                    case DOUBLE:
                        values[i] = new double[CHUNK];
                        break;
                    case ARRAY:
                        values[i] = new int[CHUNK];
                        break;
                    default:
                        values[i] = new byte[CHUNK];
                }
            }
        }

        void add(InternalRow row) {
            for (int i = 0; i < types.length; i++) {
                if (row.isNullAt(i)) {
                    nulls[i][rows] = true;
                    continue;
                }
                switch (types[i]) {
                    case BIGINT:
                        ((long[]) values[i])[rows] = row.getLong(i);
                        break;
                    case DOUBLE:
                        ((double[]) values[i])[rows] = row.getDouble(i);
                        break;
                    case ARRAY:
                        InternalArray array = row.getArray(i);
                        int size = array.size();
                        int[] ints = (int[]) values[i];
                        if (used[i] + size > ints.length) {
                            values[i] = ints = Arrays.copyOf(ints, 2 * ints.length + size);
                        }
                        for (int e = 0; e < size; e++) {
                            ints[used[i]++] = array.getInt(e);
                        }
                        break;
                    default:
                        BinaryString text = row.getString(i);
                        int length = text.getSizeInBytes();
                        byte[] bytes = (byte[]) values[i];
                        if (used[i] + length > bytes.length) {
                            values[i] = bytes = Arrays.copyOf(bytes, 2 * bytes.length + length);
                        }
                        text.getSegments()[0].get(text.getOffset(), bytes, used[i], length);
                        used[i] += length;
                }
            }
            if (++rows == CHUNK) {
                flush();
            }
        }

        void flush() {
            sums.merge("rows", (long) rows, Long::sum);
            for (int i = 0; i < types.length; i++) {
                long sum = 0;
                for (int r = 0; r < rows; r++) {
                    if (!nulls[i][r] && types[i] == DataTypeRoot.BIGINT) {
                        sum += ((long[]) values[i])[r];
                    } else if (!nulls[i][r] && types[i] == DataTypeRoot.DOUBLE) {
                        sum += (long) ((double[]) values[i])[r];
                    }
                }
                if (types[i] == DataTypeRoot.ARRAY) {
                    for (int e = 0; e < used[i]; e++) {
                        sum += ((int[]) values[i])[e];
                    }
                } else if (types[i] == DataTypeRoot.VARCHAR) {
                    sum = used[i];
                }
                sums.merge(names[i], sum, Long::sum);
                used[i] = 0;
                Arrays.fill(nulls[i], 0, rows, false);
            }
            rows = 0;
        }
    }
}
