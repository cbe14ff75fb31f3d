import java.util.List;
import javassist.CannotCompileException;
import javassist.ClassPool;
import javassist.CtClass;
import javassist.CtNewMethod;
import javassist.expr.ExprEditor;
import javassist.expr.FieldAccess;
import javassist.expr.MethodCall;

/**
 * Run once, when the peer is built: writes the three classes of Paimon's connector that Hive 4.0 would not run as they
 * are, to stand before the connector's jar. The connector of 1.2.0 is compiled against Hive 3.1, since when
 *
 * <ul>
 *   <li>a SerDe is given the properties of the table and of the partition in one call; overriding only the old one, it
 *       would be left without a schema;
 *   <li>two methods of StructTypeInfo return a List, no longer an ArrayList;
 *   <li>the setting METASTOREWAREHOUSE is METASTORE_WAREHOUSE.
 * </ul>
 */
public final class ConnectorBridge {
    private static final String INITIALIZE =
            "public void initialize(org.apache.hadoop.conf.Configuration conf,"
                    + " java.util.Properties table, java.util.Properties partition)"
                    + " throws org.apache.hadoop.hive.serde2.SerDeException {"
                    + " super.initialize(conf, table, partition);"
                    + " this.initialize(conf, table); }";

    private ConnectorBridge() {}

    public static void main(String[] arguments) throws Exception {
        ClassPool pool = new ClassPool(true);
        CtClass serde = pool.get("org.apache.paimon.hive.PaimonSerDe");
        serde.addMethod(CtNewMethod.make(INITIALIZE, serde));
        CtClass types = pool.get("org.apache.paimon.hive.HiveTypeUtils$HiveToPaimonTypeVisitor");
        types.instrument(
                new ExprEditor() {
                    @Override
                    public void edit(MethodCall call) throws CannotCompileException {
                        if (call.getMethodName().startsWith("getAllStructField")
                                && call.getSignature().equals("()Ljava/util/ArrayList;")) {
                            call.replace("$_ = new java.util.ArrayList($0." + call.getMethodName() + "());");
                        }
                    }
                });
        CtClass hook = pool.get("org.apache.paimon.hive.PaimonMetaHook");
        hook.instrument(
                new ExprEditor() {
                    @Override
                    public void edit(FieldAccess access) throws CannotCompileException {
                        if (access.getFieldName().equals("METASTOREWAREHOUSE")) {
                            access.replace(
                                    "$_ = org.apache.hadoop.hive.conf.HiveConf.ConfVars.METASTORE_WAREHOUSE;");
                        }
                    }
                });
        for (CtClass changed : List.of(serde, types, hook)) {
            changed.writeFile(arguments[0]);
        }
    }
}
