package interbed.spark.planner;

import interbed.spark.thrift.CatalogRef;

/**
 * The planner's reference to a catalog. The capabilities of a catalog are interfaces that extend this one, with default methods.
 */
public interface PlannerCatalog {
  /** The catalog's name and options, which are part of every call about it. */
  CatalogRef reference();
}
