package org.apache.paimon.rest;

import java.util.List;
import java.util.Map;
import org.apache.paimon.Snapshot;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.Transform;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.opentest4j.TestAbortedException;

/**
 * Paimon's tests of REST catalogs on the server at the address {@code interbed.uri}.
 *
 * <p>Tests that change the state of the mock server directly, rather than by requests, are aborted.
 */
public class InterbedRestCatalogTest extends RESTCatalogTest {

    @BeforeEach
    @Override
    public void setUp() throws Exception {
        super.setUp();
        options = options(System.getProperty("interbed.warehouse"));
        restCatalog = new RESTCatalog(CatalogContext.create(options));
        catalog = restCatalog;
    }

    /** Drops what the server does not drop with its database, since a client sees only the tables of one. */
    @AfterEach
    public void dropViewsAndFunctions() throws Exception {
        for (String database : restCatalog.listDatabases()) {
            for (String view : restCatalog.listViews(database)) {
                restCatalog.dropView(Identifier.create(database, view), true);
            }
            for (String function : restCatalog.listFunctions(database)) {
                restCatalog.dropFunction(Identifier.create(database, function), true);
            }
        }
    }

    private static Options options(String warehouse) {
        Options given = new Options();
        given.set("uri", System.getProperty("interbed.uri"));
        given.set("warehouse", warehouse);
        given.set("token.provider", "bear");
        given.set("token", "none");
        return given;
    }

    private static TestAbortedException mockOnly(String what) {
        return new TestAbortedException("only the mock server has " + what);
    }

    @Override
    protected Catalog newRestCatalogWithDataToken() {
        throw mockOnly("data tokens");
    }

    @Override
    protected Catalog newRestCatalogWithDataToken(Map<String, String> extraOptions) {
        throw mockOnly("data tokens");
    }

    @Override
    protected void revokeTablePermission(Identifier identifier) {
        throw mockOnly("rights");
    }

    @Override
    protected void authTableColumns(Identifier identifier, List<String> columns) {
        throw mockOnly("rights");
    }

    @Override
    protected void revokeDatabasePermission(String database) {
        throw mockOnly("rights");
    }

    @Override
    protected RESTToken getDataTokenFromRestServer(Identifier identifier) {
        throw mockOnly("data tokens");
    }

    @Override
    protected void setDataTokenToRestServerForMock(Identifier identifier, RESTToken expiredDataToken) {
        throw mockOnly("data tokens");
    }

    @Override
    protected void resetDataTokenOnRestServer(Identifier identifier) {
        throw mockOnly("data tokens");
    }

    @Override
    protected void updateSnapshotOnRestServer(
            Identifier identifier,
            Snapshot snapshot,
            long recordCount,
            long fileSizeInBytes,
            long fileCount,
            long lastFileCreationTime) {
        throw mockOnly("snapshots without files");
    }

    @Override
    protected void setColumnMasking(Identifier identifier, Map<String, Transform> columnMasking) {
        throw mockOnly("column masks");
    }

    @Override
    protected void setRowFilter(Identifier identifier, List<Predicate> rowFilter) {
        throw mockOnly("row filters");
    }
}
