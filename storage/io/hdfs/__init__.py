"""HDFS without a JVM: `settings`, `store` (the FileIO), `files` (written ones) and `errors`."""
