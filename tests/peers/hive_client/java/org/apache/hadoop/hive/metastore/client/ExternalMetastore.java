package org.apache.hadoop.hive.metastore.client;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf.ConfVars;
import org.apache.hadoop.hive.metastore.minihms.AbstractMetaStoreService;

/**
 * A metastore that runs already. Its warehouse, where the tests look for the directories of tables, is on a file system
 * that both see.
 */
final class ExternalMetastore extends AbstractMetaStoreService {
    private ExternalMetastore(Configuration configuration) {
        super(configuration);
    }

    static ExternalMetastore fromProperties() {
        Configuration configuration = MetastoreConf.newMetastoreConf();
        MetastoreConf.setVar(configuration, ConfVars.THRIFT_URIS, System.getProperty("interbed.metastore"));
        MetastoreConf.setVar(configuration, ConfVars.WAREHOUSE, System.getProperty("interbed.warehouse"));
        MetastoreConf.setVar(configuration, ConfVars.WAREHOUSE_EXTERNAL, System.getProperty("interbed.warehouse") + "_external");
        // Lists of objects come in many small answers, as in Hive's own runs of these tests.
        MetastoreConf.setLongVar(configuration, ConfVars.BATCH_RETRIEVE_MAX, 2);
        MetastoreConf.setLongVar(configuration, ConfVars.BATCH_RETRIEVE_OBJECTS_MAX, 2);
        MetastoreConf.setLongVar(configuration, ConfVars.THRIFT_CONNECTION_RETRIES, 1);
        // A client that speaks of what a test wants to be refused would hide the refusal.
        MetastoreConf.setBoolVar(configuration, ConfVars.HIVE_IN_TEST, true);
        configuration.set("fs.trash.interval", "30");
        configuration.set("fs.trash.checkpoint.interval", "30");
        return new ExternalMetastore(configuration);
    }
}
