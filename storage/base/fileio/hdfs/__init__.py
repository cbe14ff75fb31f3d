"""HDFS without a JVM: settings, files, errors, and the FileIO of it."""
