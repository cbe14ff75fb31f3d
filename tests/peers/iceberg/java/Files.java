package interbed.tests.iceberg;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Function;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.ManifestContent;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.ManifestReader;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.BaseDeleteLoader;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.deletes.PositionDeleteIndex;
import org.apache.iceberg.encryption.EncryptingFileIO;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.DeleteFileSet;
import org.apache.iceberg.util.SnapshotUtil;

/** The files of a table's snapshot, and their rows without Spark. */
public final class Files {
    /** Data files by their paths. */
    final Map<String, DataFile> data = new HashMap<>();

    private final Map<String, DeleteFileSet> positionDeletes = new HashMap<>();
    private final Table table;

    /** The files that a scan of this snapshot, or of none, would read. */
    Files(Table table, Snapshot snapshot) {
        this.table = table;
        if (snapshot == null) {
            return;
        }
        try (CloseableIterable<FileScanTask> tasks =
                table.newScan().useSnapshot(snapshot.snapshotId()).planFiles()) {
            for (FileScanTask task : tasks) {
                data.put(task.file().location(), task.file());
                DeleteFileSet deletes = DeleteFileSet.create();
                for (DeleteFile file : task.deletes()) {
                    if (file.content() == FileContent.POSITION_DELETES) {
                        deletes.add(file);
                    }
                }
                positionDeletes.put(task.file().location(), deletes);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** What is deleted of a data file already, or null: in its vector, or in position deletes of before vectors. */
    Function<String, PositionDeleteIndex> previousDeletes() {
        EncryptingFileIO io = EncryptingFileIO.combine(table.io(), table.encryption());
        BaseDeleteLoader loader = new BaseDeleteLoader(io::newInputFile);
        return path -> {
            DeleteFileSet deletes = positionDeletes.get(path);
            return deletes == null || deletes.isEmpty() ? null : loader.loadPositionDeletes(deletes, path);
        };
    }

    /** The data and delete files of the current snapshot, as JSON. */
    public static String list(Table table) throws IOException {
        ArrayNode files = Values.MAPPER.createArrayNode();
        if (table.currentSnapshot() != null) {
            for (ManifestFile manifest : table.currentSnapshot().allManifests(table.io())) {
                try (ManifestReader<? extends ContentFile<?>> reader = manifest.content() == ManifestContent.DATA
                        ? ManifestFiles.read(manifest, table.io(), table.specs())
                        : ManifestFiles.readDeleteManifest(manifest, table.io(), table.specs())) {
                    for (ContentFile<?> file : reader) {
                        files.add(described(table.specs().get(file.specId()), file));
                    }
                }
            }
        }
        return files.toString();
    }

    private static ObjectNode described(PartitionSpec spec, ContentFile<?> file) {
        ObjectNode told = Values.MAPPER.createObjectNode();
        told.put("content", file.content().name().toLowerCase());
        told.put("path", file.location());
        told.put("format", file.format().name().toLowerCase());
        told.put("spec_id", file.specId());
        told.set("partition", Values.partitionJson(spec, file.partition()));
        told.put("record_count", file.recordCount());
        told.put("sequence_number", file.dataSequenceNumber());
        told.put("file_sequence_number", file.fileSequenceNumber());
        told.put("first_row_id", file.firstRowId());
        told.set("equality_ids", Values.MAPPER.valueToTree(file.equalityFieldIds()));
        if (file instanceof DeleteFile) {
            DeleteFile deletes = (DeleteFile) file;
            told.put("referenced_data_file", deletes.referencedDataFile());
            told.put("content_offset", deletes.contentOffset());
            told.put("content_size", deletes.contentSizeInBytes());
        }
        return told;
    }

    /** The rows as Iceberg's generic reader finds them, as JSON; Spark has no types for some of Iceberg's. */
    public static String rows(Table table, Long snapshot) throws IOException {
        IcebergGenerics.ScanBuilder scan = IcebergGenerics.read(table);
        Types.StructType struct = (snapshot == null ? table.schema() : SnapshotUtil.schemaFor(table, snapshot)).asStruct();
        ArrayNode rows = Values.MAPPER.createArrayNode();
        try (CloseableIterable<Record> records =
                snapshot == null ? scan.build() : scan.useSnapshot(snapshot).build()) {
            for (Record record : records) {
                // The reader appends what its deletes need: `_pos`, and dropped columns.
                rows.add(Values.json(struct, record));
            }
        }
        return Values.MAPPER.writeValueAsString(rows);
    }
}
