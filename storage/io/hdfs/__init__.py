"""HDFS without a JVM: `settings`, `store` (the FileIO), and `files` (files that are being written, and errors)."""
