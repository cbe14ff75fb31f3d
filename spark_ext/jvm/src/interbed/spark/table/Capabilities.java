package interbed.spark.table;

import java.util.Arrays;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;

/** Capabilities of catalogs and tables for this version of Spark, without names that older versions lack. */
public final class Capabilities {
  private static final Set<String> CATALOG =
      Set.of("SUPPORT_COLUMN_DEFAULT_VALUE", "SUPPORT_TABLE_CONSTRAINT");

  public static final Set<TableCatalogCapability> OF_CATALOGS =
      Arrays.stream(TableCatalogCapability.values())
          .filter(capability -> CATALOG.contains(capability.name()))
          .collect(Collectors.toUnmodifiableSet());

  /** Spark may alter the table by itself for WITH SCHEMA EVOLUTION: from 4.1 on. */
  public static final Set<TableCapability> OF_TABLES =
      Arrays.stream(TableCapability.values())
          .filter(capability -> capability.name().equals("AUTOMATIC_SCHEMA_EVOLUTION"))
          .collect(Collectors.toUnmodifiableSet());

  /** Spark fills missing columns of a write by name with their defaults: from 4.1 on, with the constraints. */
  public static final boolean FILLS_COLUMNS =
      OF_CATALOGS.stream().anyMatch(capability -> capability.name().equals("SUPPORT_TABLE_CONSTRAINT"));

  private Capabilities() {}
}
