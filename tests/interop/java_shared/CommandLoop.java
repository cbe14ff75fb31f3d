import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

/** One JSON command a line on stdin, one JSON answer a line on stdout, until stdin ends; what all Java peers share. */
final class CommandLoop {

    private static final ObjectMapper MAPPER = new ObjectMapper();

    /** What a peer does with a command. */
    interface Commands {
        JsonNode execute(JsonNode command) throws Exception;
    }

    private CommandLoop() {}

    /** Answers commands and ends the process; what goes wrong is an answer, too, with its causes in one line. */
    static void run(Commands commands) throws IOException {
        // Libraries that print go to stderr, so that stdout carries answers alone.
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = lines.readLine()) != null) {
            ObjectNode answer = MAPPER.createObjectNode();
            try {
                answer.set("ok", commands.execute(MAPPER.readTree(line)));
            } catch (Throwable e) {
                ObjectNode error = answer.putObject("error");
                StringBuilder messages = new StringBuilder(String.valueOf(e.getMessage()));
                for (Throwable cause = e.getCause(); cause != null; cause = cause.getCause()) {
                    messages.append(" <- ").append(cause.getMessage());
                }
                error.put("class", e.getClass().getName());
                error.put("message", messages.toString());
                e.printStackTrace();
            }
            answers.println(MAPPER.writeValueAsString(answer));
        }
        System.exit(0);
    }

    /** An object of texts as a map; null stays null. */
    static Map<String, String> strings(JsonNode node) {
        Map<String, String> out = new LinkedHashMap<>();
        if (node != null && !node.isNull()) {
            node.fields().forEachRemaining(
                    e -> out.put(e.getKey(), e.getValue().isNull() ? null : e.getValue().asText()));
        }
        return out;
    }

    /** An array of texts as a list. */
    static List<String> names(JsonNode node) {
        List<String> out = new ArrayList<>();
        if (node != null) {
            node.forEach(n -> out.add(n.textValue()));
        }
        return out;
    }
}
