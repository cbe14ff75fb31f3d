import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.manifest.PartitionEntry;
import org.apache.paimon.options.Options;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.InnerTableCommit;
import org.apache.paimon.table.sink.TableWriteImpl;

/**
 * Paimon's compaction of tables with the same content, one after the other in one JVM.
 *
 * <p>Arguments: "full" or "minor", a directory for temporary files, and the tables' warehouses (each has t.t). Prints
 * the CPU seconds of each, over all threads; the first one starts cold.
 */
public final class CompactBench {

    private CompactBench() {}

    public static void main(String[] args) throws Exception {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        List<String> seconds = new ArrayList<>();
        for (int i = 2; i < args.length; i++) {
            Options options = new Options();
            options.set("warehouse", args[i]);
            long cpu = system.getProcessCpuTime();
            try (Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(options))) {
                compact((FileStoreTable) catalog.getTable(Identifier.fromString("t.t")), args[0].equals("full"), args[1]);
            }
            seconds.add(String.valueOf((system.getProcessCpuTime() - cpu) / 1e9));
        }
        System.out.println("[" + String.join(",", seconds) + "]");
        System.exit(0);
    }

    private static void compact(FileStoreTable stored, boolean full, String temporary) throws Exception {
        FileStoreTable table = stored.copy(Map.of("write-only", "false"));
        try (IOManager io = IOManager.create(temporary);
                TableWriteImpl<?> write = table.newWrite("bench");
                InnerTableCommit commit = table.newCommit("bench")) {
            write.withIOManager(io);
            for (PartitionEntry entry : table.newSnapshotReader().partitionEntries()) {
                BinaryRow partition = entry.partition();
                for (int bucket = 0; bucket < table.coreOptions().bucket(); bucket++) {
                    write.compact(partition, bucket, full);
                }
            }
            commit.commit(
                    BatchWriteBuilder.COMMIT_IDENTIFIER, write.prepareCommit(true, BatchWriteBuilder.COMMIT_IDENTIFIER));
        }
    }
}
