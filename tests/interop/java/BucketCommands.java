import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.CoreOptions;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.index.BucketAssigner;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.index.SimpleHashBucketAssigner;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.postpone.BucketFiles;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.PostponeUtils;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.sink.RowPartitionKeyExtractor;
import org.apache.paimon.table.sink.TableWriteImpl;
import org.apache.paimon.table.source.DataSplit;

/** Dynamic and postponed buckets, which Paimon leaves to Flink and Spark: what their jobs do, with one task. */
final class BucketCommands {

    private BucketCommands() {}

    /** Hands rows to a writer, with their bucket where the row alone does not tell it. */
    interface RowSink {
        void write(GenericRow row) throws Exception;
    }

    static RowSink sink(FileStoreTable table, TableWriteImpl<?> write, String user, boolean overwrite) {
        if (table.bucketMode() != BucketMode.HASH_DYNAMIC) {
            return write::write;
        }
        CoreOptions options = table.coreOptions();
        BucketAssigner assigner =
                overwrite
                        ? new SimpleHashBucketAssigner(
                                1, 0, options.dynamicBucketTargetRowNum(), options.dynamicBucketMaxBuckets())
                        : new HashBucketAssigner(
                                table.snapshotManager(),
                                user,
                                table.store().newIndexFileHandler(),
                                1,
                                1,
                                0,
                                options.dynamicBucketTargetRowNum(),
                                options.dynamicBucketMaxBuckets());
        RowPartitionKeyExtractor extractor = new RowPartitionKeyExtractor(table.schema());
        return row -> {
            int hash = extractor.trimmedPrimaryKey(row).hashCode();
            write.write(row, assigner.assign(extractor.partition(row), hash));
        };
    }

    /** The messages that take postponed rows to real buckets, as Paimon's compaction jobs make them. */
    static List<CommitMessage> compactPostponed(FileStoreTable table, String user, String temporary) throws Exception {
        Map<BinaryRow, Integer> known = PostponeUtils.getKnownNumBuckets(table);
        Map<BinaryRow, Map<Integer, BucketFiles>> buckets = new LinkedHashMap<>();
        Map<Integer, List<DataSplit>> byCount = new HashMap<>();
        for (DataSplit split : table.newSnapshotReader().withBucket(BucketMode.POSTPONE_BUCKET).read().dataSplits()) {
            int count = known.getOrDefault(split.partition(), table.coreOptions().postponeDefaultBucketNum());
            byCount.computeIfAbsent(count, c -> new ArrayList<>()).add(split);
            CompactIncrement gone = new CompactIncrement(split.dataFiles(), List.of(), List.of());
            add(
                    table,
                    buckets,
                    new CommitMessageImpl(
                            split.partition(),
                            split.bucket(),
                            split.totalBuckets(),
                            DataIncrement.emptyIncrement(),
                            gone));
        }
        for (Map.Entry<Integer, List<DataSplit>> entry : byCount.entrySet()) {
            FileStoreTable real = table.copy(Map.of("bucket", String.valueOf(entry.getKey()), "write-only", "false"));
            try (IOManager io = IOManager.create(temporary);
                    TableWriteImpl<?> write = real.newWrite(user)) {
                write.withIOManager(io);
                for (DataSplit split : entry.getValue()) {
                    List<DataFileMeta> files = new ArrayList<>(split.dataFiles());
                    files.sort(Comparator.comparing(DataFileMeta::creationTime));
                    for (DataFileMeta file : files) {
                        rewrite(table, split, file, write);
                    }
                }
                for (CommitMessage message : write.prepareCommit(true, 0)) {
                    add(table, buckets, (CommitMessageImpl) message);
                }
            }
        }
        List<CommitMessage> messages = new ArrayList<>();
        buckets.forEach(
                (partition, files) ->
                        files.forEach((bucket, f) -> messages.add(f.makeMessage(partition, bucket))));
        return messages;
    }

    private static void rewrite(FileStoreTable table, DataSplit split, DataFileMeta file, TableWriteImpl<?> write)
            throws Exception {
        DataSplit one =
                DataSplit.builder()
                        .withPartition(split.partition())
                        .withBucket(split.bucket())
                        .withBucketPath(split.bucketPath())
                        .withTotalBuckets(split.totalBuckets())
                        .withDataFiles(List.of(file))
                        .isStreaming(false)
                        .build();
        RecordReader<InternalRow> reader = table.newRead().createReader(one);
        reader.forEachRemaining(
                row -> {
                    try {
                        write.write(row);
                    } catch (Exception e) {
                        throw new IllegalStateException(e);
                    }
                });
    }

    private static void add(
            FileStoreTable table, Map<BinaryRow, Map<Integer, BucketFiles>> buckets, CommitMessageImpl message) {
        buckets.computeIfAbsent(message.partition(), p -> new LinkedHashMap<>())
                .computeIfAbsent(
                        message.bucket(),
                        b ->
                                new BucketFiles(
                                        table.store()
                                                .pathFactory()
                                                .createDataFilePathFactory(message.partition(), message.bucket()),
                                        table.fileIO()))
                .update(message);
    }
}
