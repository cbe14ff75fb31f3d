"""Iceberg's and interbed's extensions in one Spark session, in either order of their names."""

from pathlib import Path

import pytest

from interbed.spark_ext import spark_settings
from tests.support.peers.spark import SparkPeer, maven_jars

OURS = "spark.sql.extensions"
ICEBERGS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


@pytest.mark.long
@pytest.mark.parametrize("first", ["iceberg", "interbed"])
def test_each_extension_parses_its_own_statements(first: str, tmp_path: Path) -> None:
    settings = spark_settings()
    jars = [settings["spark.jars"], *map(str, maven_jars("iceberg", "iceberg-spark-1.12.0").glob("*.jar"))]
    extensions = [ICEBERGS, settings[OURS]]
    both = {
        **settings,
        "spark.jars": ",".join(jars),
        OURS: ",".join(extensions if first == "iceberg" else reversed(extensions)),
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": f"file:{tmp_path}/ice",
        "spark.sql.warehouse.dir": f"{tmp_path}/spark",
    }
    peer = SparkPeer(both)
    try:
        peer.run("CREATE TABLE ice.db.t (a INT, b INT) USING iceberg")
        peer.run("INSERT INTO ice.db.t VALUES (1, 2), (3, 4)")
        peer.run("ALTER TABLE ice.db.t ADD PARTITION FIELD bucket(2, a)")
        peer.run("ALTER TABLE ice.db.t WRITE ORDERED BY a")
        # Iceberg looks for its parser among those of the session to read the sort order.
        peer.run(
            "CALL ice.system.rewrite_data_files(table => 'db.t', strategy => 'sort', sort_order => 'zorder(a, b)', "
            "options => map('rewrite-all', 'true'))"
        )
        peer.run(f"CREATE CATALOG lake WITH ('type' = 'interbed', 'warehouse' = '{tmp_path}/lake')")
        peer.run("CREATE DATABASE lake.db")
        peer.run("CREATE TABLE lake.db.t (a INT, b INT) TBLPROPERTIES ('primary-key' = 'a')")
        peer.run("MERGE INTO lake.db.t t USING ice.db.t s ON t.a = s.a WHEN NOT MATCHED THEN INSERT *")
        # Iceberg's parser handles the tags of all tables and passes on unknown statements.
        tagging = {
            "iceberg": "ALTER TABLE lake.db.t CREATE TAG one",
            "interbed": "CALL lake.sys.create_tag('db.t', 'one')",
        }
        peer.run(tagging[first])
        peer.run("ALTER TABLE ice.db.t CREATE TAG two")
        assert peer.run("SELECT * FROM lake.db.t VERSION AS OF 'one' ORDER BY a") == [["1", "2"], ["3", "4"]]
        assert peer.run("SELECT * FROM ice.db.t VERSION AS OF 'two' ORDER BY a") == [["1", "2"], ["3", "4"]]
    finally:
        peer.close()
