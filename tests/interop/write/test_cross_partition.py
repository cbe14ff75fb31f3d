"""Tables whose keys interbed moves between partitions are read by its peers."""

import random
from pathlib import Path
from typing import Any

import pytest

from tests.support.peers.interbed import interbed_table
from tests.support.peers.java import JavaPaimon
from tests.support.peers.pypaimon import PyPaimon

COLUMNS = [("dt", "STRING"), ("id", "BIGINT NOT NULL"), ("v", "STRING")]


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_java_and_pypaimon_read_each_key_once(
    java_paimon: JavaPaimon, pypaimon: PyPaimon, tmp_path: Path, engine: str
) -> None:
    java, ours = java_paimon.table(tmp_path, "db.t"), interbed_table(tmp_path, "db.t")
    options = {"merge-engine": engine, "dynamic-bucket.target-row-num": "7", "changelog-producer": "lookup"}
    java.create(COLUMNS, primary_keys=["id"], partition_keys=["dt"], options=options)
    source = random.Random(9)
    model: dict[int, list[object]] = {}
    for commit in range(5):
        rows: list[list[Any]] = [[source.choice("abc"), source.randrange(30), f"{commit}-{i}"] for i in range(20)]
        ours.write(rows)
        for dt, key, value in rows:
            moved = engine == "deduplicate" or key not in model
            model[key] = [dt if moved else model[key][0], key, value]
        if commit == 2:
            java.compact()
        expected = sorted(model.values(), key=str)
        assert sorted(java.read().rows, key=str) == expected
        assert sorted(ours.read().rows, key=str) == expected
        newest = ours.last_snapshot_id()
        assert java.changes(newest, newest).comparable() == ours.changes(newest, newest).comparable()
    assert sorted(pypaimon.table(tmp_path, "db.t").read().rows, key=str) == sorted(model.values(), key=str)
