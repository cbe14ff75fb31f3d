package interbed.spark;

import interbed.spark.thrift.CatalogRef;

/** What every part of {@link SparkCatalog} needs; a part is an interface whose methods have their bodies. */
interface CatalogPart {
  /** How the planner knows the catalog. */
  CatalogRef reference();
}
