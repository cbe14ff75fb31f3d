package interbed.tests.iceberg;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.stream.Collectors;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.PartitionKey;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotUpdate;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.GenericFileWriterFactory;
import org.apache.iceberg.data.InternalRecordWrapper;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.deletes.BaseDVFileWriter;
import org.apache.iceberg.deletes.EqualityDeleteWriter;
import org.apache.iceberg.deletes.PositionDelete;
import org.apache.iceberg.deletes.PositionDeleteWriter;
import org.apache.iceberg.encryption.EncryptedOutputFile;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.io.DeleteWriteResult;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.iceberg.types.TypeUtil;
import org.apache.iceberg.types.Types;

/** One commit of files that Iceberg's own writers make of the rows and positions of operations, which are JSON. */
public final class Commit {
    private record Position(String path, long row) {}

    private record Place(PartitionSpec spec, StructLike partition) {}

    private final Table table;
    private final Snapshot head;
    private final Files before;
    private final String id = UUID.randomUUID().toString();
    /** The data file that each operation has written, or null. */
    private final List<DataFile> written = new ArrayList<>();

    private final List<DataFile> rows = new ArrayList<>();
    private final List<DeleteFile> deletes = new ArrayList<>();
    private final List<DeleteFile> replaced = new ArrayList<>();

    private Commit(Table table, Snapshot head) {
        this.table = table;
        this.head = head;
        before = new Files(table, head);
    }

    /** Commits the operations to a branch, or to main; the snapshot's numbers and the paths of each operation as JSON. */
    public static String operations(Table table, String operations, String branch) throws IOException {
        Commit commit = new Commit(table, branch == null ? table.currentSnapshot() : table.snapshot(branch));
        ArrayNode paths = Values.MAPPER.createArrayNode();
        for (JsonNode operation : Values.parse(operations)) {
            ArrayNode own = paths.addArray();
            commit.write(operation).forEach(file -> own.add(file.location()));
        }
        SnapshotUpdate<?> update = commit.update();
        if (branch != null) {
            update.toBranch(branch);
        }
        update.commit();
        table.refresh();
        Snapshot made = branch == null ? table.currentSnapshot() : table.snapshot(branch);
        ObjectNode told = Values.MAPPER.createObjectNode();
        told.put("snapshot_id", made.snapshotId());
        told.put("sequence_number", made.sequenceNumber());
        told.put("operation", made.operation());
        told.set("paths", paths);
        return told.toString();
    }

    private SnapshotUpdate<?> update() {
        if (deletes.isEmpty()) {
            AppendFiles append = table.newAppend();
            rows.forEach(append::appendFile);
            return append;
        }
        RowDelta delta = table.newRowDelta();
        rows.forEach(delta::addRows);
        deletes.forEach(delta::addDeletes);
        replaced.forEach(delta::removeDeletes);
        if (head != null) {
            // Without it each vector that the table ever had for the same data file counts as a concurrent one.
            delta.validateFromSnapshot(head.snapshotId());
        }
        return delta;
    }

    private List<? extends ContentFile<?>> write(JsonNode operation) throws IOException {
        String kind = operation.path("op").asText();
        if (kind.equals("append")) {
            DataFile file = append(operation);
            written.add(file);
            rows.add(file);
            return List.of(file);
        }
        List<DeleteFile> made;
        switch (kind) {
            case "equality_delete":
                made = List.of(equalityDelete(operation));
                break;
            case "position_delete":
                made = List.of(positionDelete(operation));
                break;
            case "deletion_vector":
                made = vectors(operation);
                break;
            default:
                throw new IllegalArgumentException("no such operation: " + kind);
        }
        written.add(null);
        deletes.addAll(made);
        return made;
    }

    private DataFile append(JsonNode operation) throws IOException {
        Schema schema = table.schema();
        List<Record> records = records(schema, operation.get("rows"));
        Place place = place(operation, schema, records);
        FileFormat format = format(operation);
        DataWriter<Record> writer = new GenericFileWriterFactory.Builder(table)
                .dataFileFormat(format)
                .dataSchema(schema)
                .build()
                .newDataWriter(output(format, place), place.spec, place.partition);
        try (writer) {
            writer.write(records);
        }
        return writer.toDataFile();
    }

    private DeleteFile equalityDelete(JsonNode operation) throws IOException {
        List<Types.NestedField> fields = new ArrayList<>();
        boolean nested = false;
        for (JsonNode column : operation.get("columns")) {
            fields.add(table.schema().findField(column.asText()));
            nested |= table.schema().asStruct().field(column.asText()) == null;
        }
        int[] ids = fields.stream().mapToInt(Types.NestedField::fieldId).toArray();
        // In the order in which they are named, since a delete file's columns need not be in the table's order; a field of
        // a struct stands in its struct.
        Schema schema = nested
                ? TypeUtil.select(table.schema(), Arrays.stream(ids).boxed().collect(Collectors.toSet()))
                : new Schema(fields);
        List<Record> records = records(schema, operation.get("rows"));
        Place place = place(operation, schema, records);
        FileFormat format = format(operation);
        EqualityDeleteWriter<Record> writer = new GenericFileWriterFactory.Builder(table)
                .deleteFileFormat(format)
                .equalityFieldIds(ids)
                .equalityDeleteRowSchema(schema)
                .build()
                .newEqualityDeleteWriter(output(format, place), place.spec, place.partition);
        try (writer) {
            writer.write(records);
        }
        return writer.toDeleteFile();
    }

    private DeleteFile positionDelete(JsonNode operation) throws IOException {
        List<Position> positions = positions(operation);
        Place place = operation.hasNonNull("partition")
                ? place(operation, table.schema(), List.of())
                : place(positions.get(0).path);
        FileFormat format = format(operation);
        PositionDeleteWriter<Record> writer = new GenericFileWriterFactory.Builder(table)
                .deleteFileFormat(format)
                .build()
                .newPositionDeleteWriter(output(format, place), place.spec, place.partition);
        PositionDelete<Record> deleted = PositionDelete.create();
        try (writer) {
            for (Position position : positions) {
                writer.write(deleted.set(position.path, position.row));
            }
        }
        return writer.toDeleteFile();
    }

    private List<DeleteFile> vectors(JsonNode operation) throws IOException {
        OutputFileFactory outputs = outputs(FileFormat.PUFFIN, table.spec());
        BaseDVFileWriter writer = new BaseDVFileWriter(outputs, before.previousDeletes());
        try (writer) {
            for (Position position : positions(operation)) {
                Place place = place(position.path);
                writer.delete(position.path, position.row, place.spec, place.partition);
            }
        }
        DeleteWriteResult result = writer.result();
        replaced.addAll(result.rewrittenDeleteFiles());
        return result.deleteFiles();
    }

    private static List<Record> records(Schema schema, JsonNode rows) {
        List<Record> records = new ArrayList<>();
        rows.forEach(row -> records.add(Values.record(schema.asStruct(), row)));
        return records;
    }

    /** In the order that the format asks for; a number instead of a path is the operation that wrote the data file. */
    private List<Position> positions(JsonNode operation) {
        List<Position> positions = new ArrayList<>();
        for (JsonNode pair : operation.get("deletes")) {
            JsonNode file = pair.get(0);
            String path = file.isInt() ? written.get(file.intValue()).location() : file.textValue();
            positions.add(new Position(path, pair.get(1).longValue()));
        }
        positions.sort(Comparator.comparing(Position::path).thenComparing(Position::row));
        return positions;
    }

    private Place place(String path) {
        DataFile file = before.data.get(path);
        if (file == null) {
            file = rows.stream().filter(one -> one.location().equals(path)).findFirst().orElse(null);
        }
        if (file == null) {
            throw new IllegalArgumentException("no data file " + path + "; name the partition of what is deleted");
        }
        return new Place(table.specs().get(file.specId()), file.partition());
    }

    /** Where an operation says that its file is, or else where its rows are, which are of this schema. */
    private Place place(JsonNode operation, Schema schema, List<Record> records) {
        PartitionSpec spec = operation.hasNonNull("spec_id")
                ? table.specs().get(operation.get("spec_id").intValue())
                : table.spec();
        if (spec.isUnpartitioned()) {
            return new Place(spec, null);
        }
        if (operation.hasNonNull("partition")) {
            return new Place(spec, Values.partition(spec, operation.get("partition")));
        }
        Set<PartitionKey> keys = new HashSet<>();
        PartitionKey key = new PartitionKey(spec, schema);
        InternalRecordWrapper wrapper = new InternalRecordWrapper(schema.asStruct());
        for (Record record : records) {
            key.partition(wrapper.wrap(record));
            keys.add(key.copy());
        }
        if (keys.size() != 1) {
            throw new IllegalArgumentException("one file has rows of one partition, not of " + keys);
        }
        return new Place(spec, keys.iterator().next());
    }

    private static FileFormat format(JsonNode operation) {
        return FileFormat.fromString(operation.path("format").asText("parquet"));
    }

    private OutputFileFactory outputs(FileFormat format, PartitionSpec spec) {
        return OutputFileFactory.builderFor(table, written.size(), 0)
                .operationId(id)
                .format(format)
                .defaultSpec(spec)
                .build();
    }

    private EncryptedOutputFile output(FileFormat format, Place place) {
        OutputFileFactory outputs = outputs(format, place.spec);
        return place.partition == null
                ? outputs.newOutputFile()
                : outputs.newOutputFile(place.spec, place.partition);
    }
}
