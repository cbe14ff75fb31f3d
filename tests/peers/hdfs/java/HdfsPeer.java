import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.security.PrivilegedExceptionAction;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSNNTopology;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.SafeModeAction;
import org.apache.hadoop.hdfs.security.token.delegation.DelegationTokenIdentifier;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.security.Credentials;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.token.Token;

/**
 * HDFS in one process: the nameservice `lake` with an active name node and a standby one, and two data nodes.
 *
 * <p>Arguments: its directory, two free ports, and settings `key=value`, by which it asks for Kerberos. It says `ready` when it
 * can be used, and answers each line of its stdin, a command, with `done`; it ends with its stdin.
 */
public final class HdfsPeer {
    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.set("hdfs.minidfs.basedir", arguments[0]);
        settings.setInt("dfs.replication", 2);
        // A standby that asks for edits often is soon ready to take over.
        settings.setInt("dfs.ha.tail-edits.period", 1);
        // A file may be closed before a data node has told of its last block: clients wait half a second otherwise.
        settings.setInt("dfs.namenode.file.close.num-committed-allowed", 1);
        settings.setInt("dfs.namenode.handler.count", 4);
        settings.setInt("dfs.datanode.handler.count", 4);
        for (String setting : Arrays.asList(arguments).subList(3, arguments.length)) {
            settings.set(setting.substring(0, setting.indexOf('=')), setting.substring(setting.indexOf('=') + 1));
        }
        UserGroupInformation.setConfiguration(settings);
        if (UserGroupInformation.isSecurityEnabled()) {
            // The cluster is a client of itself, too.
            UserGroupInformation.loginUserFromKeytab(
                    settings.get("dfs.namenode.kerberos.principal"), settings.get("dfs.namenode.keytab.file"));
        }
        MiniDFSNNTopology topology = new MiniDFSNNTopology()
                .addNameservice(new MiniDFSNNTopology.NSConf("lake")
                        .addNN(new MiniDFSNNTopology.NNConf("nn0").setIpcPort(Integer.parseInt(arguments[1])))
                        .addNN(new MiniDFSNNTopology.NNConf("nn1").setIpcPort(Integer.parseInt(arguments[2]))));
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings).nnTopology(topology).numDataNodes(2).build();
        cluster.waitActive();
        cluster.transitionToActive(0);
        say("ready");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        int active = 0;
        for (String command = commands.readLine(); command != null; command = commands.readLine()) {
            // A user and a file, after the command.
            String[] words = command.split(" ");
            switch (words.length == 3 && words[0].equals("token") ? "token" : command) {
                case "token" -> writeToken(cluster, active, words[1], Paths.get(words[2]));
                case "fail over" -> {
                    cluster.transitionToStandby(active);
                    active = 1 - active;
                    cluster.transitionToActive(active);
                    cluster.waitActive(active);
                }
                case "safe mode" -> cluster.getNameNodeRpc(active).setSafeMode(SafeModeAction.SAFEMODE_ENTER, false);
                case "leave safe mode" ->
                    cluster.getNameNodeRpc(active).setSafeMode(SafeModeAction.SAFEMODE_LEAVE, false);
                default -> throw new IllegalArgumentException(command);
            }
            say("done");
        }
        // Nothing of it is needed again.
        Runtime.getRuntime().halt(0);
    }

    /** Writes a file with a delegation token of a user for each address of the name nodes, as a job gets it. */
    private static void writeToken(MiniDFSCluster cluster, int active, String user, Path file) throws Exception {
        Token<DelegationTokenIdentifier> token = UserGroupInformation.createProxyUser(user, UserGroupInformation.getLoginUser())
                .doAs((PrivilegedExceptionAction<Token<DelegationTokenIdentifier>>) () ->
                        cluster.getNameNodeRpc(active).getDelegationToken(new Text("nobody")));
        Credentials credentials = new Credentials();
        for (String service : List.of("ha-hdfs:lake", address(cluster, 0), address(cluster, 1))) {
            Token<DelegationTokenIdentifier> copy = new Token<>(token);
            copy.setService(new Text(service));
            credentials.addToken(copy.getService(), copy);
        }
        credentials.writeTokenStorageFile(new org.apache.hadoop.fs.Path(file.toUri()), new Configuration());
    }

    private static String address(MiniDFSCluster cluster, int number) {
        return "127.0.0.1:" + cluster.getNameNodePort(number);
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private HdfsPeer() {}
}
