"""Tables with postponed buckets: interbed and Java Paimon write, and move each other's rows to real buckets."""

import random
from pathlib import Path

import pytest

from tests.support.peers.interbed import interbed_table
from tests.support.peers.java import JavaPaimon
from tests.support.peers.pypaimon import PyPaimon

COLUMNS = [("dt", "STRING NOT NULL"), ("id", "BIGINT NOT NULL"), ("d", "DECIMAL(20, 3)"), ("v", "STRING")]


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_both_move_postponed_rows_of_the_other(
    java_paimon: JavaPaimon, pypaimon: PyPaimon, tmp_path: Path, producer: str
) -> None:
    java, ours = java_paimon.table(tmp_path, "db.t"), interbed_table(tmp_path, "db.t")
    options = {
        "bucket": "-2",
        "postpone.default-bucket-num": "2",
        "postpone.batch-write-fixed-bucket": "false",
        "changelog-producer": producer,
        "num-sorted-run.compaction-trigger": "3",
    }
    java.create(COLUMNS, primary_keys=["dt", "id"], partition_keys=["dt"], options=options)
    source = random.Random(3)
    model: dict[tuple[str, int], list[object]] = {}
    for step in range(4):
        before = sorted(model.values(), key=str)
        for writer in (ours, java, ours) if step % 2 else (java, ours):
            rows: list[list[object]] = []
            kinds = []
            for _ in range(12):
                key = (source.choice("ab"), source.randrange(20))
                kind = source.choice(["+I", "+I", "+U", "-D"])
                row = [*key, f"{source.randrange(10**6)}.125", f"{step}-{len(rows)}"]
                rows.append(row)
                kinds.append(kind)
                if kind == "-D":
                    model.pop(key, None)
                else:
                    model[key] = row
            writer.write(rows, kinds=kinds)
        assert sorted(ours.read().rows, key=str) == before
        assert sorted(java.read().rows, key=str) == before
        (java if step % 2 else ours).compact(full=step > 1)
        assert ours.read().comparable() == java.read().comparable()
        assert sorted(ours.read().rows, key=str) == sorted(model.values(), key=str)
        newest = ours.last_snapshot_id()
        assert ours.changes(newest, newest).comparable() == java.changes(newest, newest).comparable()
    assert pypaimon.table(tmp_path, "db.t").read().comparable() == ours.read().comparable()


def test_all_peers_read_rows_of_a_batch_without_a_compaction(
    java_paimon: JavaPaimon, pypaimon: PyPaimon, tmp_path: Path
) -> None:
    java, ours = java_paimon.table(tmp_path, "db.t"), interbed_table(tmp_path, "db.t")
    options = {"bucket": "-2", "postpone.default-bucket-num": "2"}
    java.create(COLUMNS, primary_keys=["dt", "id"], partition_keys=["dt"], options=options)
    first: list[list[object]] = [["a", i, "1.125", "first"] for i in range(12)]
    second: list[list[object]] = [[dt, i, "2.125", "second"] for dt in "ab" for i in range(5, 20)]
    for rows in (first, second):
        ours.write(rows)
    expected = sorted([*first[:5], *second], key=str)
    assert sorted(ours.read().rows, key=str) == expected
    assert sorted(java.read().rows, key=str) == expected
    assert sorted(pypaimon.table(tmp_path, "db.t").read().rows, key=str) == expected
    # The postponed rows of Java's writer are newer, and replace these when they are moved.
    java.write([["a", 0, "3.125", "third"]])
    java.compact(full=True)
    expected = sorted([["a", 0, "3.125", "third"], *first[1:5], *second], key=str)
    assert sorted(ours.read().rows, key=str) == expected
    assert sorted(java.read().rows, key=str) == expected
