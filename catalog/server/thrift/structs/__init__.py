"""Between Thrift's structures and the values of the metastore's rules."""
