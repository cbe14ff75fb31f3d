import java.net.URI;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobmaster.JobResult;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.table.catalog.ResolvedSchema;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.gateway.api.SqlGatewayService;
import org.apache.flink.table.gateway.api.endpoint.EndpointVersion;
import org.apache.flink.table.gateway.api.operation.OperationHandle;
import org.apache.flink.table.gateway.api.results.ResultSet;
import org.apache.flink.table.gateway.api.session.SessionEnvironment;
import org.apache.flink.table.gateway.api.session.SessionHandle;
import org.apache.flink.table.gateway.service.SqlGatewayServiceImpl;
import org.apache.flink.table.gateway.service.context.DefaultContext;
import org.apache.flink.table.gateway.service.session.SessionManager;
import org.apache.flink.table.types.logical.RowType;
import org.apache.paimon.flink.LogicalTypeConversion;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.utils.JsonSerdeUtil;

/**
 * Flink behind a pipe: a cluster and the service behind Flink's SQL client in one process, which takes one JSON command
 * a line on stdin and gives one JSON answer a line on stdout, until stdin ends. The commands are the methods of
 * FlinkSession in tests/support/peers/flink.py; statements are written as people write them in the SQL client.
 */
public final class FlinkPeer {

    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final int ROWS_MAX = 5000;
    private static final long POLL_MILLIS = 5;

    private final MiniCluster cluster;
    private final SqlGatewayService service;
    private final Map<String, SessionHandle> sessions = new HashMap<>();
    private final Map<String, Result> results = new HashMap<>();

    private FlinkPeer(MiniCluster cluster, SqlGatewayService service) {
        this.cluster = cluster;
        this.service = service;
    }

    public static void main(String[] args) throws Exception {
        Configuration settings = Configuration.fromMap(CommandLoop.strings(MAPPER.readTree(args[0])));
        MiniCluster cluster =
                new MiniCluster(
                        new MiniClusterConfiguration.Builder()
                                .setConfiguration(settings)
                                .setNumTaskManagers(1)
                                .setNumSlotsPerTaskManager(16)
                                .build());
        cluster.start();
        URI address = cluster.getRestAddress().get();
        // Sessions submit their jobs to the cluster as they would to any other.
        Configuration ofSessions = new Configuration(settings);
        ofSessions.setString("execution.target", "remote");
        ofSessions.setString("rest.address", address.getHost());
        ofSessions.setString("rest.port", String.valueOf(address.getPort()));
        SessionManager sessions = SessionManager.create(new DefaultContext(ofSessions, List.of()));
        sessions.start();
        CommandLoop.run(new FlinkPeer(cluster, new SqlGatewayServiceImpl(sessions))::execute);
    }

    private JsonNode execute(JsonNode command) throws Exception {
        switch (command.get("command").textValue()) {
            case "open_session":
                SessionEnvironment environment =
                        SessionEnvironment.newBuilder()
                                .setSessionEndpointVersion(new EndpointVersion() {})
                                .addSessionConfig(CommandLoop.strings(command.get("settings")))
                                .build();
                sessions.put(text(command, "session"), service.openSession(environment));
                return MAPPER.nullNode();
            case "close_session":
                service.closeSession(sessions.remove(text(command, "session")));
                return MAPPER.nullNode();
            case "sql":
                return sql(command);
            case "open":
                SessionHandle session = session(command);
                Result opened =
                        new Result(session, service.executeStatement(session, text(command, "sql"), -1, new Configuration()));
                results.put(text(command, "result"), opened);
                return MAPPER.nullNode();
            case "fetch":
                return results.get(text(command, "result")).fetch(command.get("rows").intValue(), deadline(command));
            case "close":
                results.remove(text(command, "result")).close();
                return MAPPER.nullNode();
            case "job_status":
                return MAPPER.valueToTree(status(command).name());
            case "await_job":
                return awaitJob(command);
            case "cancel_job":
                cluster.cancelJob(job(command)).get(seconds(command), TimeUnit.SECONDS);
                return MAPPER.nullNode();
            default:
                throw new IllegalArgumentException("unknown command " + command);
        }
    }

    /** A statement and all of its rows; what a query never ends with it never answers, up to the deadline. */
    private JsonNode sql(JsonNode command) throws Exception {
        SessionHandle session = session(command);
        Result result =
                new Result(session, service.executeStatement(session, text(command, "sql"), -1, new Configuration()));
        try {
            ObjectNode answer = result.fetch(Integer.MAX_VALUE, deadline(command));
            if (!answer.get("ended").booleanValue()) {
                throw new IllegalStateException("the statement has not ended in time: " + text(command, "sql"));
            }
            return answer;
        } finally {
            result.close();
        }
    }

    private JsonNode awaitJob(JsonNode command) throws Exception {
        JobResult result = cluster.requestJobResult(job(command)).get(seconds(command), TimeUnit.SECONDS);
        if (result.getSerializedThrowable().isPresent()) {
            throw new IllegalStateException(
                    "the job failed", result.getSerializedThrowable().get().deserializeError(getClass().getClassLoader()));
        }
        return MAPPER.valueToTree(status(command).name());
    }

    private JobStatus status(JsonNode command) throws Exception {
        return cluster.getJobStatus(job(command)).get(seconds(command), TimeUnit.SECONDS);
    }

    private static JobID job(JsonNode command) {
        return JobID.fromHexString(text(command, "job"));
    }

    private SessionHandle session(JsonNode command) {
        return sessions.get(text(command, "session"));
    }

    private static String text(JsonNode command, String key) {
        return command.get(key).textValue();
    }

    private static long seconds(JsonNode command) {
        return command.get("seconds").longValue();
    }

    private static long deadline(JsonNode command) {
        return System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds(command));
    }

    /** The rows of one statement. */
    private final class Result {

        private final SessionHandle session;
        private final OperationHandle operation;
        private long token;
        private boolean ended;

        Result(SessionHandle session, OperationHandle operation) {
            this.session = session;
            this.operation = operation;
        }

        /** Rows as they come, until there are so many, or no more, or it is too late. */
        ObjectNode fetch(int rowsMin, long deadline) throws Exception {
            ObjectNode answer = MAPPER.createObjectNode();
            ArrayNode rows = answer.putArray("rows");
            while (!ended && rows.size() < rowsMin && System.nanoTime() < deadline) {
                ResultSet found = service.fetchResults(session, operation, token, ROWS_MAX);
                if (found.getResultType() == ResultSet.ResultType.NOT_READY) {
                    Thread.sleep(POLL_MILLIS);
                    continue;
                }
                put(answer, rows, found);
                ended = found.getResultType() == ResultSet.ResultType.EOS;
                if (!ended) {
                    token = found.getNextToken();
                    if (found.getData().isEmpty()) {
                        Thread.sleep(POLL_MILLIS);
                    }
                }
            }
            answer.put("ended", ended);
            return answer;
        }

        private void put(ObjectNode answer, ArrayNode rows, ResultSet found) throws Exception {
            ResolvedSchema schema = found.getResultSchema();
            RowType type = (RowType) schema.toPhysicalRowDataType().getLogicalType();
            if (!answer.has("fields")) {
                answer.set(
                        "fields", MAPPER.readTree(JsonSerdeUtil.toJson(LogicalTypeConversion.toDataType(type).getFields())));
                if (found.getJobID() != null) {
                    answer.put("job", found.getJobID().toHexString());
                }
            }
            for (RowData row : found.getData()) {
                rows.add(MAPPER.createArrayNode().add(row.getRowKind().shortString()).add(FlinkRows.json(row, type)));
            }
        }

        /** Ends what still runs for it. */
        void close() {
            service.closeOperation(session, operation);
        }
    }
}
