"""The Spark extension: catalogs, tables, reads and writes in Spark SQL; decided in Python, translated on the JVM.

``configure(SparkSession.builder)`` is all that a PySpark program needs.
"""

from interbed.spark_ext.prerequisites import SparkSetupError
from interbed.spark_ext.session import configure, jar_path, spark_settings

__all__ = ["SparkSetupError", "configure", "jar_path", "spark_settings"]
