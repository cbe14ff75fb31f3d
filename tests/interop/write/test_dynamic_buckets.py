"""Tables with dynamic buckets, written in turns by interbed and its peers."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from interbed.storage.meta.manifest.index_manifest import HASH_INDEX
from interbed.storage.scan.live_files import restore_buckets
from interbed.storage.table.table import Table
from interbed.storage.write.bucket.dynamic import read_hashes
from tests.support.peers.interbed import InterbedTable, interbed_table
from tests.support.peers.java import JavaPaimon
from tests.support.peers.pypaimon import PyPaimon

COLUMNS = [("dt", "STRING NOT NULL"), ("id", "STRING NOT NULL"), ("n", "BIGINT NOT NULL"), ("v", "STRING")]
OPTIONS = {"dynamic-bucket.target-row-num": "7", "num-sorted-run.compaction-trigger": "3"}


def hashes_by_bucket(table: Table) -> dict[bytes, dict[int, list[int]]]:
    """Return the hashes in the index files, by partition and bucket, without buckets that have no data."""
    restored = restore_buckets(table.store)
    found: dict[bytes, dict[int, list[int]]] = {}
    for bucket_id in restored.buckets():
        (file,) = (f for f in restored.index_files(bucket_id) if f.index_type == HASH_INDEX)
        path = table.store.index_path(bucket_id, file)
        found.setdefault(bucket_id.partition, {})[bucket_id.bucket] = sorted(
            read_hashes(table.store.file_io, path, file).tolist()
        )
    return found


def assert_equal_tables(ours: InterbedTable, java: object, model: Mapping[tuple[str, str, int], str]) -> None:
    expected = sorted([*key, value] for key, value in model.items())
    assert sorted(ours.read().rows) == expected
    assert sorted(java.read().rows) == expected  # type: ignore[attr-defined]  # Any of the peers' tables.


@pytest.mark.parametrize("placed", ["false", "true"])
def test_interbed_and_java_extend_each_others_indexes(java_paimon: JavaPaimon, tmp_path: Path, placed: str) -> None:
    java, ours = java_paimon.table(tmp_path, "db.t"), interbed_table(tmp_path, "db.t")
    options = {**OPTIONS, "index-file-in-data-file-dir": placed}
    java.create(COLUMNS, primary_keys=["dt", "id", "n"], partition_keys=["dt"], options=options)
    source = random.Random(5)
    model: dict[tuple[str, str, int], str] = {}
    for commit in range(8):
        rows: list[list[Any]] = []
        kinds = []
        for _ in range(source.choice([3, 20, 40])):
            dt, number = source.choice("ab"), source.randrange(40)
            # Long and short, so that the hash covers BinaryRows with and without a variable part.
            key = (dt, f"key-{number}" * (number % 3), number)
            kinds.append(source.choice(["+I", "+I", "+I", "-D"]))
            rows.append([*key, f"v{commit}-{len(rows)}"])
            if kinds[-1] == "-D":
                model.pop(key, None)
            else:
                model[key] = rows[-1][-1]
        (java if commit % 2 else ours).write(rows, kinds=kinds)
        assert_equal_tables(ours, java, model)
        if commit in (3, 6):
            (ours if commit % 2 else java).compact()
            assert_equal_tables(ours, java, model)
        for buckets in hashes_by_bucket(ours.load()).values():
            placed_hashes = [h for hashes in buckets.values() for h in hashes]
            assert len(set(placed_hashes)) == len(placed_hashes)
            assert all(len(hashes) <= 7 for hashes in buckets.values())
            assert len(buckets) == -(-len(placed_hashes) // 7)


def test_both_give_the_same_keys_the_same_buckets(java_paimon: JavaPaimon, tmp_path: Path) -> None:
    found = []
    for name, writer in (("db.ours", interbed_table), ("db.java", java_paimon.table)):
        table = writer(tmp_path, name)
        table.create(COLUMNS, primary_keys=["dt", "id", "n"], partition_keys=["dt"], options=OPTIONS)
        for commit in range(3):
            table.write([["ab"[i % 2], f"k{i * 7 % 31}", commit, "v"] for i in range(25)])
        found.append(hashes_by_bucket(interbed_table(tmp_path, name).load()))
    assert found[0] == found[1]


def test_three_writers_extend_one_index(pypaimon: PyPaimon, java_paimon: JavaPaimon, tmp_path: Path) -> None:
    python, ours, java = (
        pypaimon.table(tmp_path, "db.t"),
        interbed_table(tmp_path, "db.t"),
        java_paimon.table(tmp_path, "db.t"),
    )
    ours.create(COLUMNS, primary_keys=["dt", "id", "n"], partition_keys=["dt"], options=OPTIONS)
    first: list[list[Any]] = [["a", f"k{i}", i, "first"] for i in range(20)]
    python.write(first)
    assert sorted(ours.read().rows) == sorted(first)
    second: list[list[Any]] = [["a", f"k{i}", i, "second"] for i in range(10, 24)]
    ours.write(second)
    third: list[list[Any]] = [["a", f"k{i}", i, "third"] for i in range(15, 30)]
    java.write(third)
    model = {(str(dt), str(key), int(n)): str(value) for dt, key, n, value in (*first, *second, *third)}
    assert_equal_tables(ours, java, model)
    assert sorted(python.read().rows) == sorted(ours.read().rows)
