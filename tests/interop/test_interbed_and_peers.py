"""Overwrites, deletions, evolved schemas, many files and many manifests: written by interbed and read by peers, and
back.
"""

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.interop.limits import PEERS, Peer
from tests.support.peers.interbed import InterbedTable, interbed_table
from tests.support.peers.java import JavaPaimon, JavaTable
from tests.support.peers.pypaimon import PyPaimon, PyPaimonTable

PARTITIONED: list[tuple[str, Any]] = [("id", "INT NOT NULL"), ("dt", "STRING NOT NULL"), ("v", "BIGINT")]


class SharedTable:
    """One table, opened by interbed and by every peer."""

    def __init__(self, java: JavaPaimon, python: PyPaimon, warehouse: Path) -> None:
        self.interbed: InterbedTable = interbed_table(warehouse, "db.t")
        self.java: JavaTable = java.table(warehouse, "db.t")
        self.others: dict[Peer, JavaTable | PyPaimonTable] = {
            "java": self.java,
            "python": python.table(warehouse, "db.t", "python"),
            "rust": python.table(warehouse, "db.t", "rust"),
        }

    def assert_all_read(self, rows: list[list[Any]]) -> None:
        """Assert that every reader, interbed included, finds these rows, in the order of their JSON."""
        for name, table in {"interbed": self.interbed, **self.others}.items():
            assert table.read().comparable() == sorted(rows, key=str), name


@pytest.fixture
def shared(java_paimon: JavaPaimon, pypaimon: PyPaimon, tmp_path: Path) -> SharedTable:
    return SharedTable(java_paimon, pypaimon, tmp_path)


def arrow(rows: list[list[Any]]) -> pa.Table:
    columns: list[tuple[str, pa.DataType]] = [("id", pa.int32()), ("dt", pa.string()), ("v", pa.int64())]
    schema = pa.schema(columns)
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "append"])
@pytest.mark.parametrize("creator", ["interbed", "java"])
def test_all_peers_read_overwritten_partitions(shared: SharedTable, creator: str, keyed: bool) -> None:
    options = {"bucket": "2", "write-only": "true"} if keyed else {}
    table: Any = shared.interbed if creator == "interbed" else shared.java
    table.create(PARTITIONED, primary_keys=["dt", "id"] if keyed else [], partition_keys=["dt"], options=options)
    shared.interbed.write([[1, "a", 1], [2, "a", 2], [1, "b", 3], [1, "c", 4]])
    shared.interbed.load().overwrite(arrow([[3, "a", 5]]))
    shared.assert_all_read([[1, "b", 3], [1, "c", 4], [3, "a", 5]])
    shared.interbed.load().overwrite(arrow([[9, "b", 6]]), partitions={"dt": "b"})
    shared.assert_all_read([[1, "c", 4], [3, "a", 5], [9, "b", 6]])
    shared.java.write([[7, "c", 7]], overwrite={})
    shared.assert_all_read([[3, "a", 5], [7, "c", 7], [9, "b", 6]])
    shared.others["rust"].write([[8, "a", 8]], overwrite={})
    shared.assert_all_read([[7, "c", 7], [8, "a", 8], [9, "b", 6]])
    shared.interbed.load().overwrite(arrow([[0, "z", 0]]), partitions={})
    shared.assert_all_read([[0, "z", 0]])


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "append"])
def test_no_peer_reads_rows_deleted_by_a_filter(shared: SharedTable, keyed: bool) -> None:
    options = {"bucket": "2", "write-only": "true"} if keyed else {}
    shared.interbed.create(
        PARTITIONED, primary_keys=["dt", "id"] if keyed else [], partition_keys=["dt"], options=options
    )
    shared.java.write([[i, "ab"[i % 2], i * 10] for i in range(10)])
    shared.interbed.load().delete("id < 3 or v = 70")
    left = [[i, "ab"[i % 2], i * 10] for i in range(10) if i >= 3 and i != 7]
    shared.assert_all_read(left)
    shared.interbed.compact()
    shared.assert_all_read(left)


def test_all_peers_continue_after_schema_changes_by_java(shared: SharedTable) -> None:
    shared.interbed.create(
        [("id", "INT NOT NULL"), ("n", "INT"), ("name", "STRING"), ("old", "STRING")],
        primary_keys=["id"],
        options={"bucket": "1", "write-only": "true"},
    )
    shared.interbed.write([[1, 10, "one", "x"], [2, 20, "two", "y"]])
    shared.java.alter(
        {"op": "update_type", "path": ["n"], "type": "BIGINT"},
        {"op": "rename", "path": ["name"], "to": "title"},
        {"op": "drop", "path": ["old"]},
        {"op": "add", "path": ["extra"], "type": "DATE", "first": True},
    )
    shared.assert_all_read([[None, 1, 10, "one"], [None, 2, 20, "two"]])
    shared.interbed.write([[19782, 2, 2**40, "zwei"]])
    shared.java.write([[None, 3, 3, "three"]])
    rows: list[list[Any]] = [[19782, 2, 2**40, "zwei"], [None, 1, 10, "one"], [None, 3, 3, "three"]]
    shared.assert_all_read(rows)
    shared.interbed.compact()
    shared.assert_all_read(rows)


@pytest.mark.parametrize("compactor", ["interbed", "java"])
def test_all_peers_read_rolled_files_and_merged_manifests(shared: SharedTable, compactor: str) -> None:
    shared.interbed.create(
        [("id", "INT NOT NULL"), ("v", "STRING")],
        primary_keys=["id"],
        options={
            "bucket": "1",
            "write-only": "true",
            "target-file-size": "64 kb",
            "manifest.merge-min-count": "2",
            "manifest.target-file-size": "4 kb",
        },
    )
    # Digests keep the files large despite encoding and compression.
    values = [hashlib.sha256(str(i).encode()).hexdigest() for i in range(6000)]
    for start in range(0, 6000, 500):
        shared.interbed.write([[i, values[i]] for i in range(start, start + 500)])
    shared.interbed.write([[i, None] for i in range(0, 6000, 100)])
    rows = [[i, None if i % 100 == 0 else values[i]] for i in range(6000)]
    shared.assert_all_read(rows)
    table: Any = shared.interbed if compactor == "interbed" else shared.java
    table.compact()
    files = shared.java.files()
    assert {file["level"] for file in files} == {5}
    assert len(files) > 1
    shared.assert_all_read(rows)


@pytest.mark.parametrize("writer", ["interbed", *PEERS])
def test_filters_find_rows_in_the_files_of_all_peers(shared: SharedTable, writer: str) -> None:
    shared.interbed.create(
        [("id", "INT NOT NULL"), ("name", "STRING"), ("amount", "DECIMAL(10, 2)"), ("ts", "TIMESTAMP(3)")],
        primary_keys=["id"],
        options={"bucket": "2", "write-only": "true"},
    )
    table: Any = shared.interbed if writer == "interbed" else shared.others[writer]  # type: ignore[index]
    rows = [[i, None if i % 7 == 0 else f"n{i}", f"{i}.50", i * 86_400_000_000_000] for i in range(50)]
    table.write(rows)
    table.write([[10, "changed", None, None]])
    rows[10] = [10, "changed", None, None]

    def ids(text: str) -> list[int]:
        return sorted(row[0] for row in shared.interbed.read(columns=["id"], filter=text).rows)

    assert ids("id >= 45") == [45, 46, 47, 48, 49]
    assert ids("name = 'changed'") == [10]
    assert ids("name = 'n10'") == []
    assert ids("name is null and id < 20") == [0, 7, 14]
    assert ids("amount > 46.5 or id in (1, 2)") == [1, 2, 47, 48, 49]
    by_peer = {
        "op": "and",
        "args": [
            {"op": ">=", "field": "amount", "value": "44.50"},
            {"op": "is not null", "field": "name"},
        ],
    }
    for name, other in shared.others.items():
        if (name, writer) == ("java", "python"):
            # pypaimon stores decimals as bytes in Parquet; Java Paimon fails when it pushes a filter on them down.
            continue
        assert sorted(row[0] for row in other.read(columns=["id"], filter=by_peer).rows) == [44, 45, 46, 47, 48], name
