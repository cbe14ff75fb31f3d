import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.paimon.CoreOptions;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.serializer.InternalRowSerializer;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.options.Options;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.InnerTableCommit;
import org.apache.paimon.table.sink.RowPartitionKeyExtractor;
import org.apache.paimon.table.sink.TableWriteImpl;
import org.apache.paimon.table.source.InnerTableRead;

/**
 * Paimon's writes to dynamic buckets, and its rescale to another number of buckets, on copies of one warehouse.
 *
 * <p>Arguments: "dynamic" or "rescale", a directory for temporary files, and the warehouses. "dynamic" writes the rows of
 * b.base and then those of b.changes to b.target; the reads are not counted. "rescale" reads b.target and writes its rows
 * to eight buckets, as Paimon's procedure does. Prints the CPU seconds of each warehouse, over all threads.
 */
public final class BucketsBench {

    private static final long ID = BatchWriteBuilder.COMMIT_IDENTIFIER;

    private BucketsBench() {}

    public static void main(String[] args) throws Exception {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        List<String> seconds = new ArrayList<>();
        for (int i = 2; i < args.length; i++) {
            Options options = new Options();
            options.set("warehouse", args[i]);
            try (Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(options));
                    IOManager io = IOManager.create(args[1])) {
                boolean dynamic = args[0].equals("dynamic");
                List<List<InternalRow>> commits =
                        dynamic ? List.of(rows(catalog, "base"), rows(catalog, "changes")) : List.of();
                long cpu = system.getProcessCpuTime();
                for (List<InternalRow> rows : commits) {
                    write(table(catalog, "target"), rows, io);
                }
                if (!dynamic) {
                    rescale(catalog, io);
                }
                seconds.add(String.valueOf((system.getProcessCpuTime() - cpu) / 1e9));
            }
        }
        System.out.println("[" + String.join(",", seconds) + "]");
        System.exit(0);
    }

    private static FileStoreTable table(Catalog catalog, String name) throws Exception {
        return (FileStoreTable) catalog.getTable(Identifier.create("b", name));
    }

    private static List<InternalRow> rows(Catalog catalog, String name) throws Exception {
        FileStoreTable table = table(catalog, name);
        InternalRowSerializer serializer = new InternalRowSerializer(table.rowType());
        List<InternalRow> rows = new ArrayList<>();
        try (RecordReader<InternalRow> reader =
                table.newRead().createReader(table.newSnapshotReader().read().splits())) {
            reader.forEachRemaining(row -> rows.add(serializer.copy(row)));
        }
        return rows;
    }

    private static void write(FileStoreTable table, List<InternalRow> rows, IOManager io) throws Exception {
        CoreOptions options = table.coreOptions();
        HashBucketAssigner assigner =
                new HashBucketAssigner(
                        table.snapshotManager(),
                        "bench",
                        table.store().newIndexFileHandler(),
                        1,
                        1,
                        0,
                        options.dynamicBucketTargetRowNum(),
                        options.dynamicBucketMaxBuckets());
        RowPartitionKeyExtractor extractor = new RowPartitionKeyExtractor(table.schema());
        try (TableWriteImpl<?> write = table.newWrite("bench");
                InnerTableCommit commit = table.newCommit("bench")) {
            write.withIOManager(io);
            for (InternalRow row : rows) {
                int hash = extractor.trimmedPrimaryKey(row).hashCode();
                write.write(row, assigner.assign(extractor.partition(row), hash));
            }
            assigner.prepareCommit(ID);
            commit.commit(ID, write.prepareCommit(true, ID));
        }
    }

    private static void rescale(Catalog catalog, IOManager io) throws Exception {
        FileStoreTable old = table(catalog, "target");
        catalog.alterTable(Identifier.create("b", "target"), SchemaChange.setOption("bucket", "8"), false);
        FileStoreTable table = table(catalog, "target");
        InnerTableRead read = old.newRead();
        try (TableWriteImpl<?> write = table.newWrite("bench");
                InnerTableCommit commit = table.newCommit("bench");
                RecordReader<InternalRow> reader = read.createReader(old.newSnapshotReader().read().splits())) {
            write.withIOManager(io);
            write.withIgnorePreviousFiles(true);
            RecordReader.RecordIterator<InternalRow> batch;
            while ((batch = reader.readBatch()) != null) {
                for (InternalRow row = batch.next(); row != null; row = batch.next()) {
                    write.write(row);
                }
                batch.releaseBatch();
            }
            commit.withOverwrite(Map.of());
            commit.commit(ID, write.prepareCommit(true, ID));
        }
    }
}
