"""The peer that writes Iceberg tables for tests of readers: effects of its commands, as Spark reads them."""

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from tests.support.peers.iceberg import (
    IcebergPeer,
    TableFile,
    append,
    deletion_vector,
    equality_delete,
    flink_session,
    position_delete,
)
from tests.support.peers.process import PeerError

# The tests of readers use the whole peer in each run.
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergPeer]:
    """Session that all tests share."""
    with IcebergPeer(tmp_path_factory.mktemp("warehouse")) as running:
        yield running


def values(answer: pa.Table) -> list[list[Any]]:
    """Return the rows of an answer, sorted."""
    return sorted(([*row.values()] for row in answer.to_pylist()), key=repr)


def deletes(peer: IcebergPeer, table: str) -> list[TableFile]:
    """Return the delete files of the current snapshot, oldest first."""
    files = [file for file in peer.files(table) if file.content != "data"]
    return sorted(files, key=lambda file: file.sequence_number)


def test_equality_deletes_delete_only_older_rows_and_null_equals_null(peer: IcebergPeer) -> None:
    table = peer.new_table("a INT, b STRING, c DOUBLE")
    peer.append(table, [[1, "x", 1.0], [2, None, math.nan], [3, "z", None]])
    peer.equality_delete(table, ["b"], [[None]])
    peer.equality_delete(table, ["c", "a"], [[None, 3], [9.0, 1]], format="avro")
    peer.append(table, [[3, None, None]], format="orc")
    assert values(peer.rows(table)) == [[1, "x", 1.0], [3, None, None]]
    assert sorted(peer.records(table)) == [[1, "x", 1.0], [3, None, None]]
    described = [(f.content, f.format, f.equality_ids, f.sequence_number) for f in deletes(peer, table)]
    assert described == [("equality_deletes", "parquet", [2], 2), ("equality_deletes", "avro", [3, 1], 3)]


def test_an_equality_delete_applies_to_its_partition_or_globally_when_unpartitioned(peer: IcebergPeer) -> None:
    table = peer.new_table("a INT, p STRING")
    peer.append(table, [[1, "old"]])
    peer.run(f"ALTER TABLE {table} ADD PARTITION FIELD p")
    peer.run(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(4, a)")
    for p in ["u", "v"]:
        peer.append(table, [[1, p]])
        peer.append(table, [[2, p]])
    peer.equality_delete(table, ["a", "p"], [[1, "u"], [1, "v"], [1, "old"]], partition=["u", 0])
    assert values(peer.rows(table)) == [[1, "old"], [1, "v"], [2, "u"], [2, "v"]]
    peer.equality_delete(table, ["a"], [[1]], spec_id=0)
    assert values(peer.rows(table)) == [[2, "u"], [2, "v"]]
    assert [f.partition for f in deletes(peer, table)] == [{"p": "u", "a_bucket_4": 0}, {}]
    with pytest.raises(PeerError, match="rows of one partition"):
        peer.append(table, [[1, "u"], [1, "v"]])


def test_one_file_deletes_positions_of_two_data_files(peer: IcebergPeer) -> None:
    table = peer.new_table("a INT")
    paths = [peer.append(table, [[n], [n + 1], [n + 2]]) for n in (10, 20)]
    snapshot = peer.together(table, [position_delete([(paths[1], 2), (paths[0], 0), (paths[1], 0)])])
    assert values(peer.rows(table)) == [[11], [12], [21]]
    assert values(peer.rows(table, "a + 1 AS b")) == [[12], [13], [22]]
    (file,) = deletes(peer, table)
    assert (file.content, file.record_count, file.path) == ("position_deletes", 3, snapshot.paths[0][0])
    peer.run(f"ALTER TABLE {table} CREATE TAG kept AS OF VERSION {snapshot.snapshot_id}")
    peer.position_delete(table, [(paths[0], 1)])
    assert values(peer.rows(table)) == [[12], [21]]
    for before in (peer.rows(table, ref="kept"), peer.rows(table, snapshot_id=snapshot.snapshot_id)):
        assert values(before) == [[11], [12], [21]]


def test_a_deletion_vector_includes_earlier_deletes_also_of_version_2_files(peer: IcebergPeer) -> None:
    table = peer.new_table("a INT")
    paths = [peer.append(table, [[n], [n + 1], [n + 2]]) for n in (10, 20)]
    peer.position_delete(table, [(paths[0], 0)])
    peer.run(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")
    with pytest.raises(PeerError, match="DVs"):
        peer.position_delete(table, [(paths[0], 1)])
    puffin = peer.deletion_vector(table, [(paths[0], 1), (paths[1], 0)])
    assert values(peer.rows(table)) == [[12], [21], [22]]
    vectors = {f.referenced_data_file: f for f in deletes(peer, table)}
    assert {path: (f.path, f.format, f.record_count) for path, f in vectors.items()} == {
        paths[0]: (puffin, "puffin", 2),
        paths[1]: (puffin, "puffin", 1),
    }
    again = peer.deletion_vector(table, [(paths[1], 2)])
    assert values(peer.rows(table)) == [[12], [21]]
    assert [(f.path, f.record_count) for f in deletes(peer, table)] == [(puffin, 2), (again, 2)]


@pytest.mark.parametrize("version", [2, 3])
def test_an_upsert_in_one_commit_keeps_its_new_row(peer: IcebergPeer, version: int) -> None:
    table = peer.new_table("id INT, v STRING", version)
    peer.append(table, [[1, "old"], [2, "old"]])
    # Flink deletes a key by equality, and by position the earlier rows of the same commit.
    within = deletion_vector([(0, 0)]) if version == 3 else position_delete([(0, 0)])
    told = peer.together(table, [append([[1, "lost"], [1, "new"]]), equality_delete(["id"], [[1]]), within])
    assert (told.operation, told.sequence_number) == ("overwrite", 2)
    assert values(peer.rows(table)) == [[1, "new"], [2, "old"]]


def test_flinks_upserts_write_equality_deletes_and_within_a_checkpoint_position_deletes(
    peer: IcebergPeer, tmp_path: Path
) -> None:
    columns = "id INT, v STRING, PRIMARY KEY (id) NOT ENFORCED"
    changes = [
        *(("+I", [1, "a"]), ("+I", [2, "b"]), ("+U", [1, "c"])),
        *(("-D", [2, "b"]), ("+I", [3, "x"]), ("+U", [3, "y"])),
        ("+U", [3, "z"]),
    ]
    peer.run("CREATE NAMESPACE IF NOT EXISTS ice.flink")
    with flink_session(peer.warehouse) as flink:
        flink.sql(
            f"CREATE TABLE ice.flink.t ({columns}) WITH ('format-version' = '2', 'write.upsert.enabled' = 'true')"
        )
        flink.changes("changes", columns, changes, tmp_path, kinds="upsert", rows_per_checkpoint=3)
        flink.submit("INSERT INTO ice.flink.t SELECT * FROM changes").wait()
    assert values(peer.rows("ice.flink.t")) == [[1, "c"], [3, "z"]]
    assert {file.content for file in peer.files("ice.flink.t")} == {"data", "position_deletes", "equality_deletes"}


def test_an_equality_delete_applies_after_evolution_of_its_columns(peer: IcebergPeer) -> None:
    table = peer.new_table("id INT, v STRING")
    peer.append(table, [[1, "one"], [2, "two"]])
    peer.equality_delete(table, ["id"], [[1]])
    peer.run(f"ALTER TABLE {table} ALTER COLUMN id TYPE BIGINT")
    peer.run(f"ALTER TABLE {table} RENAME COLUMN id TO number")
    peer.append(table, [[1, "again"], [2**40, "far"]])
    peer.equality_delete(table, ["number"], [[2**40], [2]])
    assert values(peer.rows(table)) == [[1, "again"]]
    peer.run(f"ALTER TABLE {table} DROP COLUMN number")
    assert values(peer.rows(table)) == [["again"]]


ALL = {
    "boolean": True,
    "int": -(2**31),
    "long": 2**62,
    "float": math.inf,
    "double": math.nan,
    "decimal(9, 2)": Decimal("-1.50"),
    "date": date(1969, 12, 31),
    "time": time(12, 0, 0, 1),
    "timestamp": datetime(1900, 1, 1, 0, 0, 0, 1),
    "timestamptz": datetime(2024, 2, 29, 12, tzinfo=UTC),
    "string": "ä",
    "binary": b"\x00\xff",
    "fixed[2]": b"ab",
    "uuid": UUID(int=1),
}


def test_values_of_all_types_are_read_back_unchanged(peer: IcebergPeer) -> None:
    fields: list[dict[str, Any]] = [
        {"id": n, "name": f"c{n}", "type": of, "required": False} for n, of in enumerate(ALL, 1)
    ]
    shapes: list[tuple[Any, Any]] = [
        ({"type": "list", "element-id": 50, "element": "long", "element-required": False}, [1, None]),
        (
            {"type": "map", "key-id": 51, "key": "date", "value-id": 52, "value": "double", "value-required": True},
            [[date(2000, 1, 1), 0.5]],
        ),
        (
            {"type": "struct", "fields": [{"id": 53, "name": "x", "type": "int", "required": True}]},
            {"x": 7},
        ),
    ]
    fields += [{"id": 30 + n, "name": f"n{n}", "type": shape, "required": False} for n, (shape, _) in enumerate(shapes)]
    peer.create("ice.db.all_types", fields, properties={"format-version": "2"})
    given = [*ALL.values(), *(value for _, value in shapes)]
    for format in ("parquet", "orc", "avro"):  # noqa: A001 - the name of the field
        peer.append("ice.db.all_types", [given, [None] * len(given)], format=format)
    rows = [row for row in peer.records("ice.db.all_types") if row[0] is not None]
    expected = [
        *(True, -(2**31), 2**62, math.inf, math.nan, "-1.50", "1969-12-31", "12:00:00.000001"),
        *("1900-01-01T00:00:00.000001", "2024-02-29T12:00Z", "ä", "00ff", "6162"),
        *("00000000-0000-0000-0000-000000000001", [1, None], [["2000-01-01", 0.5]], [7]),
    ]
    assert [repr(row) for row in rows] == [repr(expected)] * 3


def test_equality_has_one_nan_two_zeros_and_null_for_a_missing_column(peer: IcebergPeer) -> None:
    table = peer.new_table("a DOUBLE")
    peer.append(table, [[0.0], [-0.0], [math.nan], [1.0]])
    peer.run(f"ALTER TABLE {table} ADD COLUMN b INT")
    peer.append(table, [[2.0, None], [3.0, 3]])
    peer.equality_delete(table, ["a"], [[0.0], [math.nan]])
    assert repr(values(peer.rows(table, "a"))) == "[[-0.0], [1.0], [2.0], [3.0]]"
    peer.equality_delete(table, ["b"], [[None]])
    assert values(peer.rows(table)) == [[3.0, 3]]


def test_a_delete_within_a_struct_distinguishes_a_null_struct_from_a_null_field(peer: IcebergPeer) -> None:
    table = peer.new_table("a INT, s STRUCT<x: INT, y: STRING>")
    peer.append(table, [[1, [None, "k"]], [2, None]])
    peer.equality_delete(table, ["s.x"], [{"s": {"x": None}}])
    assert values(peer.rows(table)) == [[2, None]]
    peer.equality_delete(table, ["s.x"], [{"s": None}])
    assert values(peer.rows(table)) == []


def test_old_rows_have_the_default_of_a_column_added_later(peer: IcebergPeer) -> None:
    table = peer.new_table("a INT", version=3)
    peer.append(table, [[1]])
    peer.add_column(table, "b", "long", 5)
    peer.append(table, [[2, None]])
    assert values(peer.rows(table, "a, b, _row_id")) == [[1, 5, 0], [2, None, 1]]


def test_a_branch_has_commits_of_its_own(peer: IcebergPeer) -> None:
    table = peer.new_table("a INT")
    peer.append(table, [[1], [2]])
    peer.run(f"ALTER TABLE {table} CREATE BRANCH side")
    peer.together(table, [append([[3]]), equality_delete(["a"], [[1]])], branch="side")
    assert values(peer.rows(table, ref="side")) == [[2], [3]]
    assert values(peer.rows(table)) == [[1], [2]]


def test_statements_return_values_that_json_supports(peer: IcebergPeer) -> None:
    answer = peer.run(
        "SELECT DATE '2024-01-02', 1.50BD, X'00FF', MAP('k', ARRAY(1)), STRUCT(TIMESTAMP_NTZ '2024-01-02 03:04:05')"
    )
    assert answer == [["2024-01-02", "1.50", "00ff", [["k", [1]]], ["2024-01-02T03:04:05"]]]
