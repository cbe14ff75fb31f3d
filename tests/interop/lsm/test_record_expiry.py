"""Expired records are removed alike by compactions of Java Paimon and of interbed."""

import random
from pathlib import Path
from typing import Any

import pytest

from tests.interop.change_histories import COMPACTED_ON_DEMAND
from tests.support.peers.interbed import interbed_table
from tests.support.peers.java import JavaPaimon

LONG_AGO, TO_COME = 1_000_000_000, 2_000_000_000
ENGINES = {
    "deduplicate": {},
    "full compaction": {"changelog-producer": "full-compaction", **COMPACTED_ON_DEMAND},
    "partial-update": {"merge-engine": "partial-update"},
    "sum": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "by sequence": {"sequence.field": "v"},
}


@pytest.mark.parametrize("engine", ENGINES)
def test_full_compactions_keep_the_same_rows(java_paimon: JavaPaimon, tmp_path: Path, engine: str) -> None:
    """Commit old, new and timeless rows, some of one key, compacted by both in turns and by Java alone."""
    options = {
        "bucket": "1",
        "record-level.expire-time": "7 d",
        "record-level.time-field": "at",
        # Only full compactions, on request of the test: in others Java may also drop rows.
        "num-sorted-run.compaction-trigger": "50",
        **ENGINES[engine],
    }
    columns = [("id", "INT NOT NULL"), ("at", "INT" if engine != "sum" else "BIGINT"), ("v", "INT")]
    model, table = java_paimon.table(tmp_path, "db.model"), java_paimon.table(tmp_path, "db.t")
    for java in (model, table):
        java.create(columns, primary_keys=["id"], options=options)
    ours = interbed_table(tmp_path, "db.t")
    source = random.Random(engine)
    for turn in range(6):
        rows: list[list[Any]] = []
        for _ in range(12):
            time = source.choice([LONG_AGO, TO_COME, TO_COME, None])
            rows.append([source.randrange(30), time, source.randrange(9)])
        model.write(rows)
        (ours if turn % 2 else table).write(rows)
        assert ours.read().comparable() == model.read().comparable()
        if turn % 3 == 2:
            model.compact()
            (table if turn == 2 else ours).compact()
            assert ours.read().comparable() == model.read().comparable() == table.read().comparable()
            newest, same = ours.last_snapshot_id(), model.snapshots()[-1]["id"]
            assert ours.changes(newest, newest).comparable() == model.changes(same, same).comparable()
    assert LONG_AGO not in [row[1] for row in ours.read().rows]


@pytest.mark.parametrize("time", ["BIGINT", "TIMESTAMP(6)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"])
@pytest.mark.parametrize("compactor", ["java", "interbed"])
def test_times_of_every_type_are_read_alike(java_paimon: JavaPaimon, tmp_path: Path, time: str, compactor: str) -> None:
    java, ours = java_paimon.table(tmp_path, "db.t"), interbed_table(tmp_path, "db.t")
    options = {"bucket": "1", "record-level.expire-time": "7 d", "record-level.time-field": "at"}
    java.create([("id", "INT NOT NULL"), ("at", time)], primary_keys=["id"], options=options)
    values: list[Any] = [LONG_AGO * 10**9, TO_COME * 10**9, None]
    if time == "BIGINT":
        values = [LONG_AGO, TO_COME, None, LONG_AGO * 1000, TO_COME * 1000]
    java.write([[i, value] for i, value in enumerate(values)])
    ours.write([[i + 10, value] for i, value in enumerate(values)])
    (java if compactor == "java" else ours).compact()
    kept = [1, 2, 4] if time == "BIGINT" else [1, 2]
    assert sorted(row[0] for row in java.read().rows) == [*kept, *(i + 10 for i in kept)]
