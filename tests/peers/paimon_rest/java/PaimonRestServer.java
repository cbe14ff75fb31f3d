import java.util.HashMap;
import java.util.Map;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.rest.RESTAuthVerifier;
import org.apache.paimon.rest.RESTCatalogServer;
import org.apache.paimon.rest.RESTToken;
import org.apache.paimon.rest.auth.AuthProvider;
import org.apache.paimon.rest.auth.BearTokenAuthProvider;
import org.apache.paimon.rest.responses.ConfigResponse;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.JsonNodeFactory;

/** Starts reference servers of Paimon's REST catalog, each with an empty catalog on a free port. */
public final class PaimonRestServer {

    private static final Map<String, RESTCatalogServer> SERVERS = new HashMap<>();

    private PaimonRestServer() {}

    public static void main(String[] arguments) throws Exception {
        CommandLoop.run(PaimonRestServer::execute);
    }

    private static JsonNode execute(JsonNode command) throws Exception {
        switch (command.get("command").asText()) {
            case "start":
                return start(command);
            case "stop":
                SERVERS.remove(command.get("url").asText()).shutdown();
                return JsonNodeFactory.instance.nullNode();
            case "fail_after_commits":
                // The server applies the commits and answers with an error.
                RESTCatalogServer.commitSuccessThrowException = command.get("on").asBoolean();
                return JsonNodeFactory.instance.nullNode();
            case "forbid":
                SERVERS.get(command.get("url").asText())
                        .addNoPermissionTable(Identifier.fromString(command.get("table").asText()));
                return JsonNodeFactory.instance.nullNode();
            case "token":
                SERVERS.get(command.get("url").asText())
                        .setDataToken(
                                Identifier.fromString(command.get("table").asText()),
                                new RESTToken(
                                        CommandLoop.strings(command.get("options")),
                                        command.get("expires").asLong()));
                return JsonNodeFactory.instance.nullNode();
            default:
                throw new IllegalArgumentException("no command " + command);
        }
    }

    private static JsonNode start(JsonNode command) throws Exception {
        AuthProvider provider =
                command.hasNonNull("key")
                        ? new RESTAuthVerifier(
                                command.get("key").asText(),
                                command.get("secret").asText(),
                                command.path("session").isTextual() ? command.get("session").asText() : null,
                                command.get("region").asText())
                        : new BearTokenAuthProvider(command.get("token").asText());
        String warehouse = command.get("warehouse").asText();
        Map<String, String> defaults = new HashMap<>(CommandLoop.strings(command.get("defaults")));
        defaults.put("prefix", command.get("prefix").asText());
        RESTCatalogServer server =
                new RESTCatalogServer(
                        command.get("directory").asText(),
                        provider,
                        new ConfigResponse(defaults, CommandLoop.strings(command.get("overrides"))),
                        warehouse);
        server.start();
        SERVERS.put(server.getUrl(), server);
        return JsonNodeFactory.instance.textNode(server.getUrl());
    }
}
