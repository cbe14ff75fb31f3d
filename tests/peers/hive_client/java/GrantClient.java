import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.HiveObjectPrivilege;
import org.apache.hadoop.hive.metastore.api.HiveObjectRef;
import org.apache.hadoop.hive.metastore.api.HiveObjectType;
import org.apache.hadoop.hive.metastore.api.PrincipalType;
import org.apache.hadoop.hive.metastore.api.PrivilegeBag;
import org.apache.hadoop.hive.metastore.api.PrivilegeGrantInfo;
import org.apache.hadoop.hive.metastore.api.Role;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;

/**
 * Hive's client as HiveServer2 uses it: makes roles and grants. Each argument after the address is one of
 *
 * <pre>
 * role NAME
 * member ROLE KIND NAME OPTION
 * grant PRIVILEGE TYPE DATABASE TABLE COLUMN PARTITION KIND NAME GRANTOR OPTION AUTHORIZER
 * </pre>
 *
 * with tabs in between, and "-" for what is absent.
 */
public final class GrantClient {
    private GrantClient() {
    }

    public static void main(String[] arguments) throws Exception {
        Configuration conf = MetastoreConf.newMetastoreConf();
        MetastoreConf.setVar(conf, MetastoreConf.ConfVars.THRIFT_URIS, arguments[0]);
        try (HiveMetaStoreClient client = new HiveMetaStoreClient(conf)) {
            for (int number = 1; number < arguments.length; number++) {
                carryOut(client, arguments[number].split("\t", -1));
            }
        }
        System.out.println("done");
    }

    private static void carryOut(HiveMetaStoreClient client, String[] words) throws Exception {
        switch (words[0]) {
            case "role":
                client.create_role(new Role(words[1], 0, "root"));
                return;
            case "member":
                client.grant_role(
                    words[1], words[3], PrincipalType.valueOf(words[2]), "root", PrincipalType.USER, words[4].equals("option"));
                return;
            default:
                List<String> values = absent(words[6]) != null ? List.of(words[6]) : null;
                HiveObjectRef on = new HiveObjectRef(
                    HiveObjectType.valueOf(words[2]), absent(words[3]), absent(words[4]), values, absent(words[5]));
                on.setCatName("hive");
                PrivilegeGrantInfo info = new PrivilegeGrantInfo(
                    words[1], 0, words[9], PrincipalType.USER, words[10].equals("option"));
                HiveObjectPrivilege privilege = new HiveObjectPrivilege(
                    on, words[8], PrincipalType.valueOf(words[7]), info, words[11]);
                client.grant_privileges(new PrivilegeBag(new ArrayList<>(List.of(privilege))));
        }
    }

    private static String absent(String word) {
        return word.equals("-") ? null : word;
    }
}
