"""The Spark extension: catalogs, tables, reads and writes in Spark SQL, planned in Python and translated in the JVM.

``configure(SparkSession.builder)`` is all that a PySpark program needs. ``ingest`` writes changes from Kafka.
"""

from interbed.spark_ext.ingest_query import ingest
from interbed.spark_ext.session import SparkSetupError, configure, jar_path, spark_settings

__all__ = ["SparkSetupError", "configure", "ingest", "jar_path", "spark_settings"]
