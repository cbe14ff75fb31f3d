import java.util.ArrayList;
import java.util.List;
import org.apache.paimon.append.dataevolution.DataEvolutionCompactCoordinator;
import org.apache.paimon.append.dataevolution.DataEvolutionCompactTask;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.source.EndOfScanException;
import org.apache.paimon.types.RowType;

/** Commands about tables whose columns are in files of their own. */
final class ColumnCommands {
    private ColumnCommands() {}

    /** Writes values of some columns for all rows from a row id on, as Paimon's jobs of MERGE INTO do. */
    static void write(FileStoreTable table, JsonNode command) throws Exception {
        RowType type = table.rowType().project(CommandLoop.names(command.get("columns")));
        long first = command.get("first_row_id").longValue();
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite();
                BatchTableCommit commit = builder.newCommit()) {
            write.withWriteType(type);
            for (JsonNode row : command.get("rows")) {
                write.write(RowJson.row(row, type));
            }
            List<CommitMessage> messages = write.prepareCommit();
            for (CommitMessage message : messages) {
                List<DataFileMeta> files = ((CommitMessageImpl) message).newFilesIncrement().newFiles();
                files.replaceAll(file -> file.assignFirstRowId(first));
            }
            commit.commit(messages);
        }
    }

    /** Returns the messages of Paimon's compaction of column files. */
    static List<CommitMessage> compacted(FileStoreTable table, String user) throws Exception {
        List<CommitMessage> messages = new ArrayList<>();
        if (table.snapshotManager().latestSnapshot() == null) {
            return messages;
        }
        DataEvolutionCompactCoordinator coordinator = new DataEvolutionCompactCoordinator(table, false, false);
        try {
            while (true) {
                for (DataEvolutionCompactTask task : coordinator.plan()) {
                    messages.add(task.doCompact(table, user));
                }
            }
        } catch (EndOfScanException end) {
            return messages;
        }
    }
}
