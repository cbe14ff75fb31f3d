package interbed.spark.planner;

import interbed.spark.thrift.CatalogRef;

/**
 * A catalog as the planner knows it. The capabilities of a catalog are interfaces that extend this one, whose methods have their
 * bodies.
 */
public interface PlannerCatalog {
  /** The catalog's name and options, which every call about it carries. */
  CatalogRef reference();
}
