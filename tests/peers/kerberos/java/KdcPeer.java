import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import org.apache.kerby.kerberos.kerb.server.KdcConfigKey;
import org.apache.kerby.kerberos.kerb.server.SimpleKdcServer;

/**
 * A KDC of one realm on 127.0.0.1: directory, port and realm are its arguments. A line `principal TAB keytab` on its
 * input adds a principal with a random key, and writes the key to a file. It ends when its input does.
 */
public final class KdcPeer {
  public static void main(String[] arguments) throws Exception {
    SimpleKdcServer kdc = new SimpleKdcServer();
    kdc.setWorkDir(new File(arguments[0]));
    kdc.setKdcHost("127.0.0.1");
    kdc.setKdcRealm(arguments[2]);
    kdc.setKdcTcpPort(Integer.parseInt(arguments[1]));
    kdc.setAllowUdp(false);
    kdc.setAllowTcp(true);
    // Tests let tickets expire.
    kdc.getKdcConfig().setLong(KdcConfigKey.MINIMUM_TICKET_LIFETIME, 1L);
    kdc.init();
    kdc.start();
    System.out.println("ready");
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      String[] fields = line.split("\t");
      if (kdc.getIdentityService().getIdentity(fields[0]) == null) {
        kdc.createPrincipal(fields[0]);
      }
      kdc.exportPrincipal(fields[0], new File(fields[1]));
      System.out.println("done");
    }
    kdc.stop();
  }
}
