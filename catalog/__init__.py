"""Databases and tables by name: in a file system, or in a Hive metastore, which can be our own server."""
