import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSNNTopology;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.SafeModeAction;

/**
 * HDFS in one process: the nameservice `lake` with an active name node and a standby one, and two data nodes.
 *
 * <p>Arguments: its directory, and two free ports. It says `ready` when it can be used, and answers each line of its
 * stdin, a command, with `done`; it ends with its stdin.
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
            switch (command) {
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

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private HdfsPeer() {}
}
