package interbed;

import org.apache.iceberg.rest.RESTCompatibilityKitCatalogTests;

/** Tests of the compatibility kit for a catalog whose namespaces have several levels, which the kit has no setting for. */
public class NestedCatalogTests extends RESTCompatibilityKitCatalogTests {
  @Override
  protected boolean supportsNestedNamespaces() {
    return true;
  }
}
