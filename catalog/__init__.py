"""Databases and tables by name: `client` finds them in a file system or a Hive metastore, `server` is a metastore."""
