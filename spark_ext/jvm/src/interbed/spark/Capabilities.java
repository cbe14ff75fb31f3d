package interbed.spark;

import java.util.Arrays;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;

/** What this version of Spark may be told of the catalog; names that an older one does not know are left out. */
final class Capabilities {
  private static final Set<String> CATALOG =
      Set.of("SUPPORT_COLUMN_DEFAULT_VALUE", "SUPPORT_TABLE_CONSTRAINT");

  static final Set<TableCatalogCapability> OF_CATALOGS =
      Arrays.stream(TableCatalogCapability.values())
          .filter(capability -> CATALOG.contains(capability.name()))
          .collect(Collectors.toUnmodifiableSet());

  private Capabilities() {}
}
