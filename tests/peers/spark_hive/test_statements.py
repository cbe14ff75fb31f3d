"""Spark 4.1 with Hive support uses the server as a Hive Metastore, with its bundled client and with Hive 4's:
databases, tables, views, functions, statistics.
"""

from pathlib import Path

import pytest

from tests.peers.spark_hive.conftest import SparkOnMetastore
from tests.support.peers.process import PeerError

PARQUET_SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"


def test_databases_are_created_described_changed_and_dropped(spark: SparkOnMetastore, tmp_path: Path) -> None:
    spark.run("CREATE DATABASE shop COMMENT 'a shop' WITH DBPROPERTIES ('k'='v')")
    spark.run("CREATE DATABASE IF NOT EXISTS shop COMMENT 'another'")
    with pytest.raises(PeerError, match="SCHEMA_ALREADY_EXISTS"):
        spark.run("CREATE DATABASE shop")
    spark.run(f"CREATE DATABASE elsewhere LOCATION 'file:{tmp_path}/there'")
    assert spark.column("SHOW DATABASES") == ["default", "elsewhere", "shop"]
    assert spark.column("SHOW DATABASES LIKE 's*|x*'") == ["shop"]
    described = spark.described("DATABASE EXTENDED shop")
    assert described["Comment"] == "a shop"
    assert described["Location"] == f"file:{spark.metastore.warehouse}/shop.db"
    assert described["Properties"] == "((k,v))"
    spark.run("ALTER DATABASE shop SET DBPROPERTIES ('k'='w', 'l'='m')")
    assert spark.described("DATABASE EXTENDED shop")["Properties"] == "((k,w), (l,m))"
    assert spark.described("DATABASE EXTENDED elsewhere")["Location"] == f"file:{tmp_path}/there"

    spark.run("CREATE TABLE shop.t (id INT) STORED AS PARQUET")
    spark.run("CREATE VIEW shop.v AS SELECT * FROM shop.t")
    with pytest.raises(PeerError, match="SCHEMA_NOT_EMPTY"):
        spark.run("DROP DATABASE shop")
    spark.run("DROP DATABASE shop CASCADE")
    spark.run("DROP DATABASE elsewhere")
    spark.run("DROP DATABASE IF EXISTS shop")
    with pytest.raises(PeerError, match="SCHEMA_NOT_FOUND"):
        spark.run("DROP DATABASE shop")
    with pytest.raises(PeerError, match="SCHEMA_NOT_FOUND"):
        spark.run("USE shop")
    assert spark.column("SHOW DATABASES") == ["default"]
    assert not (spark.metastore.warehouse / "shop.db").exists()


def test_managed_tables_are_dropped_with_their_files_and_external_ones_without(
    spark: SparkOnMetastore, database: str, tmp_path: Path
) -> None:
    spark.run("CREATE TABLE managed (id INT, name STRING) STORED AS PARQUET")
    spark.run(f"CREATE EXTERNAL TABLE outer_one (id INT) STORED AS PARQUET LOCATION 'file:{tmp_path}/outer'")
    spark.run(f"CREATE TABLE provider_one (id INT) USING parquet LOCATION 'file:{tmp_path}/provider'")
    spark.run("INSERT INTO managed VALUES (7, 'seven'), (8, NULL)")
    spark.run("INSERT INTO outer_one VALUES (1)")
    spark.run("INSERT INTO provider_one VALUES (2)")
    assert spark.run("SELECT * FROM managed ORDER BY id") == [["7", "seven"], ["8", None]]
    with pytest.raises(PeerError, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        spark.run("CREATE TABLE MANAGED (id INT) STORED AS PARQUET")
    kinds = {name: spark.described(f"EXTENDED {name}")["Type"] for name in ("managed", "outer_one", "provider_one")}
    assert kinds == {"managed": "MANAGED", "outer_one": "EXTERNAL", "provider_one": "EXTERNAL"}
    described = spark.described("EXTENDED managed")
    assert described["Location"] == f"file:{spark.metastore.warehouse}/{database}.db/managed"
    assert described["Serde Library"] == PARQUET_SERDE
    assert described["Created By"] == f"Spark {spark.peer.version()}"
    for name in ("managed", "outer_one", "provider_one"):
        spark.run(f"DROP TABLE {name}")
    assert spark.run("SHOW TABLES") == []
    assert not (spark.metastore.warehouse / f"{database}.db" / "managed").exists()
    assert list((tmp_path / "outer").glob("*part-*"))
    assert list((tmp_path / "provider").glob("*part-*"))
    spark.run("DROP TABLE IF EXISTS managed")
    with pytest.raises(PeerError, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.run("DROP TABLE managed")
    with pytest.raises(PeerError, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.run("SELECT * FROM nowhere")


def test_tables_are_altered(spark: SparkOnMetastore, database: str, tmp_path: Path) -> None:
    spark.run("CREATE TABLE orders (id BIGINT, amount DECIMAL(10,2), tags ARRAY<STRING>) USING parquet COMMENT 'all'")
    spark.run("INSERT INTO orders VALUES (1, 1.50, array('a')), (2, 2.25, array())")
    spark.run("ALTER TABLE orders SET TBLPROPERTIES ('owner.team'='lake', 'gone'='soon')")
    spark.run("ALTER TABLE orders UNSET TBLPROPERTIES ('gone')")
    assert spark.run("SHOW TBLPROPERTIES orders ('owner.team')") == [["owner.team", "lake"]]
    assert "does not have property: gone" in str(spark.run("SHOW TBLPROPERTIES orders ('gone')"))
    spark.run("ALTER TABLE orders ADD COLUMNS (note STRING COMMENT 'said', at TIMESTAMP)")
    spark.run("ALTER TABLE orders ALTER COLUMN id COMMENT 'the key'")
    spark.run("COMMENT ON TABLE orders IS 'some'")
    assert spark.run("DESCRIBE orders") == [
        ["id", "bigint", "the key"],
        ["amount", "decimal(10,2)", None],
        ["tags", "array<string>", None],
        ["note", "string", "said"],
        ["at", "timestamp", None],
    ]
    assert spark.described("EXTENDED orders")["Comment"] == "some"
    spark.run("ALTER TABLE orders RENAME TO bills")
    assert spark.run("SELECT id, amount, note FROM bills ORDER BY id") == [["1", "1.50", None], ["2", "2.25", None]]
    assert spark.run("SHOW TABLES") == [[database, "bills", "False"]]
    assert not (spark.metastore.warehouse / f"{database}.db" / "orders").exists()
    spark.run("CREATE TABLE taken (id INT) USING parquet")
    with pytest.raises(PeerError, match=r"TABLE_OR_VIEW_ALREADY_EXISTS|already exists"):
        spark.run("ALTER TABLE bills RENAME TO taken")
    spark.run(f"ALTER TABLE taken SET LOCATION 'file:{tmp_path}/new'")
    spark.run("INSERT INTO taken VALUES (3)")
    assert spark.run("SELECT * FROM taken") == [["3"]]
    assert list((tmp_path / "new").glob("part-*"))
    spark.run("CREATE TABLE text (a STRING) ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' STORED AS TEXTFILE")
    spark.run("ALTER TABLE text SET SERDEPROPERTIES ('field.delim'='|')")
    assert "field.delim=|" in (spark.described("EXTENDED text")["Storage Properties"] or "")


@pytest.mark.long
def test_tables_are_found_by_pattern_and_shown(spark: SparkOnMetastore, database: str) -> None:
    spark.run("CREATE TABLE alpha (id INT, name STRING COMMENT 'a name') STORED AS PARQUET TBLPROPERTIES ('k'='v')")
    spark.run("CREATE TABLE Beta (Id INT, Other STRING) USING parquet CLUSTERED BY (id) INTO 4 BUCKETS")
    spark.run("CREATE VIEW gamma AS SELECT id FROM alpha")
    assert spark.column("SHOW TABLES", 1) == ["alpha", "beta", "gamma"]
    assert spark.column("SHOW TABLES LIKE 'a*|b*'", 1) == ["alpha", "beta"]
    assert spark.column("SHOW TABLES LIKE '*a'", 1) == ["alpha", "beta", "gamma"]
    assert spark.column("SHOW VIEWS", 1) == ["gamma"]
    extended = spark.run("SHOW TABLE EXTENDED LIKE 'alp*'")
    assert [row[1] for row in extended] == ["alpha"]
    assert "Provider: hive" in (extended[0][3] or "")
    shown = spark.column("SHOW CREATE TABLE alpha AS SERDE")[0] or ""
    assert "`name` STRING COMMENT 'a name'" in shown or "name STRING COMMENT 'a name'" in shown
    assert PARQUET_SERDE in shown
    assert "'k' = 'v'" in shown
    shown = spark.column("SHOW CREATE TABLE beta")[0] or ""
    assert "Id INT" in shown, "Spark keeps the case of its own tables' columns in their properties"
    assert "INTO 4 BUCKETS" in shown
    assert spark.column("SHOW COLUMNS IN BETA") == ["Id", "Other"]
    assert spark.run(f"SELECT OTHER FROM {database.upper()}.BETA") == []


@pytest.mark.long
def test_wide_tables_with_every_type_are_read_back(spark: SparkOnMetastore, database: str) -> None:
    spark.run(
        "CREATE TABLE kinds (a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(38,18), "
        "i STRING, j CHAR(3), k VARCHAR(5), l BINARY, m DATE, n TIMESTAMP, o ARRAY<MAP<STRING, INT>>, "
        "p STRUCT<x: INT, y: STRUCT<z: ARRAY<DATE>>>) STORED AS PARQUET"
    )
    spark.run(
        "INSERT INTO kinds VALUES (true, 1Y, 2S, 3, 4L, 0.5f, 0.25d, 1.5, 'é😀', 'ab', 'cd', X'00FF', "
        "date'1969-12-31', timestamp'2024-02-29 12:34:56.789', array(map('k', 1)), "
        "struct(1, struct(array(date'2024-01-01'))))"
    )
    found = spark.run("SELECT a, b, c, d, e, f, g, h, i, j, k, hex(l), m, n, o[0]['k'], p.y.z[0] FROM kinds")
    expected = "True|1|2|3|4|0.5|0.25|1.500000000000000000|é😀|ab |cd|00FF|1969-12-31|2024-02-29 12:34:56.789000|1|"
    expected += "2024-01-01"
    assert found == [expected.split("|")]
    columns = ", ".join(f"a_column_with_a_long_name_{number} STRUCT<x: INT, y: STRING>" for number in range(300))
    spark.run(f"CREATE TABLE wide ({columns}) USING parquet")
    assert len(spark.run("DESCRIBE wide")) == 300


@pytest.mark.long
def test_tables_are_created_from_queries(spark: SparkOnMetastore, database: str) -> None:
    spark.run("CREATE TABLE numbers STORED AS PARQUET AS SELECT id, id % 3 AS k FROM range(10)")
    spark.run(
        "CREATE TABLE grouped USING parquet PARTITIONED BY (k) AS SELECT k, count(*) AS n FROM numbers GROUP BY k"
    )
    assert spark.run("SELECT k, n FROM grouped ORDER BY k") == [["0", "4"], ["1", "3"], ["2", "3"]]
    assert spark.column("SHOW PARTITIONS grouped") == ["k=0", "k=1", "k=2"]
    spark.run("CREATE TABLE alike LIKE numbers")
    spark.run("INSERT INTO alike SELECT * FROM numbers WHERE k = 2")
    spark.run("INSERT INTO alike VALUES (99, 9)")
    assert spark.run("SELECT id FROM alike ORDER BY id") == [["2"], ["5"], ["8"], ["99"]]
    spark.run("INSERT OVERWRITE TABLE alike SELECT * FROM numbers WHERE id = 0")
    assert spark.run("SELECT * FROM alike") == [["0", "0"]]
    spark.run("TRUNCATE TABLE alike")
    assert spark.run("SELECT * FROM alike") == []


def test_views_are_created_changed_listed_and_dropped(spark: SparkOnMetastore, database: str) -> None:
    spark.run("CREATE TABLE numbers STORED AS PARQUET AS SELECT id FROM range(5)")
    spark.run("CREATE VIEW few (n COMMENT 'a number') COMMENT 'small ones' AS SELECT id FROM numbers WHERE id < 2")
    assert spark.run("SELECT n FROM few ORDER BY n") == [["0"], ["1"]]
    described = spark.described("EXTENDED few")
    assert described["Type"] == "VIEW"
    assert described["Comment"] == "small ones"
    assert described["View Text"] == "SELECT id FROM numbers WHERE id < 2"
    with pytest.raises(PeerError, match="ALREADY_EXISTS"):
        spark.run("CREATE VIEW few AS SELECT 1")
    spark.run("CREATE OR REPLACE VIEW few AS SELECT id AS m FROM numbers WHERE id > 3")
    assert spark.run("SELECT m FROM few") == [["4"]]
    spark.run("ALTER VIEW few AS SELECT id + 1 AS o FROM numbers WHERE id > 3")
    assert spark.run("SELECT o FROM few") == [["5"]]
    spark.run("ALTER VIEW few SET TBLPROPERTIES ('k'='v')")
    spark.run("ALTER VIEW few RENAME TO fewer")
    assert spark.run("SHOW VIEWS") == [[database, "fewer", "False"]]
    assert spark.run("SHOW VIEWS LIKE 'x*'") == []
    assert "id + 1 AS o" in (spark.column("SHOW CREATE TABLE fewer")[0] or "")
    spark.run("DROP VIEW fewer")
    assert spark.run("SHOW VIEWS") == []
    assert spark.column("SHOW TABLES", 1) == ["numbers"]


@pytest.mark.long
def test_statistics_are_gathered_and_described(spark: SparkOnMetastore, database: str) -> None:
    spark.run("CREATE TABLE measured (id INT, name STRING, at DATE) STORED AS PARQUET")
    spark.run("INSERT INTO measured VALUES (1, 'a', date'2024-01-01'), (5, 'bbb', NULL), (3, 'a', date'2024-03-01')")
    spark.run("ANALYZE TABLE measured COMPUTE STATISTICS NOSCAN")
    assert "bytes" in (spark.described("EXTENDED measured")["Statistics"] or "")
    spark.run("ANALYZE TABLE measured COMPUTE STATISTICS")
    assert (spark.described("EXTENDED measured")["Statistics"] or "").endswith("3 rows")
    spark.run("ANALYZE TABLE measured COMPUTE STATISTICS FOR ALL COLUMNS")
    numbers = spark.described("EXTENDED measured id")
    assert [numbers[key] for key in ("min", "max", "num_nulls", "distinct_count")] == ["1", "5", "0", "3"]
    texts = spark.described("EXTENDED measured name")
    assert [texts[key] for key in ("avg_col_len", "max_col_len", "distinct_count")] == ["2", "3", "2"]
    dates = spark.described("EXTENDED measured at")
    assert [dates[key] for key in ("min", "max", "num_nulls")] == ["2024-01-01", "2024-03-01", "1"]
    spark.run("CREATE TABLE parts (id INT) PARTITIONED BY (k INT) STORED AS PARQUET")
    spark.run("INSERT INTO parts VALUES (1, 1), (2, 1), (3, 2)")
    spark.run("ANALYZE TABLE parts PARTITION (k) COMPUTE STATISTICS")
    assert (spark.described("EXTENDED parts PARTITION (k=1)")["Partition Statistics"] or "").endswith("2 rows")
    spark.run("ANALYZE TABLES IN " + database + " COMPUTE STATISTICS NOSCAN")


def test_functions_are_created_used_listed_and_dropped(spark: SparkOnMetastore, database: str) -> None:
    spark.run("CREATE FUNCTION in_bits AS 'org.apache.hadoop.hive.ql.udf.UDFBin'")
    assert spark.run("SELECT in_bits(5)") == [["101"]]
    assert spark.column("SHOW USER FUNCTIONS") == [f"spark_catalog.{database}.in_bits"]
    assert spark.column("SHOW USER FUNCTIONS LIKE 'x*'") == []
    assert "Class: org.apache.hadoop.hive.ql.udf.UDFBin" in spark.column("DESCRIBE FUNCTION in_bits")
    with pytest.raises(PeerError, match=r"already exists|ALREADY_EXISTS"):
        spark.run("CREATE FUNCTION in_bits AS 'org.apache.hadoop.hive.ql.udf.UDFHex'")
    spark.run("CREATE OR REPLACE FUNCTION in_bits AS 'org.apache.hadoop.hive.ql.udf.UDFHex'")
    assert spark.run("SELECT in_bits(255)") == [["FF"]]
    spark.run("DROP FUNCTION in_bits")
    spark.run("DROP FUNCTION IF EXISTS in_bits")
    with pytest.raises(PeerError, match=r"UNRESOLVED_ROUTINE|ROUTINE_NOT_FOUND"):
        spark.run("DROP FUNCTION in_bits")
    assert spark.run("SHOW USER FUNCTIONS") == []


def test_the_server_answered_all_calls_of_spark_without_failures(spark: SparkOnMetastore) -> None:
    log = (spark.metastore.warehouse.parent / "server.log").read_text()
    assert "not served" not in log
    assert "Traceback" not in log
