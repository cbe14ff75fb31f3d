import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.paimon.compact.CompactUnit;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.mergetree.LevelSortedRun;
import org.apache.paimon.mergetree.SortedRun;
import org.apache.paimon.mergetree.compact.CompactStrategy;
import org.apache.paimon.mergetree.compact.EarlyFullCompaction;
import org.apache.paimon.mergetree.compact.ForceUpLevel0Compaction;
import org.apache.paimon.mergetree.compact.OffPeakHours;
import org.apache.paimon.mergetree.compact.UniversalCompaction;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.stats.SimpleStats;

/** What Paimon's compaction strategies pick, without a table: trees of levels in, units out. */
final class StrategyCommands {

    private static final ObjectMapper MAPPER = new ObjectMapper();

    private StrategyCommands() {}

    /**
     * For each of the `trees`, arrays of [level, bytes] with the newest run first, the number of runs picked and their
     * output level, or null; one strategy sees them all, in order.
     */
    static JsonNode picks(JsonNode command) {
        CompactStrategy strategy = strategy(command);
        ArrayNode out = MAPPER.createArrayNode();
        for (JsonNode tree : command.get("trees")) {
            List<LevelSortedRun> runs = new ArrayList<>();
            for (JsonNode run : tree) {
                runs.add(run(run.get(0).intValue(), run.get(1).longValue()));
            }
            Optional<CompactUnit> picked = strategy.pick(command.get("num_levels").intValue(), runs);
            if (picked.isPresent()) {
                out.addArray().add(picked.get().files().size()).add(picked.get().outputLevel());
            } else {
                out.addNull();
            }
        }
        return out;
    }

    private static CompactStrategy strategy(JsonNode command) {
        JsonNode offPeak = command.get("off_peak");
        UniversalCompaction universal =
                new UniversalCompaction(
                        command.get("amplification").intValue(),
                        command.get("ratio").intValue(),
                        command.get("trigger").intValue(),
                        new EarlyFullCompaction(null, size(command, "total"), size(command, "incremental")),
                        OffPeakHours.create(
                                offPeak.get(0).intValue(), offPeak.get(1).intValue(), offPeak.get(2).intValue()));
        int forceUp = command.get("force_up").intValue();
        return forceUp == 0 ? universal : new ForceUpLevel0Compaction(universal, forceUp == 1 ? null : forceUp);
    }

    private static Long size(JsonNode command, String name) {
        return command.hasNonNull(name) ? command.get(name).longValue() : null;
    }

    private static LevelSortedRun run(int level, long size) {
        // A strategy looks at levels and sizes alone.
        DataFileMeta flushed =
                DataFileMeta.forAppend(
                        "f", size, 1, SimpleStats.EMPTY_STATS, 0, 0, 0, List.of(), null, null, null, null, null, null);
        DataFileMeta file = level == 0 ? flushed : flushed.upgrade(level);
        return new LevelSortedRun(level, SortedRun.fromSingle(file));
    }
}
