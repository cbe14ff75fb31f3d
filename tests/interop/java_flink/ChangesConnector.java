import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.List;
import java.util.Set;

import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.SourceProvider;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.types.RowKind;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/**
 * The connector `changes`: a stream that ends, of the changes in a file, which has a line `["+I", [value, …]]` for each.
 * `kinds` says which there are (`all`, `insert`, or `upsert`, without -U), `rows-per-checkpoint` how many come between two checkpoints: a
 * job goes as fast as it commits, and a job that begins anew goes on from its checkpoint.
 */
public final class ChangesConnector implements DynamicTableSourceFactory {

    private static final ConfigOption<String> PATH = ConfigOptions.key("path").stringType().noDefaultValue();
    private static final ConfigOption<String> KINDS = ConfigOptions.key("kinds").stringType().defaultValue("insert");
    private static final ConfigOption<Integer> ROWS_PER_CHECKPOINT =
            ConfigOptions.key("rows-per-checkpoint").intType().noDefaultValue();

    @Override
    public String factoryIdentifier() {
        return "changes";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(PATH);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of(KINDS, ROWS_PER_CHECKPOINT);
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        helper.validate();
        RowType type = (RowType) context.getPhysicalRowDataType().getLogicalType();
        return new Changes(type, helper.getOptions());
    }

    private static final class Changes implements ScanTableSource {

        private final RowType type;
        private final ReadableConfig options;

        Changes(RowType type, ReadableConfig options) {
            this.type = type;
            this.options = options;
        }

        @Override
        public ChangelogMode getChangelogMode() {
            switch (options.get(KINDS)) {
                case "insert":
                    return ChangelogMode.insertOnly();
                case "upsert":
                    return ChangelogMode.upsert();
                case "all":
                    return ChangelogMode.all();
                default:
                    throw new IllegalArgumentException("no kinds: " + options.get(KINDS));
            }
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            List<String> lines = lines(options.get(PATH));
            RateLimiterStrategy rate =
                    options.getOptional(ROWS_PER_CHECKPOINT)
                            .map(RateLimiterStrategy::perCheckpoint)
                            .orElse(RateLimiterStrategy.noOp());
            // One reader, so that the changes of a key stay in their order.
            return SourceProvider.of(
                    new DataGeneratorSource<>(
                            new Reading(type, lines.toArray(new String[0])), lines.size(), rate, InternalTypeInfo.of(type)),
                    1);
        }

        @Override
        public DynamicTableSource copy() {
            return new Changes(type, options);
        }

        @Override
        public String asSummaryString() {
            return "changes of " + options.get(PATH);
        }

        private static List<String> lines(String path) {
            try {
                return Files.readAllLines(Paths.get(path), StandardCharsets.UTF_8);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    private static final class Reading implements GeneratorFunction<Long, RowData> {

        private static final long serialVersionUID = 1L;
        private static final ObjectMapper MAPPER = new ObjectMapper();

        private final RowType type;
        private final String[] lines;

        Reading(RowType type, String[] lines) {
            this.type = type;
            this.lines = lines;
        }

        @Override
        public RowData map(Long number) throws IOException {
            JsonNode change = MAPPER.readTree(lines[number.intValue()]);
            RowData row = FlinkRows.row(change.get(1), type);
            row.setRowKind(kind(change.get(0).textValue()));
            return row;
        }

        private static RowKind kind(String text) {
            for (RowKind kind : RowKind.values()) {
                if (kind.shortString().equals(text)) {
                    return kind;
                }
            }
            throw new IllegalArgumentException("no kind: " + text);
        }
    }
}
