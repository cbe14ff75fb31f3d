package org.apache.hadoop.hive.metastore.client;

import java.util.Collections;
import java.util.List;

/**
 * Stands before Hive's own class of this name on the class path: where that one starts a metastore inside the JVM,
 * this one names the server whose address is the property interbed.metastore.
 */
public final class MetaStoreFactoryForTests {
    private MetaStoreFactoryForTests() {}

    /** The parameters of the tests: the name of a metastore and the service that leads to it. */
    public static List<Object[]> getMetaStores() {
        return Collections.singletonList(new Object[] {"External", ExternalMetastore.fromProperties()});
    }
}
