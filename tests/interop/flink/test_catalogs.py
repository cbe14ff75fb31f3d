"""Flink's statements for catalogs, databases, tables and partitions: over interbed's metastore, in a file system."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.api import View, ViewColumn
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.storage.base.types.data_type import type_to_json
from tests.interop.flink.conftest import Server, SharedLake, read, shared_lake
from tests.support.peers.flink import Flink
from tests.support.peers.process import PeerError
from tests.support.sql_script import run_script

TABLES = """
SHOW CURRENT DATABASE;
-- db
CREATE TABLE orders (
  id BIGINT COMMENT 'the key',
  dt STRING,
  amount DECIMAL(10, 2),
  tags ARRAY<STRING>,
  PRIMARY KEY (dt, id) NOT ENFORCED
) COMMENT 'what was ordered' PARTITIONED BY (dt) WITH ('bucket' = '2', 'changelog-producer' = 'input');
CREATE TABLE orders (id INT);
-- ! already exists
CREATE TABLE IF NOT EXISTS orders (id INT);
SHOW TABLES;
-- orders
DESCRIBE orders;
-- id, BIGINT, false, PRI(dt, id), null, null, the key
-- dt, STRING, false, PRI(dt, id), null, null, null
-- amount, DECIMAL(10, 2), true, null, null, null, null
-- tags, ARRAY<STRING>, true, null, null, null, null
INSERT INTO orders VALUES (1, 'x', 1.5, ARRAY['a']), (2, 'y', 2.5, CAST(NULL AS ARRAY<STRING>));
ALTER TABLE orders ADD (note STRING COMMENT 'free text' AFTER id, urgent BOOLEAN);
ALTER TABLE orders RENAME amount TO price;
ALTER TABLE orders MODIFY price DECIMAL(12, 2);
ALTER TABLE orders MODIFY note STRING COMMENT 'what customers wrote' FIRST;
ALTER TABLE orders DROP tags;
ALTER TABLE orders DROP id;
-- ! id
ALTER TABLE orders SET ('snapshot.num-retained.min' = '7', 'write-only' = 'true');
ALTER TABLE orders RESET ('write-only');
ALTER TABLE orders SET ('bucket' = 'many');
-- ! many
ALTER TABLE orders SET ('comment' = 'what was bought');
DESCRIBE orders;
-- note, STRING, true, null, null, null, what customers wrote
-- id, BIGINT, false, PRI(dt, id), null, null, the key
-- dt, STRING, false, PRI(dt, id), null, null, null
-- price, DECIMAL(12, 2), true, null, null, null, null
-- urgent, BOOLEAN, true, null, null, null, null
INSERT INTO orders VALUES ('thanks', 3, 'x', 3.5, true);
SELECT * FROM orders ORDER BY id;
-- null, 1, x, 1.50, null
-- null, 2, y, 2.50, null
-- thanks, 3, x, 3.50, true
SHOW PARTITIONS orders;
-- dt=x
-- dt=y
ALTER TABLE orders RENAME TO bought;
SHOW TABLES;
-- bought
"""


def test_tables_are_created_and_altered(lake: SharedLake) -> None:
    lake.script(TABLES)
    table = lake.table("bought")
    assert [(f.name, type_to_json(f.type), f.description) for f in table.fields] == [
        ("note", "STRING", "what customers wrote"),
        ("id", "BIGINT NOT NULL", "the key"),
        ("dt", "STRING NOT NULL", None),
        ("price", "DECIMAL(12, 2)", None),
        ("urgent", "BOOLEAN", None),
    ]
    assert (table.primary_keys, table.partition_keys) == (["dt", "id"], ["dt"])
    assert table.schema.comment == "what was bought"
    given = {key: value for key, value in table.schema.options.items() if key != "path"}
    assert given == {"bucket": "2", "changelog-producer": "input", "snapshot.num-retained.min": "7"}
    assert read(table).comparable() == lake.flink.sql("SELECT * FROM bought").comparable()
    lake.script("DROP TABLE bought;\nDROP TABLE IF EXISTS bought;\nDROP TABLE bought;\n-- ! does not exist\n")
    assert lake.catalog.list_tables("db") == []


DATABASES = """
CREATE DATABASE other COMMENT 'for others';
CREATE DATABASE other;
-- ! already exist
CREATE DATABASE IF NOT EXISTS other;
SHOW DATABASES LIKE '%other';
-- other
USE other;
CREATE TABLE t (id INT);
USE db;
SHOW TABLES;
-- (nothing)
SHOW TABLES FROM other;
-- t
DROP DATABASE other;
-- ! not empty
DROP DATABASE other CASCADE;
DROP DATABASE other;
-- ! not exist
DROP DATABASE IF EXISTS other;
"""


def test_databases_are_created_used_and_dropped(lake: SharedLake) -> None:
    lake.script(DATABASES)
    assert "other" not in lake.catalog.list_databases()


DROPPED = """
SHOW DATABASES;
-- db
-- default
SHOW TABLES;
-- u
SELECT * FROM t;
-- ! not found
"""

PUT_BACK = """
SHOW TABLES;
-- t
-- u
SELECT * FROM t ORDER BY id;
-- 1
-- 2
SHOW TABLES FROM other;
-- v
"""


def test_flink_does_not_see_what_a_file_system_catalog_keeps(flink: Flink, tmp_path: Path) -> None:
    with (
        shared_lake(flink, {"warehouse": f"file:{tmp_path}"}) as lake,
        interbed.load_catalog(warehouse=f"file:{tmp_path}", undrop_seconds=3600) as keeping,
    ):
        lake.script("CREATE TABLE t (id INT);\nINSERT INTO t VALUES (1), (2);\nCREATE TABLE u (id INT);")
        lake.script("CREATE DATABASE other;\nCREATE TABLE other.v (id INT);")
        keeping.drop_table("db.t")
        keeping.drop_database("other", cascade=True)
        lake.script(DROPPED)
        keeping.undrop_table("db.t")
        keeping.undrop_database("other")
        lake.script(PUT_BACK)


def test_flink_describes_and_alters_tables_of_interbed(lake: SharedLake) -> None:
    fields: list[pa.Field[Any]] = [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("point", pa.struct([("x", pa.float64()), ("y", pa.list_(pa.int32()))])),
        pa.field("at", pa.timestamp("us")),
    ]
    schema = pa.schema(fields)
    table = lake.catalog.create_table("db.t", schema, primary_keys=["id"], options={"bucket": "1"}, comment="ours")
    table.upsert(pa.Table.from_pylist([{"id": 1, "name": "a", "point": {"x": 0.5, "y": [1, 2]}}], schema=schema))
    lake.script(
        """
        SHOW TABLES;
        -- t
        DESCRIBE t;
        -- id, BIGINT, false, PRI(id), null, null
        -- name, STRING, true, null, null, null
        -- point, ROW<`x` DOUBLE, `y` ARRAY<INT>>, true, null, null, null
        -- at, TIMESTAMP(6), true, null, null, null
        ALTER TABLE t ADD more INT;
        SELECT t.point.x, t.point.y[2], more FROM t;
        -- 0.5, 2, null
        """.replace("        ", "")
    )
    assert lake.table("t").field_names == ["id", "name", "point", "at", "more"]
    shown = lake.flink.sql("SHOW CREATE TABLE t").rows[0][0]
    lake.flink.sql(shown.replace("`t`", "`again`").replace("'path' =", "'unused' ="))
    # Nested fields are numbered in another order.
    again, table = lake.table("again"), lake.table("t")
    assert [(f.name, str(f.type)) for f in again.fields] == [(f.name, str(f.type)) for f in table.fields]
    assert (again.primary_keys, again.schema.comment) == (["id"], "ours")


VIEWS = """
CREATE TABLE t (id INT, name STRING);
INSERT INTO t VALUES (1, 'a'), (2, 'b');
CREATE VIEW late COMMENT 'the later ones' AS SELECT id * 10 AS ten, name FROM t WHERE id > 1;
SHOW VIEWS;
-- late
SELECT * FROM late;
-- 20, b
CREATE VIEW late AS SELECT 1 AS n;
-- ! already exists
"""


def test_views_are_in_the_metastore(hive: SharedLake) -> None:
    hive.script(VIEWS)
    assert isinstance(hive.catalog, HiveCatalog)
    view = hive.catalog.get_view("db.late")
    assert hive.catalog.list_views("db") == ["late"]
    assert (view.comment, [c.name for c in view.columns]) == ("the later ones", ["ten", "name"])
    hive.script("ALTER VIEW late RENAME TO later;\nSELECT * FROM later;\n-- 20, b\n")
    hive.script("DROP VIEW later;\nSHOW VIEWS;\n-- (nothing)\n")
    assert hive.catalog.list_views("db") == []
    columns = (ViewColumn(name="id", type="int"), ViewColumn(name="upper_name", type="string"))
    hive.catalog.create_view("db.ours", View(query="SELECT id, UPPER(name) FROM db.t", columns=columns))
    hive.script("SELECT upper_name FROM ours WHERE id = 2;\n-- B\n")


PARTITIONS = """
CREATE TABLE t (id INT, dt STRING, hh INT) PARTITIONED BY (dt, hh) WITH ('metastore.partitioned-table' = 'true');
INSERT INTO t VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b=c', 1);
ALTER TABLE t ADD PARTITION (dt = 'new', hh = 9);
ALTER TABLE t DROP PARTITION (dt = 'a', hh = 1);
SELECT id FROM t;
-- 2
-- 3
ALTER TABLE t DROP IF EXISTS PARTITION (dt = 'never', hh = 1);
"""


def test_partitions_are_registered_with_the_metastore(hive: SharedLake) -> None:
    hive.script(PARTITIONS)
    assert isinstance(hive.catalog, HiveCatalog)
    assert sorted(hive.catalog.client.get_partition_names("db", "t")) == ["dt=a/hh=2", "dt=b%3Dc/hh=1", "dt=new/hh=9"]
    schema = hive.table("t").arrow_schema
    hive.table("t").append(pa.Table.from_pylist([{"id": 4, "dt": "c", "hh": 3}], schema=schema))
    assert hive.flink.values("SHOW PARTITIONS t") == [["dt=a/hh=2"], ["dt=b=c/hh=1"], ["dt=c/hh=3"]]


SITE = """<?xml version="1.0"?>
<configuration>
  <property><name>hive.metastore.uris</name><value>{uri}</value></property>
  <property><name>hive.metastore.warehouse.dir</name><value>{warehouse}</value></property>
</configuration>
"""


DOCUMENTED = """
CREATE CATALOG my_hive WITH (
    'type' = 'paimon',
    'metastore' = 'hive',
    -- 'uri' = 'thrift://<hive-metastore-host-name>:<port>', default use 'hive.metastore.uris' in HiveConf
    'hive-conf-dir' = '{directory}'{comma}
    -- 'hadoop-conf-dir' = '...', this is recommended in the kerberos environment
    -- 'warehouse' = 'hdfs:///path/to/warehouse', default use 'hive.metastore.warehouse.dir' in HiveConf
)
"""


@pytest.mark.long
def test_a_catalog_is_found_by_hive_conf_dir(flink: Flink, server: Server, tmp_path: Path) -> None:
    warehouse = f"file:{tmp_path}/lake"
    (tmp_path / "hive-site.xml").write_text(SITE.format(uri=server.uri, warehouse=warehouse))
    options = {"metastore": "hive", "hive-conf-dir": str(tmp_path)}
    with flink.session() as session, interbed.CatalogFactory.create(options) as catalog:
        with pytest.raises(PeerError, match="parse failed"):
            session.sql(DOCUMENTED.format(directory=tmp_path, comma=","))
        session.sql(DOCUMENTED.format(directory=tmp_path, comma=""))
        session.run("USE CATALOG my_hive;\nCREATE DATABASE by_site;\nCREATE TABLE by_site.t (id INT);")
        assert catalog.get_table("by_site.t").location == f"{tmp_path}/lake/by_site.db/t"
        catalog.drop_database("by_site", cascade=True)


GENERIC = """
USE CATALOG my_catalog;
CREATE DATABASE generic;
USE generic;
CREATE TABLE word_count (word STRING PRIMARY KEY NOT ENFORCED, cnt BIGINT) WITH ('connector' = 'paimon');
CREATE TABLE numbers (n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '3');
SHOW TABLES;
-- numbers
-- word_count
INSERT INTO word_count VALUES ('a', 1), ('b', 2);
SELECT * FROM word_count;
-- a, 1
-- b, 2
SELECT COUNT(*) FROM numbers;
-- 3
"""


@pytest.mark.long
def test_the_generic_catalog_keeps_tables_of_all_kinds(flink: Flink, server: Server, tmp_path: Path) -> None:
    warehouse = f"file:{tmp_path}/lake"
    (tmp_path / "hive-site.xml").write_text(SITE.format(uri=server.uri, warehouse=warehouse))
    options = {"metastore": "hive", "hive-conf-dir": str(tmp_path)}
    settings = {"execution.runtime-mode": "batch", "table.dml-sync": "true"}
    with flink.session(settings) as session, interbed.CatalogFactory.create(options) as catalog:
        session.sql(f"CREATE CATALOG my_catalog WITH ('type' = 'paimon-generic', 'hive-conf-dir' = '{tmp_path}')")
        run_script(GENERIC, lambda sql: session.sql(sql).rows)
        assert catalog.list_tables("generic") == ["word_count"]
        assert catalog.get_table("generic.word_count").count() == 2
        session.sql("DROP TABLE numbers")
        catalog.drop_database("generic", cascade=True)


COMPUTED = """
CREATE TABLE clicks (
  id BIGINT,
  price DECIMAL(10, 2),
  double_price AS price * 2,
  at_ TIMESTAMP(3),
  WATERMARK FOR at_ AS at_ - INTERVAL '5' SECOND,
  PRIMARY KEY (id) NOT ENFORCED
);
INSERT INTO clicks VALUES (1, 1.5, TIMESTAMP '2026-01-01 00:00:00');
SELECT id, double_price FROM clicks;
-- 1, 3.00
"""


@pytest.mark.long
def test_computed_columns_and_watermarks_are_kept_in_the_options(lake: SharedLake) -> None:
    lake.script(COMPUTED)
    table = lake.table("clicks")
    assert table.field_names == ["id", "price", "at_"]
    assert table.schema.options["schema.2.expr"] == "`price` * 2"
    # Changes of the table by interbed leave these options unchanged.
    table.update_schema().add_column("more", "INT").set_option("snapshot.num-retained.min", "5").commit()
    lake.script("SELECT id, double_price, more FROM clicks;\n-- 1, 3.00, null\n")


CHANGED = """
CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, name STRING, n INT) WITH ('bucket' = '1');
INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3);
UPDATE t SET n = n + 10 WHERE id > 1;
DELETE FROM t WHERE name = 'b';
SELECT * FROM t;
-- 1, a, 1
-- 3, c, 13
CREATE TABLE copied WITH ('bucket' = '2', 'primary-key' = 'id') AS SELECT id, n FROM t;
CREATE TABLE alike LIKE t (EXCLUDING OPTIONS);
INSERT OVERWRITE alike SELECT id, name, 0 FROM t WHERE id = 1;
SELECT * FROM alike;
-- 1, a, 0
TRUNCATE TABLE alike;
SELECT COUNT(*) FROM alike;
-- 0
CALL sys.create_tag(`table` => 'db.t', tag => 'now');
-- Success
CALL sys.compact(`table` => 'db.t');
"""


@pytest.mark.long
def test_rows_are_changed_in_batch_mode(lake: SharedLake) -> None:
    lake.script(CHANGED)
    assert read(lake.table("t")).comparable() == [[1, "a", 1], [3, "c", 13]]
    assert read(lake.table("copied")).comparable() == [[1, 1], [3, 13]]
    assert lake.table("alike").primary_keys == ["id"]
    assert lake.table("alike").count() == 0
    assert [tag.name for tag in lake.table("t").versions.tags()] == ["now"]


@pytest.mark.long
def test_system_tables_show_the_commits_of_interbed(hive: SharedLake) -> None:
    fields: list[pa.Field[Any]] = [pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())]
    schema = pa.schema(fields)
    table = hive.catalog.create_table("db.t", schema, primary_keys=["id"], options={"bucket": "1"})
    table.upsert(pa.table({"id": [1, 2], "name": ["a", "b"]}, schema=schema))
    hive.script(
        """
SELECT snapshot_id, commit_kind, total_record_count FROM `t$snapshots`;
-- 1, APPEND, 2
SELECT COUNT(*) FROM `t$schemas`;
-- 1
SELECT `value` FROM `t$options` WHERE `key` = 'bucket';
-- 1
SELECT bucket, record_count, min_key, max_key FROM `t$files`;
-- 0, 2, [1], [2]
SELECT record_count FROM `t$partitions`;
-- 2
SELECT rowkind, id, name FROM `t$audit_log`;
-- +I, 1, a
-- +I, 2, b
"""
    )
