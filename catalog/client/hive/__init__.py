"""A catalog over a Hive metastore, and the client that it speaks through."""
