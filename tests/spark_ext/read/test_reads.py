"""SELECT: projection, filters, limits and time travel, by Python and by Spark's own reader."""

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import IllegalArgumentException

from interbed import load_catalog
from interbed.storage.table.table import Table
from tests.spark_ext.conftest import SparkLake
from tests.support.shares import LONG

pytestmark = pytest.mark.usefixtures("usual_queries")

ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "flag": True,
        "tiny": -1,
        "amount": Decimal("12345678901234567890.0123456789"),
        "ratio": 1.5,
        "name": "one",
        "raw": b"\x00\x01",
        "day": date(1969, 12, 31),
        "at": datetime(1960, 2, 29, 1, 2, 3, 456789),
        "instant": datetime(2024, 2, 29, 1, 2, 3, 456789, tzinfo=UTC),
        "clock": 86_399_999,
        "list": [1, None, 3],
        "bag": [("a", [1.5])],
        "pair": {"x": 1, "y": {"z": "deep"}},
    },
    {"id": 2, "list": [], "bag": [], "pair": {"x": None, "y": None}},
]
SCHEMA = pa.schema(
    (
        pa.field("id", pa.int32(), nullable=False),
        pa.field("flag", pa.bool_()),
        pa.field("tiny", pa.int8()),
        pa.field("amount", pa.decimal128(38, 10)),
        pa.field("ratio", pa.float32()),
        pa.field("name", pa.string()),
        pa.field("raw", pa.binary()),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us")),
        pa.field("instant", pa.timestamp("us", tz="UTC")),
        pa.field("clock", pa.time32("ms")),
        pa.field("list", pa.list_(pa.int32())),
        pa.field("bag", pa.map_(pa.string(), pa.list_(pa.float64()))),
        pa.field("pair", pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.string())]))])),
    )
)


def _table(lake: SparkLake, name: str, schema: pa.Schema, **arguments: object) -> Table:
    catalog = load_catalog(warehouse=str(lake.warehouse))
    return catalog.create_table(name, schema, **arguments)  # type: ignore[arg-type]


def _splits(plan: str) -> int:
    found = re.search(r"splits=(\d+)", plan)
    assert found is not None, plan
    return int(found[1])


@pytest.mark.parametrize("native", ["true", "false"])
def test_every_type_is_read_as_it_was_written(lake: SparkLake, native: str) -> None:
    table = _table(lake, "db.types", SCHEMA)
    table.append(pa.Table.from_pylist(ROWS, SCHEMA))
    # TIME has no counterpart in the file for Spark's reader.
    columns = [name for name in SCHEMA.names if name != "clock" or native == "false"]

    frame = lake.spark.read.option("spark.native-read", native).table(f"{lake.name}.db.types").select(*columns)
    first, second = frame.orderBy("id").collect()

    for name in columns:
        value = first[name].asDict(recursive=True) if name == "pair" else first[name]
        expected = dict(ROWS[0][name]) if name == "bag" else ROWS[0][name]
        if name == "instant":
            # PySpark shows timestamps in the time zone of the process.
            value = value.astimezone(UTC)
        assert value == expected, name
    assert second["id"] == 2
    assert [second[name] for name in columns if name not in ("id", "list", "bag", "pair")] == [None] * (
        len(columns) - 4
    )
    assert (second["list"], second["bag"]) == ([], {})


def test_time_is_read_as_milliseconds_even_if_spark_can_read_the_other_columns(lake: SparkLake) -> None:
    table = _table(lake, "db.t", SCHEMA)
    table.append(pa.Table.from_pylist(ROWS, SCHEMA))

    assert lake.tuples("SELECT clock FROM {lake}.db.t ORDER BY id") == [(86_399_999,), (None,)]


def test_updates_are_merged_in_every_projection(lake: SparkLake) -> None:
    schema = pa.schema((("id", pa.int64()), ("v", pa.string()), ("w", pa.int32())))
    table = _table(lake, "db.t", schema, primary_keys=["id"], options={"bucket": "2"})
    table.upsert(pa.table({"id": range(100), "v": ["old"] * 100, "w": range(100)}, schema=schema))
    table.upsert(pa.table({"id": range(50, 150), "v": ["new"] * 100, "w": range(100)}, schema=schema))
    table.delete("id < 10")

    assert lake.tuples("SELECT count(*), count(v), sum(id) FROM {lake}.db.t") == [(140, 140, sum(range(10, 150)))]
    assert lake.tuples("SELECT count(*) FROM {lake}.db.t WHERE v = 'old'") == [(40,)]
    assert lake.tuples("SELECT w, id FROM {lake}.db.t WHERE id = 60") == [(10, 60)]


def test_spark_reads_compacted_tables_and_python_unmerged_ones(lake: SparkLake) -> None:
    schema = pa.schema((("id", pa.int64()), ("v", pa.string())))
    table = _table(lake, "db.t", schema, primary_keys=["id"], options={"bucket": "1"})
    table.upsert(pa.table({"id": range(10), "v": ["old"] * 10}, schema=schema))
    table.upsert(pa.table({"id": range(5), "v": ["new"] * 5}, schema=schema))
    merged = lake.tuples("SELECT * FROM {lake}.db.t ORDER BY id")
    assert "native=0" in lake.plan("SELECT * FROM {lake}.db.t")

    table.compact(full=True)

    assert "native=1" in lake.plan("SELECT * FROM {lake}.db.t")
    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY id") == merged


@pytest.mark.longer
def test_filters_return_the_same_rows_with_and_without_push_down(lake: SparkLake) -> None:
    inner = pa.struct((("x", pa.int64()), ("y", pa.struct((("z", pa.string()),)))))
    columns = (("id", pa.int64()), ("s", pa.string()), ("d", pa.float64()), ("p", pa.int32()), ("o", inner))
    schema = pa.schema(columns)
    table = _table(lake, "db.t", schema, partition_keys=["p"])
    table.append(
        pa.table(
            {
                "o": [{"x": x, "y": y} for x, y in ((1, {"z": "a"}), (2, None), (None, {"z": None}))]
                + [None, {"x": 5, "y": {"z": "a%"}}, {"x": 6, "y": {"z": "b"}}],
                "id": [1, 2, 3, 4, 5, None],
                "s": ["a", "ab", None, "b%", "", "c"],
                "d": [1.0, float("nan"), -0.0, None, float("inf"), 0.0],
                "p": [1, 1, 2, 2, None, 3],
            },
            schema=schema,
        )
    )
    name = f"{lake.name}.db.t"
    copy = lake.spark.createDataFrame(lake.frame("SELECT * FROM {lake}.db.t").toArrow())
    conditions = [
        "id = 2",
        "id <> 2",
        "id IN (1, 5, NULL)",
        "id NOT IN (1, 5)",
        "NOT (id > 3)",
        "id <=> NULL",
        "s LIKE 'a%'",
        "s LIKE '%b%'",
        "s = ''",
        "s IS NULL OR id = 1",
        "d > 0.5",
        "d = double('NaN')",
        "d >= double('NaN')",
        "d < double('NaN')",
        "d <= double('NaN') AND d <> 1.0",
        "NOT (d < 0.5)",
        "d IN (0.0, double('NaN'))",
        "d NOT IN (-0.0, 1.0)",
        "d = 0.0",
        "d <= 0.0",
        "p = 1",
        "p <> 1",
        "NOT (p = 1)",
        "p IS NULL",
        "p IN (1, 3) AND id > 1",
        "p <=> 2 OR id IS NULL",
        "id + 1 = 3",
        "upper(s) = 'A'",
        "id BETWEEN 2 AND 4",
        "o.x = 1",
        "o.x <> 1",
        "o.x IN (1, 5) OR id = 3",
        "o.x <=> NULL",
        "NOT (o.x > 3)",
        "o.y.z LIKE 'a%'",
        "o.y.z IS NULL",
        "o.y IS NULL AND p = 1",
    ][:: 1 if LONG else 5]

    def selected(source: str) -> dict[str, list[str]]:
        # One job for all conditions, each with a separate scan.
        rows: dict[str, list[str]] = {condition: [] for condition in conditions}
        scans = [f"SELECT {i} AS number, * FROM {source} WHERE {c}" for i, c in enumerate(conditions)]
        for number, *values in lake.spark.sql(" UNION ALL ".join(scans)).collect():
            rows[conditions[number]].append(str(values))
        return {condition: sorted(found) for condition, found in rows.items()}

    def counted(source: str) -> list[int]:
        scans = [f"SELECT {i} AS number, count(*) FROM {source} WHERE {c}" for i, c in enumerate(conditions)]
        return [row[1] for row in sorted(lake.spark.sql(" UNION ALL ".join(scans)).collect())]

    copy.createOrReplaceTempView("copy_of_rows")
    expected = selected("copy_of_rows")
    for native in ("true", "false"):
        lake.spark.read.option("spark.native-read", native).table(name).createOrReplaceTempView("pushed_down")
        assert selected("pushed_down") == expected
        assert counted("pushed_down") == [len(rows) for rows in expected.values()]
    assert "o.y.z = 'a', o.x > 3]" in lake.plan("SELECT id FROM {lake}.db.t WHERE o.y.z = 'a' AND o.x > 3")
    lake.spark.catalog.dropTempView("copy_of_rows")
    lake.spark.catalog.dropTempView("pushed_down")


def test_partitions_and_statistics_prune_splits(lake: SparkLake) -> None:
    schema = pa.schema((("id", pa.int64()), ("p", pa.string())))
    table = _table(lake, "db.t", schema, partition_keys=["p"])
    table.append(pa.table({"id": range(300), "p": ["a", "b", "c"] * 100}, schema=schema))

    assert _splits(lake.plan("SELECT * FROM {lake}.db.t")) == 3
    assert _splits(lake.plan("SELECT * FROM {lake}.db.t WHERE p = 'a'")) == 1
    assert _splits(lake.plan("SELECT * FROM {lake}.db.t WHERE p IN ('a', 'c') AND id < 1")) == 1
    assert "Filter " not in lake.plan("SELECT * FROM {lake}.db.t WHERE p <=> 'a'").replace("RuntimeFilters", "")
    assert lake.tuples("SELECT count(*) FROM {lake}.db.t WHERE p = 'a'") == [(100,)]


def test_a_limit_reaches_the_plan_unless_a_filter_remains(lake: SparkLake) -> None:
    schema = pa.schema((("id", pa.int64()), ("p", pa.string())))
    table = _table(lake, "db.t", schema, partition_keys=["p"])
    table.append(pa.table({"id": range(300), "p": ["a", "b", "c"] * 100}, schema=schema))

    plan = lake.plan("SELECT * FROM {lake}.db.t LIMIT 5")
    assert "limit=5" in plan
    assert _splits(plan) == 1
    assert "limit=5" in lake.plan("SELECT * FROM {lake}.db.t WHERE p <=> 'b' LIMIT 5")
    assert "limit" not in lake.plan("SELECT * FROM {lake}.db.t WHERE id > 1 LIMIT 5").replace("CollectLimit", "")
    assert len(lake.sql("SELECT * FROM {lake}.db.t LIMIT 5")) == 5
    assert len(lake.sql("SELECT * FROM {lake}.db.t LIMIT 150")) == 150


def test_only_requested_columns_are_read(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (a INT, b STRING, c INT)")

    assert "columns=[c]" in lake.plan("SELECT c + 1 FROM {lake}.db.t")


def test_a_table_without_snapshots_is_empty(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (a INT)")

    assert lake.tuples("SELECT * FROM {lake}.db.t") == []
    assert lake.tuples("SELECT count(*) FROM {lake}.db.t") == [(0,)]


def test_older_snapshots_are_read_by_id_and_by_time(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (2)")
    lake.sql("ALTER TABLE {lake}.db.t ADD COLUMN later STRING")
    lake.sql("INSERT INTO {lake}.db.t VALUES (3, 'x')")
    table = load_catalog(warehouse=str(lake.warehouse)).get_table("db.t")
    second = table.snapshots()[1].time_millis / 1000

    assert lake.tuples("SELECT * FROM {lake}.db.t VERSION AS OF 1") == [(1,)]
    assert lake.tuples("SELECT id FROM {lake}.db.t VERSION AS OF 2 ORDER BY id") == [(1,), (2,)]
    assert lake.tuples(f"SELECT count(*) FROM {{lake}}.db.t TIMESTAMP AS OF {second}") == [(2,)]
    assert lake.spark.read.option("versionAsOf", 1).table(f"{lake.name}.db.t").count() == 1
    assert lake.spark.read.option("scan.snapshot-id", "2").table(f"{lake.name}.db.t").count() == 2


def test_tags_branches_and_system_tables_are_read_by_name(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT NOT NULL) TBLPROPERTIES ('primary-key'='id', 'bucket'='1')")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1)")
    table = load_catalog(warehouse=str(lake.warehouse)).get_table("db.t")
    table.versions.create_tag("start")
    table.versions.create_branch("b", "start")
    lake.sql("INSERT INTO {lake}.db.t VALUES (2)")
    lake.sql("INSERT INTO {lake}.db.`t$branch_b` VALUES (3), (4)")

    assert lake.tuples("SELECT count(*) FROM {lake}.db.t VERSION AS OF 'start'") == [(1,)]
    assert lake.tuples("SELECT id FROM {lake}.db.`t$branch_b` ORDER BY id") == [(1,), (3,), (4,)]
    assert lake.tuples("SELECT id FROM {lake}.db.t ORDER BY id") == [(1,), (2,)]
    assert lake.tuples("SELECT snapshot_id, commit_kind FROM {lake}.db.`t$snapshots` WHERE snapshot_id > 1") == [
        (2, "APPEND")
    ]
    assert lake.tuples("SELECT sum(record_count) FROM {lake}.db.`t$branch_b$files`") == [(3,)]
    assert lake.tuples("SELECT count(*) FROM {lake}.db.`t$files` VERSION AS OF 'start'") == [(1,)]
    assert lake.tuples("SELECT rowkind, id FROM {lake}.db.`t$audit_log` ORDER BY id") == [("+I", 1), ("+I", 2)]
    assert lake.tuples("SELECT key FROM {lake}.db.`t$options` WHERE value = '1'") == [("bucket",)]
    with pytest.raises(Exception, match="is read only"):
        lake.sql("INSERT INTO {lake}.db.`t$options` VALUES ('a', 'b')")
    with pytest.raises(Exception, match="there are aggregation_fields, branches"):
        lake.sql("SELECT * FROM {lake}.db.`t$nothing`")


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("VERSION AS OF 9", "9"),
        ("VERSION AS OF 'tagged'", "'tagged'"),
        ("TIMESTAMP AS OF '2001-01-01'", "No snapshot is as old"),
    ],
)
def test_a_missing_version_is_named(lake: SparkLake, clause: str, message: str) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1)")

    with pytest.raises(IllegalArgumentException, match=message):
        lake.sql(f"SELECT * FROM {{lake}}.db.t {clause}")


def test_a_corrupt_data_file_is_named_in_the_error(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1)")
    (file,) = lake.files("db.t")
    path = lake.warehouse / "db.db/t" / file
    path.write_bytes(b"not parquet" * 10)

    for native in ("true", "false"):
        with pytest.raises(Exception, match=path.name):
            lake.spark.read.option("spark.native-read", native).table(f"{lake.name}.db.t").collect()


def test_a_frame_sees_later_writes_from_spark_4_1_on(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT)")
    frame = lake.spark.table(f"{lake.name}.db.t")
    assert frame.count() == 0

    lake.sql("INSERT INTO {lake}.db.t VALUES (1)")

    # Before 4.1 Spark keeps the table and its snapshot from the creation of the frame.
    assert frame.count() == (0 if lake.spark.version.startswith("4.0") else 1)


def test_names_with_dots_quotes_and_other_scripts_are_read(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (`a.b` INT, `ключ` STRING, `it``s` INT) PARTITIONED BY (`ключ`)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 'раз/два=три', 3)")

    assert lake.tuples("SELECT `it``s`, `a.b`, `ключ` FROM {lake}.db.t WHERE `a.b` = 1 AND `ключ` LIKE 'раз%'") == [
        (3, 1, "раз/два=три")
    ]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_name_with_a_dot_is_not_a_field_path(lake: SparkLake, file_format: str) -> None:
    table = f"{{lake}}.db.dotted_{file_format}"
    properties = f"'file.format' = '{file_format}'"
    lake.sql(f"CREATE TABLE {table} (x INT, `z.z` INT, z STRUCT<z: INT>) TBLPROPERTIES ({properties})")
    lake.sql(f"INSERT INTO {table} VALUES (1, 3, named_struct('z', 9))")
    assert lake.tuples(f"SELECT x FROM {table} WHERE `z.z` = 3") == [(1,)]
    assert lake.tuples(f"SELECT x FROM {table} WHERE z.z = 9") == [(1,)]
    assert lake.tuples(f"SELECT x FROM {table} WHERE `z.z` = 9 OR z.z = 3") == []
    lake.sql(f"UPDATE {table} SET x = 7 WHERE `z.z` = 3")
    assert lake.tuples(f"SELECT x, `z.z`, z.z FROM {table}") == [(7, 3, 9)]


def test_nested_rows_are_read_in_any_number_of_batches(lake: SparkLake) -> None:
    # A file of Avro is at least one batch, and one reader reads the bucket.
    lake.sql(
        "CREATE TABLE {lake}.db.t (id INT, s STRUCT<a: INT, b: STRUCT<c: STRING>>) "
        "TBLPROPERTIES ('bucket' = '1', 'bucket-key' = 'id', 'file.format' = 'avro', 'write-only' = 'true')"
    )
    for i in range(3):
        lake.sql(f"INSERT INTO {{lake}}.db.t SELECT {i}, named_struct('a', {i}, 'b', named_struct('c', 'x{i}'))")

    rows = lake.tuples("SELECT id, s.a, s.b.c FROM {lake}.db.t ORDER BY id")
    assert rows == [(0, 0, "x0"), (1, 1, "x1"), (2, 2, "x2")]
    assert len(lake.sql("SELECT s FROM {lake}.db.t")) == 3


@pytest.mark.long
def test_nulls_and_lengths_may_change_between_batches(lake: SparkLake) -> None:
    schema = pa.schema(
        (
            ("n", pa.int64()),
            ("i", pa.int32()),
            ("small", pa.int16()),
            ("tiny", pa.int8()),
            ("x", pa.float64()),
            ("y", pa.float32()),
            ("flag", pa.bool_()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us")),
            ("s", pa.string()),
            ("b", pa.binary()),
        )
    )
    table = _table(lake, "db.t", schema)

    def row(n: int) -> dict[str, Any]:
        return {
            "n": n * 2**40,
            "i": -n * 2**20,
            "small": n * 100,
            "tiny": -n,
            "x": n / 3,
            "y": n / 4,
            "flag": n % 3 == 0,
            "day": date(1950 + n, 1, 2),
            "at": datetime(1900 + n, 3, 4, 5, 6, 7, 89),
            "s": "é" * (n * 7 % 50),
            "b": bytes(range(n)),
        }

    # A file is a batch: without nulls, with some in the second byte of a bitmap only, without values, and once more.
    full, mixed = [row(n) for n in range(20)], [row(n) for n in range(20, 40)]
    for place, name in enumerate(schema.names):
        mixed[9 + place % 8][name] = None
    rows = [*full, *mixed, *({} for _ in range(5)), *(row(n) for n in range(40, 90))]
    for begin, end in ((0, 20), (20, 40), (40, 45), (45, 95)):
        table.append(pa.Table.from_pylist(rows[begin:end], schema=schema))

    read = lake.spark.read.option("spark.native-read", "false").table(f"{lake.name}.db.t")
    found = [
        {name: bytes(v) if name == "b" and v is not None else v for name, v in r.asDict().items()}
        for r in read.collect()
    ]
    expected = pa.Table.from_pylist(rows, schema=schema).to_pylist()
    assert sorted(found, key=str) == sorted(expected, key=str)
    for name in schema.names:
        assert read.where(f"{name} IS NULL").count() == 6
    lengths = read.selectExpr("sum(length(s))", "sum(length(b))").collect()[0]
    assert tuple(lengths) == tuple(sum(len(r[name] or "") for r in expected) for name in ("s", "b"))


def test_a_top_n_query_prunes_files(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT, v BIGINT, day STRING) PARTITIONED BY (day)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 10, 'a'), (2, 11, 'a')")
    lake.sql("INSERT INTO {lake}.db.t VALUES (3, 20, 'b'), (4, NULL, 'b')")
    lake.sql("INSERT INTO {lake}.db.t VALUES (5, 30, 'c'), (6, 20, 'c')")

    query = "SELECT id FROM {lake}.db.t ORDER BY v DESC, id LIMIT 2"
    plan = lake.plan(query)
    assert "splits=2" in plan
    assert "top=2 by v" in plan
    assert lake.tuples(query) == [(5,), (3,)]
    assert lake.tuples("SELECT id FROM {lake}.db.t ORDER BY v LIMIT 2") == [(4,), (1,)]
    assert "splits=1" in lake.plan("SELECT id FROM {lake}.db.t ORDER BY day DESC LIMIT 1")
    assert lake.tuples("SELECT id FROM {lake}.db.t WHERE day <> 'c' ORDER BY v DESC LIMIT 1") == [(3,)]
    assert "top=" not in lake.plan("SELECT id FROM {lake}.db.t WHERE id < 3 ORDER BY v LIMIT 1")


@pytest.mark.long
def test_a_top_n_query_by_the_key_returns_merged_rows(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.t (id INT, v STRING) "
        "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2', 'write-only' = 'true')"
    )
    lake.sql("INSERT INTO {lake}.db.t SELECT id, 'old' FROM range(20000)")
    lake.sql("INSERT INTO {lake}.db.t SELECT id * 2, 'new' FROM range(10000)")
    lake.sql("DELETE FROM {lake}.db.t WHERE id IN (0, 2, 19999)")

    assert lake.tuples("SELECT id, v FROM {lake}.db.t ORDER BY id LIMIT 3") == [(1, "old"), (3, "old"), (4, "new")]
    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY id DESC LIMIT 2") == [(19998, "new"), (19997, "old")]
    rows = lake.tuples("SELECT id FROM {lake}.db.t ORDER BY id DESC LIMIT 2 OFFSET 1")
    assert rows == [(19997,), (19996,)]
