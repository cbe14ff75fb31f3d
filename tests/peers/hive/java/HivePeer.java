import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hive.service.cli.thrift.ThriftBinaryCLIService;
import org.apache.hive.service.server.HiveServer2;
import org.apache.thrift.server.TServer;
import org.apache.thrift.transport.TServerSocket;

/**
 * A HiveServer2 on a free port, and a JDBC client of it that takes statements as JSON lines from standard input.
 *
 * <p>Everything is configured by the hive-site.xml on the class path. A line
 * {@code {"command": "run", "sql": …, "user": …}} is run in the session of the user, and answered by {@code {"ok": {"columns": [{"name", "type"}], "rows": [[text | null]]}}} or
 * {@code {"error": {"class", "message"}}}. Values are the text that JDBC gives, binary ones in base64.
 */
public final class HivePeer {
    private static final ObjectMapper JSON = new ObjectMapper();

    private HivePeer() {}

    public static void main(String[] arguments) throws Exception {
        // Hive prints on standard output; it is for answers alone here.
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        HiveConf conf = new HiveConf();
        HiveServer2 server = new HiveServer2();
        server.init(conf);
        server.start();
        String url = "jdbc:hive2://127.0.0.1:" + port(server) + "/default;auth=noSasl";
        Map<String, Connection> connections = new HashMap<>();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            answers.println(JSON.writeValueAsString(answer(url, connections, JSON.readTree(line))));
        }
        for (Connection connection : connections.values()) {
            connection.close();
        }
        // Hive's services leave threads behind that would keep the process.
        Runtime.getRuntime().halt(0);
    }

    private static ObjectNode answer(String url, Map<String, Connection> connections, JsonNode command) {
        ObjectNode answer = JSON.createObjectNode();
        String user = command.get("user").asText();
        try (Statement statement = session(url, connections, user).createStatement()) {
            if (statement.execute(command.get("sql").asText())) {
                answer.set("ok", rows(statement.getResultSet()));
            } else {
                ObjectNode nothing = answer.putObject("ok");
                nothing.putArray("columns");
                nothing.putArray("rows");
            }
        } catch (SQLException error) {
            ObjectNode refused = answer.putObject("error");
            refused.put("class", error.getClass().getName());
            refused.put("message", error.getMessage());
        }
        return answer;
    }

    private static Connection session(String url, Map<String, Connection> connections, String user)
            throws SQLException {
        Connection found = connections.get(user);
        if (found == null) {
            found = DriverManager.getConnection(url, user, "");
            connections.put(user, found);
        }
        return found;
    }

    private static ObjectNode rows(ResultSet found) throws SQLException {
        ObjectNode result = JSON.createObjectNode();
        ResultSetMetaData about = found.getMetaData();
        ArrayNode columns = result.putArray("columns");
        for (int i = 1; i <= about.getColumnCount(); i++) {
            columns.addObject().put("name", about.getColumnLabel(i)).put("type", about.getColumnTypeName(i));
        }
        ArrayNode rows = result.putArray("rows");
        while (found.next()) {
            ArrayNode row = rows.addArray();
            for (int i = 1; i <= about.getColumnCount(); i++) {
                Object value = found.getObject(i);
                row.add(
                        value instanceof byte[] bytes
                                ? Base64.getEncoder().encodeToString(bytes)
                                : value == null ? null : value.toString());
            }
        }
        return result;
    }

    /** HiveServer2 itself only knows the port that it was told, which is 0: any that is free. */
    private static int port(HiveServer2 server) throws ReflectiveOperationException {
        Object thrift = field(HiveServer2.class, "thriftCLIService").get(server);
        Object listener = field(ThriftBinaryCLIService.class, "server").get(thrift);
        TServerSocket socket = (TServerSocket) field(TServer.class, "serverTransport_").get(listener);
        return socket.getServerSocket().getLocalPort();
    }

    private static Field field(Class<?> owner, String name) throws NoSuchFieldException {
        Field field = owner.getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }
}
