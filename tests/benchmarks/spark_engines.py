"""Table formats in one Spark session, with the same interface: interbed, Iceberg, Delta, plain Parquet.

Each uses the usual statements of its users: interbed upserts by INSERT INTO a table with a primary key, the others by
MERGE INTO. Iceberg's tables are of format version 3 with merge-on-read and as many buckets of the key as interbed's,
Delta's have deletion vectors. All files are Parquet with zstd.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from interbed.spark_ext import spark_settings
from tests.support.peers.spark import maven_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUCKETS = 4
COLUMNS = "id BIGINT NOT NULL, amount BIGINT, price DOUBLE, code STRING, text STRING, ts TIMESTAMP_NTZ"
_MERGE = (
    "MERGE INTO {target} t USING {source} s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)


class Engine(Protocol):
    """Operations of the benchmark on a table format; `source` names a view of rows."""

    name: str

    def create(self) -> None:
        """Create the empty table."""
        ...

    def drop(self) -> None:
        """Drop the table of the benchmark."""
        ...

    def append(self, source: str) -> None:
        """Write rows into the empty table."""
        ...

    def upsert(self, source: str) -> None:
        """Write rows that replace rows with the same key."""
        ...

    def merge(self, source: str) -> None:
        """Upsert rows by MERGE INTO."""
        ...

    def delete(self, source: str) -> None:
        """Delete the rows with the keys of the view."""
        ...

    def compact(self) -> None:
        """Rewrite the table so that nothing is left to merge."""
        ...

    def frame(self) -> "DataFrame":
        """Return the table as a DataFrame."""
        ...


class _SqlEngine:
    """Operations that are the same statement for all formats."""

    name: str
    table: str

    def __init__(self, spark: "SparkSession", warehouse: Path) -> None:
        self._spark = spark
        self._warehouse = warehouse

    def drop(self) -> None:
        self._spark.sql(f"DROP TABLE {self.table}")

    def append(self, source: str) -> None:
        self._spark.sql(f"INSERT INTO {self.table} SELECT * FROM {source}")

    def upsert(self, source: str) -> None:
        self.merge(source)

    def merge(self, source: str) -> None:
        self._spark.sql(_MERGE.format(target=self.table, source=source))

    def delete(self, source: str) -> None:
        self._spark.sql(f"DELETE FROM {self.table} WHERE id IN (SELECT id FROM {source})")

    def frame(self) -> "DataFrame":
        return self._spark.table(self.table)


class InterbedEngine(_SqlEngine):
    """Tables of this project."""

    name = "interbed"
    table = "lake.b.t"

    @staticmethod
    def settings(warehouse: Path) -> dict[str, str]:
        """Return the settings of the session."""
        return {
            "spark.sql.catalog.lake": "interbed.spark.SparkCatalog",
            "spark.sql.catalog.lake.warehouse": f"file:{warehouse}/interbed",
        }

    def create(self) -> None:
        self._spark.sql("CREATE DATABASE IF NOT EXISTS lake.b")
        self._spark.sql(
            f"CREATE TABLE {self.table} ({COLUMNS}) TBLPROPERTIES "
            f"('primary-key' = 'id', 'bucket' = '{BUCKETS}', 'file.compression' = 'zstd', 'write-only' = 'true')"
        )

    def upsert(self, source: str) -> None:
        self.append(source)

    def compact(self) -> None:
        self._spark.sql("CALL lake.sys.compact('b.t')").collect()


class IcebergEngine(_SqlEngine):
    """Tables of Iceberg 1.12."""

    name = "iceberg"
    table = "ice.b.t"

    @staticmethod
    def settings(warehouse: Path) -> dict[str, str]:
        """Return the settings of the session."""
        return {
            "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice.type": "hadoop",
            "spark.sql.catalog.ice.warehouse": f"file:{warehouse}/iceberg",
        }

    def create(self) -> None:
        self._spark.sql(
            f"CREATE TABLE {self.table} ({COLUMNS}) USING iceberg PARTITIONED BY (bucket({BUCKETS}, id)) TBLPROPERTIES "
            "('format-version' = '3', 'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read', "
            "'write.merge.mode' = 'merge-on-read', 'write.parquet.compression-codec' = 'zstd')"
        )

    def compact(self) -> None:
        self._spark.sql(
            "CALL ice.system.rewrite_data_files(table => 'b.t', options => map('rewrite-all', 'true'))"
        ).collect()


class DeltaEngine(_SqlEngine):
    """Tables of Delta 4.4."""

    name = "delta"
    table = "spark_catalog.b.t"

    @staticmethod
    def settings(warehouse: Path) -> dict[str, str]:
        """Return the settings of the session."""
        return {
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.warehouse.dir": f"file:{warehouse}/delta",
            # The default suits a cluster: fifty tasks for each read of the log.
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.databricks.delta.properties.defaults.enableDeletionVectors": "true",
        }

    def create(self) -> None:
        self._spark.sql("CREATE DATABASE IF NOT EXISTS spark_catalog.b")
        self._spark.sql(f"CREATE TABLE {self.table} ({COLUMNS}) USING delta")

    def delete(self, source: str) -> None:
        # Delta supports no subquery in DELETE.
        self._spark.sql(f"MERGE INTO {self.table} t USING {source} s ON t.id = s.id WHEN MATCHED THEN DELETE")

    def compact(self) -> None:
        self._spark.sql(f"REORG TABLE {self.table} APPLY (PURGE)").collect()
        self._spark.sql(f"OPTIMIZE {self.table}").collect()


ENGINES = (InterbedEngine, IcebergEngine, DeltaEngine)


def session(warehouse: Path, memory: str = "4g") -> "SparkSession":
    """Return a session with all engines, on two threads."""
    from pyspark.sql import SparkSession

    jars = [
        *maven_jars("iceberg", "iceberg-spark-1.12.0").glob("*.jar"),
        *maven_jars("delta", "delta-spark-4.4.0").glob("*.jar"),
    ]
    # Delta's parser is the inner one, because procedures of Iceberg need Iceberg's parser on the outside.
    extensions = (
        "io.delta.sql.DeltaSparkSessionExtension",
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    )
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.session.timeZone": "UTC",
        "spark.local.dir": str(warehouse / "scratch"),
        "spark.jars": ",".join(map(str, sorted(jars))),
        "spark.sql.extensions": ",".join(extensions),
    }
    for engine in ENGINES:
        settings |= engine.settings(warehouse)
    builder = SparkSession.builder.appName("interbed bench").master("local[2]")
    for key, value in {**settings, **spark_settings(settings)}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
