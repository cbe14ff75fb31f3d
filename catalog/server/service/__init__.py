"""The rules of a Hive Metastore: what may be created, altered, dropped, locked. Knows neither Thrift nor SQL."""
