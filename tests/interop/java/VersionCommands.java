import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import org.apache.paimon.Snapshot;
import org.apache.paimon.fs.Path;
import org.apache.paimon.operation.LocalOrphanFilesClean;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableCommit;

/** Tags, branches, rollback, expiry and the removal of orphan files: each answers with the tags that there are then. */
final class VersionCommands {

    private static final ObjectMapper MAPPER = new ObjectMapper();

    private VersionCommands() {}

    static JsonNode execute(FileStoreTable table, JsonNode command) throws Exception {
        ObjectNode answer = MAPPER.createObjectNode();
        String name = command.path("name").asText(null);
        switch (command.get("action").textValue()) {
            case "tags":
                break;
            case "create_tag":
                if (command.hasNonNull("retained_seconds")) {
                    Duration retained = Duration.ofSeconds(command.get("retained_seconds").longValue());
                    table.createTag(name, command.get("snapshot").longValue(), retained);
                } else {
                    table.createTag(name, command.get("snapshot").longValue());
                }
                break;
            case "delete_tag":
                table.deleteTag(name);
                break;
            case "rollback":
                if (name == null) {
                    table.rollbackTo(command.get("snapshot").longValue());
                } else {
                    table.rollbackTo(name);
                }
                break;
            case "expire":
                answer.put(
                        "expired",
                        table.newExpireSnapshots()
                                .config(
                                        ExpireConfig.builder()
                                                .snapshotRetainMax(command.get("left").intValue())
                                                .snapshotRetainMin(command.get("left").intValue())
                                                .snapshotTimeRetain(Duration.ofMillis(-60_000))
                                                .build())
                                .expire());
                break;
            case "expire_with_changelog":
                table.newExpireSnapshots()
                        .config(
                                ExpireConfig.builder()
                                        .snapshotRetainMax(command.get("left").intValue())
                                        .snapshotRetainMin(command.get("left").intValue())
                                        .snapshotTimeRetain(Duration.ofMillis(-60_000))
                                        .changelogRetainMax(1000)
                                        .changelogTimeRetain(Duration.ofDays(9999))
                                        .build())
                        .expire();
                break;
            case "create_branch":
                table.createBranch(name, command.get("tag").textValue());
                break;
            case "automatic_tags":
                table.newTagAutoManager().run();
                break;
            case "compact_manifests":
                try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
                    commit.compactManifests();
                }
                break;
            case "fast_forward":
                table.fastForward(name);
                break;
            case "orphans":
                ArrayNode files = answer.putArray("files");
                long now = System.currentTimeMillis();
                List<Path> found = new LocalOrphanFilesClean(table, now + 60_000, true).clean().getDeletedFilesPath();
                found.forEach(path -> files.add(path.getName()));
                break;
            default:
                throw new IllegalArgumentException(command.toString());
        }
        ObjectNode tags = answer.putObject("tags");
        SortedMap<Snapshot, List<String>> tagged = table.tagManager().tags();
        for (Map.Entry<Snapshot, List<String>> entry : tagged.entrySet()) {
            entry.getValue().forEach(tag -> tags.put(tag, entry.getKey().id()));
        }
        ArrayNode branches = answer.putArray("branches");
        table.branchManager().branches().forEach(branches::add);
        return answer;
    }
}
