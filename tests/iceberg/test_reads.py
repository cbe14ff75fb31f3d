"""Columns, types, filters and versions of tables written by Java: interbed reads what Spark reads."""

import datetime as dt
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from interbed.iceberg.table import load_iceberg_table
from interbed.storage.base.errors import (
    BranchNotFoundError,
    FilterError,
    InvalidInputError,
    NotSupportedError,
    SnapshotNotFoundError,
    StorageAccessError,
    TagNotFoundError,
)
from tests.iceberg.java_tables import assert_alike, ordered, ours
from tests.support.peers.iceberg import IcebergPeer
from tests.support.shares import each_run

TYPES = (
    "b BOOLEAN, i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(9,2), w DECIMAL(38,10), day DATE, at TIMESTAMP, "
    "local TIMESTAMP_NTZ, s STRING, y BINARY, a ARRAY<INT>, m MAP<STRING, BIGINT>, r STRUCT<x: INT, z: ARRAY<STRING>>"
)
ROWS = [
    "(true, 1, 2, 0.5, 0.25, 1.25, 12345678901234567890.5, DATE '2024-02-29', TIMESTAMP '2024-02-29 12:00:00.123456', "
    "TIMESTAMP_NTZ '1969-12-31 23:59:59.999999', 'ä', X'00ff', array(1, NULL, 3), map('k', 1, 'l', NULL), "
    "named_struct('x', 1, 'z', array('p', NULL)))",
    "(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "(false, -1, -2, double('NaN'), double('-Infinity'), -1.25, -0.5, DATE '0001-01-01', "
    "TIMESTAMP '1900-01-01 00:00:00', TIMESTAMP_NTZ '2261-12-31 23:59:59', '', X'', "
    "array(), map(), named_struct('x', NULL, 'z', NULL))",
]


@pytest.mark.parametrize("version", each_run([1, 2, 3], lambda version: version == 2))
@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_values_of_all_types_equal_those_of_spark(peer: IcebergPeer, version: int, format: str) -> None:  # noqa: A002
    table = peer.new_table(TYPES, version, properties=f"'write.format.default'='{format}'")
    for row in ROWS:
        peer.run(f"INSERT INTO {table} VALUES {row}")
    assert len(assert_alike(peer, table)) == 3


def test_types_unknown_to_spark_are_read_as_well(peer: IcebergPeer) -> None:
    table = "ice.db.others"
    fields = [
        {"id": 1, "name": "t", "type": "time", "required": False},
        {"id": 2, "name": "u", "type": "uuid", "required": False},
        {"id": 3, "name": "x", "type": "fixed[3]", "required": False},
    ]
    peer.create(table, fields, properties={"format-version": "2"})
    number = UUID(int=7)
    peer.append(table, [[dt.time(1, 2, 3, 456), number, b"abc"], [None, None, None]])
    found = ours(peer, table).scan().to_arrow()
    assert found.schema.types == [pa.time64("us"), pa.binary(16), pa.binary(3)]
    assert found.to_pylist()[0] == {"t": dt.time(1, 2, 3, 456), "u": number.bytes, "x": b"abc"}


def test_columns_are_found_by_field_id_after_renames(peer: IcebergPeer) -> None:
    table = peer.new_table("a INT, b STRING, r STRUCT<x: INT, y: STRING>, l ARRAY<STRUCT<p: INT>>")
    peer.run(f"INSERT INTO {table} VALUES (1, 'one', named_struct('x', 1, 'y', 'y'), array(named_struct('p', 1)))")
    peer.run(f"ALTER TABLE {table} RENAME COLUMN a TO c")
    peer.run(f"ALTER TABLE {table} RENAME COLUMN b TO a")
    peer.run(f"ALTER TABLE {table} ADD COLUMN b BIGINT")
    peer.run(f"ALTER TABLE {table} RENAME COLUMN r.x TO z")
    peer.run(f"ALTER TABLE {table} ADD COLUMN r.x DOUBLE")
    peer.run(f"ALTER TABLE {table} ADD COLUMN l.element.q STRING")
    peer.run(f"ALTER TABLE {table} ALTER COLUMN l.element.p TYPE BIGINT")
    peer.run(f"ALTER TABLE {table} ALTER COLUMN c TYPE BIGINT")
    peer.run(f"ALTER TABLE {table} ALTER COLUMN b FIRST")
    peer.run(
        f"INSERT INTO {table} VALUES "
        "(9, 2, 'two', named_struct('z', 2, 'y', NULL, 'x', 0.5), array(named_struct('p', 5, 'q', 'q'), NULL))"
    )
    assert len(assert_alike(peer, table)) == 2
    (found,) = ours(peer, table).scan(columns=["r", "c"], filter="c = 1").to_arrow().to_pylist()
    assert found == {"r": {"z": 1, "y": "y", "x": None}, "c": 1}


FILTERS = [
    ("a > 15", "a > 15"),
    ("a = 7 or p = 'v'", "a = 7 OR p = 'v'"),
    ("p is null", "p IS NULL"),
    ("p in ('u', 'w') and not a < 12", "p IN ('u', 'w') AND NOT a < 12"),
    ("d >= date '2024-01-15'", "d >= DATE '2024-01-15'"),
    ("n = 3.50", "n = 3.50"),
    ("s like 'a1%'", "s LIKE 'a1%'"),
    ("f < 0.1", "f < double(0.1)"),
    ("at < timestamp '2024-01-01 05:00:00'", "at < TIMESTAMP '2024-01-01 05:00:00'"),
    ("late = 5", "late = 5"),
    ("late is null and a < 3", "late IS NULL AND a < 3"),
]


@pytest.fixture(scope="module")
def filtered(peer: IcebergPeer) -> str:
    """A table with several files, partitions of two specs, and a column that was added later."""
    columns = "a INT, p STRING, d DATE, n DECIMAL(9,2), s STRING, f FLOAT, at TIMESTAMP"
    table = peer.new_table(columns, partitioned="p, days(at)")
    for step in range(3):
        rows = ", ".join(
            f"({a}, {'NULL' if a % 4 == 3 else repr('uvw'[a % 3])}, date_add(DATE '2024-01-01', {a}), {a / 2}, 'a{a}', "
            f"float({a / 100}), TIMESTAMP '2024-01-01 00:00:00' + make_dt_interval({a % 3}, {a}))"
            for a in range(step * 10, step * 10 + 10)
        )
        peer.run(f"INSERT INTO {table} VALUES {rows}")
    peer.run(f"ALTER TABLE {table} DROP PARTITION FIELD p")
    peer.run(f"ALTER TABLE {table} ADD PARTITION FIELD truncate(2, s)")
    peer.run(f"ALTER TABLE {table} ADD COLUMN late INT")
    peer.run(f"INSERT INTO {table} SELECT a + 100, p, d, n, s, f, at, a FROM {table}")
    return table


@pytest.mark.sample(5)
@pytest.mark.parametrize(("condition", "sql"), FILTERS)
def test_filters_select_the_rows_that_spark_selects(peer: IcebergPeer, filtered: str, condition: str, sql: str) -> None:
    found = ours(peer, filtered)
    expected = ordered(peer.arrow(f"SELECT * FROM {filtered} WHERE {sql}"))
    scan = found.scan(filter=condition)
    assert ordered(scan.to_arrow()) == expected
    assert scan.count() == len(expected)
    some = found.scan(columns=["s"], filter=condition, threads=1).to_arrow()
    assert sorted(map(str, some["s"].to_pylist())) == sorted(row[4] for row in expected)


def test_filters_prune_files_and_manifests(peer: IcebergPeer, filtered: str) -> None:
    found = ours(peer, filtered)
    everything = found.explain()
    assert everything.files == everything.files_total
    assert found.explain("late = 5").files < everything.files
    assert found.explain("a > 1000").files == 0
    assert found.explain("at < timestamp '2023-01-01 00:00:00'").manifests_read == 0


def test_versions_are_named_by_snapshot_time_branch_and_tag(peer: IcebergPeer) -> None:
    table = peer.new_table("a INT")
    peer.run(f"INSERT INTO {table} VALUES (1)")
    peer.run(f"ALTER TABLE {table} CREATE TAG kept")
    peer.run(f"ALTER TABLE {table} CREATE BRANCH other")
    peer.run(f"INSERT INTO {table} VALUES (2)")
    peer.run(f"INSERT INTO {table}.branch_other VALUES (3)")
    peer.run(f"ALTER TABLE {table} ADD COLUMN b INT")
    found = ours(peer, table)
    first, second, *_ = found.snapshots()
    assert ordered(found.scan().to_arrow()) == [(1, None), (2, None)]
    assert ordered(found.scan(tag="kept").to_arrow()) == [(1,)]
    assert ordered(found.scan(branch="other").to_arrow()) == [(1, None), (3, None)]
    assert ordered(found.scan(branch="main").to_arrow()) == [(1, None), (2, None)]
    assert ordered(found.scan(snapshot_id=first.snapshot_id).to_arrow()) == [(1,)]
    when = dt.datetime.fromtimestamp(second.timestamp_ms / 1000, dt.UTC)
    assert ordered(found.scan(timestamp=when).to_arrow()) == [(1,), (2,)]
    assert ordered(found.scan(timestamp=second.timestamp_ms - 1).to_arrow()) == [(1,)]
    with pytest.raises(SnapshotNotFoundError):
        found.scan(timestamp=1)
    with pytest.raises(SnapshotNotFoundError):
        found.scan(snapshot_id=1)
    with pytest.raises(TagNotFoundError):
        found.scan(tag="other")
    with pytest.raises(BranchNotFoundError):
        found.scan(branch="kept")
    with pytest.raises(InvalidInputError, match="one of"):
        found.scan(tag="kept", branch="other")


def test_results_are_available_as_data_frames_and_in_sql(peer: IcebergPeer) -> None:
    table = peer.new_table("a INT, s STRING")
    peer.append(table, [[n, str(n)] for n in range(100)])
    peer.equality_delete(table, ["a"], [[n] for n in range(0, 100, 2)])
    found = ours(peer, table)
    assert found.to_pandas()["a"].sum() == sum(range(1, 100, 2))
    assert found.to_polars(lazy=True).filter(s="7").collect()["a"].to_list() == [7]
    connection = found.to_duckdb("t")
    assert connection.execute("SELECT sum(a), count(*) FROM t WHERE a < 50").fetchall() == [(625, 25)]
    assert found.scan(limit=3).to_arrow().num_rows == 3
    assert found.scan(limit=3).count() == 3
    assert pa.table(found).num_rows == 50


def test_files_without_field_ids_are_read_by_column_name(peer: IcebergPeer) -> None:
    table = peer.new_table("a INT, b STRING, p INT", partitioned="p")
    directory = peer.warehouse / "others"
    (directory / "p=1").mkdir(parents=True)
    pq.write_table(pa.table({"b": ["x", None], "a": pa.array([1, 2], pa.int32())}), directory / "p=1" / "f.parquet")
    source = f"`parquet`.`{directory}`"
    peer.run(f"CALL ice.system.add_files(table => '{table.removeprefix('ice.')}', source_table => '{source}')")
    peer.run(f"ALTER TABLE {table} RENAME COLUMN b TO c")
    assert assert_alike(peer, table) == [(1, "x", 1), (2, None, 1)]


def test_missing_and_unknown_names_are_reported(peer: IcebergPeer) -> None:
    table = peer.new_table("a INT, v VARIANT", version=3)
    with pytest.raises(NotSupportedError, match="variant"):
        ours(peer, table)
    plain = peer.new_table("a INT")
    found = ours(peer, plain)
    assert found.scan().to_arrow().num_rows == 0
    assert str(found.explain()) == f"{plain} has no snapshot; nothing to read"
    with pytest.raises(InvalidInputError, match="no column 'z'; it has a"):
        found.scan(columns=["z"])
    with pytest.raises(FilterError):
        found.scan(filter="z = 1")
    with pytest.raises(StorageAccessError, match="no Iceberg table"):
        load_iceberg_table(str(peer.warehouse / "nowhere"))


def test_decimals_are_exact(peer: IcebergPeer) -> None:
    table = peer.new_table("n DECIMAL(38, 18)")
    peer.run(f"INSERT INTO {table} VALUES (12345678901234567890.123456789012345678)")
    assert ours(peer, table).scan().to_arrow()["n"].to_pylist() == [Decimal("12345678901234567890.123456789012345678")]
