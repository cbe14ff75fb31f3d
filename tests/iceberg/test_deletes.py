"""Rows deleted by Java in every way: interbed reads the rows that Spark reads."""

import math
from typing import Any

import pytest

from interbed.storage.base.errors import CorruptFileError
from tests.iceberg.java_tables import assert_alike, ordered, ours
from tests.support.peers.iceberg import IcebergPeer, append, deletion_vector, equality_delete, position_delete
from tests.support.shares import each_run


@pytest.mark.sample(1)
@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_equality_deletes_of_two_column_sets(peer: IcebergPeer, format: str) -> None:  # noqa: A002
    table = peer.new_table("a INT, b STRING, c DOUBLE")
    peer.append(table, [[1, "x", 1.0], [2, None, math.nan], [3, "z", None], [4, "y", -0.0]], format=format)
    peer.equality_delete(table, ["b"], [[None]], format=format)
    peer.equality_delete(table, ["c", "a"], [[None, 3], [9.0, 1], [0.0, 4]], format=format)
    peer.append(table, [[3, None, None]], format=format)
    peer.equality_delete(table, ["c"], [[math.nan]], format=format)
    assert len(assert_alike(peer, table)) == 3


def test_equality_deletes_of_single_partitions_and_of_all(peer: IcebergPeer) -> None:
    table = peer.new_table("a INT, p STRING")
    peer.append(table, [[1, "old"]])
    peer.run(f"ALTER TABLE {table} ADD PARTITION FIELD p")
    for p in ["u", "v", None]:
        peer.append(table, [[1, p], [2, p]])
    peer.equality_delete(table, ["a", "p"], [[1, "u"], [1, "v"], [1, "old"]], partition=["u"])
    assert len(assert_alike(peer, table)) == 6
    peer.equality_delete(table, ["a"], [[2]], partition=[None])
    assert len(assert_alike(peer, table)) == 5
    peer.equality_delete(table, ["a"], [[1]], spec_id=0)
    assert len(assert_alike(peer, table)) == 2


@pytest.mark.long
def test_equality_deletes_of_a_nested_field(peer: IcebergPeer) -> None:
    table = peer.new_table("a INT, s STRUCT<x: INT, y: STRING>")
    rows: list[list[Any]] = [[1, {"x": 1, "y": "a"}], [2, {"x": None, "y": "b"}], [3, None], [4, {"x": 1, "y": None}]]
    peer.append(table, rows)
    peer.equality_delete(table, ["s.x"], [{"s": {"x": None}}])
    assert [row[0] for row in assert_alike(peer, table)] == [1, 3, 4]
    peer.equality_delete(table, ["s.x"], [{"s": {"x": 1}}])
    assert [row[0] for row in assert_alike(peer, table)] == [3]


# Equality deletes are tested with each file format in each run.
@pytest.mark.parametrize("format", each_run(["parquet", "orc", "avro"], lambda name: name == "parquet"))
def test_position_deletes_of_two_data_files(peer: IcebergPeer, format: str) -> None:  # noqa: A002
    table = peer.new_table("a INT")
    paths = [peer.append(table, [[n], [n + 1], [n + 2]], format=format) for n in (10, 20)]
    peer.position_delete(table, [(paths[0], 0), (paths[1], 0), (paths[1], 2)], format=format)
    assert assert_alike(peer, table) == [(11,), (12,), (21,)]
    # One position is listed twice, and one is beyond the end of the file.
    peer.position_delete(table, [(paths[0], 0), (paths[0], 1), (paths[0], 99)], format=format)
    assert assert_alike(peer, table) == [(12,), (21,)]


def test_deletion_vectors_replace_position_deletes_and_combine_with_equality_deletes(peer: IcebergPeer) -> None:
    table = peer.new_table("a INT, b STRING")
    paths = [peer.append(table, [[n + i, str(i)] for i in range(4)]) for n in (10, 20)]
    peer.position_delete(table, [(paths[0], 0), (paths[1], 3)])
    peer.run(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")
    peer.deletion_vector(table, [(paths[0], 1)])
    assert len(assert_alike(peer, table)) == 5
    peer.deletion_vector(table, [(paths[0], 2), (paths[1], 0)])
    peer.equality_delete(table, ["b"], [["1"]])
    assert len(assert_alike(peer, table)) == 2
    peer.deletion_vector(table, [(paths[0], 3), (paths[1], 2)])
    assert assert_alike(peer, table) == []


@pytest.mark.parametrize("version", [2, 3])
def test_an_upsert_in_one_commit_keeps_its_new_row(peer: IcebergPeer, version: int) -> None:
    table = peer.new_table("id INT, v STRING", version)
    for step in range(4):
        rows = [[key, f"{step}-{key}"] for key in range(step, step + 3)]
        keys = [[key] for key in range(step, step + 3)]
        twice = [append([[step, "lost"], *rows]), equality_delete(["id"], keys)]
        first = [(0, 0)]
        peer.together(table, [*twice, deletion_vector(first) if version == 3 else position_delete(first)])
        assert len(assert_alike(peer, table)) == step + 3


@pytest.mark.long
def test_deletes_apply_after_their_columns_have_changed(peer: IcebergPeer) -> None:
    table = peer.new_table("a INT, b STRING, c FLOAT")
    peer.append(table, [[1, "x", 0.5], [2, "y", 1.5], [3, "z", 2.5], [4, None, 3.5]])
    peer.equality_delete(table, ["a", "b"], [[1, "x"]])
    peer.run(f"ALTER TABLE {table} ALTER COLUMN a TYPE BIGINT")
    peer.run(f"ALTER TABLE {table} RENAME COLUMN b TO text")
    peer.append(table, [[1, "x", 0.5], [2**40, "y", 1.5]])
    assert len(assert_alike(peer, table)) == 5
    peer.equality_delete(table, ["a", "text"], [[2, "y"], [2**40, "y"]])
    peer.run(f"ALTER TABLE {table} ALTER COLUMN c TYPE DOUBLE")
    peer.equality_delete(table, ["c"], [[2.5]])
    assert len(assert_alike(peer, table)) == 2
    peer.run(f"ALTER TABLE {table} DROP COLUMN a")
    # Not `a` again: Iceberg's Java reader supports no two columns of one name of which deletes use one.
    peer.run(f"ALTER TABLE {table} ADD COLUMN d BIGINT")
    peer.append(table, [["w", 0.5, 4]])
    assert len(assert_alike(peer, table)) == 3


def test_a_column_that_files_lack_is_deleted_by_its_default(peer: IcebergPeer) -> None:
    table = peer.new_table("a INT", version=3)
    peer.append(table, [[1], [2]])
    peer.add_column(table, "b", "int", 7)
    peer.append(table, [[3, 7], [4, 8]])
    assert assert_alike(peer, table) == [(1, 7), (2, 7), (3, 7), (4, 8)]
    peer.equality_delete(table, ["b"], [[7]])
    assert assert_alike(peer, table) == [(4, 8)]


def test_each_delete_file_is_read_once_and_shown_in_the_plan(peer: IcebergPeer) -> None:
    table = peer.new_table("id INT, v STRING")
    for step in range(6):
        rows, keys = [[key, str(step)] for key in range(10)], [[key] for key in range(10)]
        peer.together(table, [append(rows), equality_delete(["id"], keys)])
    found = ours(peer, table)
    explained = found.explain()
    # The deletes of the first commit are older than all rows.
    assert (explained.files, explained.delete_file_reads) == (6, 5)
    assert "without what 5 equality delete files delete" in str(explained)
    assert len(explained.to_json()["tasks"]) == 1
    assert ordered(found.scan().to_arrow()) == [(key, "5") for key in range(10)]


def test_position_deletes_that_cross_partitions_are_refused(peer: IcebergPeer) -> None:
    table = peer.new_table("a INT, p STRING", partitioned="p")
    path = peer.append(table, [[1, "u"]])
    peer.append(table, [[1, "v"]])
    peer.position_delete(table, [(path, 0)], partition=["v"])
    with pytest.raises(CorruptFileError, match="another partition"):
        ours(peer, table).scan().to_arrow()
