"""The Thrift edge of the catalog server: bytes to calls, calls to the metastore's rules, errors to exceptions."""
