package interbed.spark;

import interbed.spark.thrift.TableRef;
import java.util.List;

/** A table or view of a catalog of ours. */
record QualifiedName(SparkCatalog catalog, String database, String name) {
  TableRef reference() {
    return new TableRef(catalog.reference(), database, name);
  }

  List<String> parts() {
    return List.of(catalog.name(), database, name);
  }

  @Override
  public String toString() {
    return String.join(".", parts());
  }
}
