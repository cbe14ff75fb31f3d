"""Rows and changelogs of tables with lookup compactions, written by Java Paimon and by interbed in turns."""

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.peers.interbed import interbed_table
from tests.support.peers.java import JavaPaimon, JavaTable
from tests.support.shares import each_run

COLUMNS = [("id", "INT NOT NULL"), ("p", "STRING"), ("v", "INT")]
LOOKUP = {"changelog-producer": "lookup"}
FULL = {"changelog-producer": "full-compaction"}
VECTORS = {"deletion-vectors.enabled": "true"}
TABLES = {
    "lookup": LOOKUP,
    "lookup without repetitions": {**LOOKUP, "changelog-producer.row-deduplicate": "true"},
    "vectors": VECTORS,
    "vectors, 64 bits": {**VECTORS, "deletion-vectors.bitmap64": "true"},
    "lookup and vectors": {**LOOKUP, **VECTORS},
    "full compaction": FULL,
    "full compaction without repetitions": {**FULL, "changelog-producer.row-deduplicate": "true"},
}

WRITERS = ["in turns", "interbed", "interbed", "in turns", "in turns", "interbed", "in turns"]
"""Writers of each of the tables; both variants were tested with all of them."""


OF_EACH_RUN = ("lookup without repetitions", "lookup and vectors", "full compaction")


@pytest.mark.parametrize(
    ("name", "writers"), each_run(zip(TABLES, WRITERS, strict=True), lambda case: case[0] in OF_EACH_RUN)
)
def test_rows_and_changelogs_equal_javas(java_paimon: JavaPaimon, tmp_path: Path, name: str, writers: str) -> None:
    """Write the same changes into a table of Java alone, and into one of interbed alone or of both in turns."""
    options = {"bucket": "1", "target-file-size": "2 kb", "num-sorted-run.compaction-trigger": "3", **TABLES[name]}
    model, table = java_paimon.table(tmp_path, "db.model"), java_paimon.table(tmp_path, "db.t")
    for java in (model, table):
        java.create(COLUMNS, primary_keys=["id"], options=options)
    ours = interbed_table(tmp_path, "db.t")
    full, vectors = "full" in name, 0
    turn = itertools.cycle([True] if writers == "interbed" else [True, False])
    for rows, kinds in changes(random.Random(name)):
        model.write(rows, kinds=kinds)
        if next(turn):
            ours.write(rows, kinds=kinds)
        else:
            table.write(rows, kinds=kinds)
        if full:
            model.compact()
            if next(turn):
                ours.compact()
            else:
                table.compact()
        expected = model.read().comparable()
        assert ours.read().comparable() == expected
        assert table.read().comparable() == expected
        if "vectors" in name:
            splits = ours.load().new_scan().plan().splits
            assert all(split.raw_convertible for split in splits)
            vectors += sum(len(split.deletion_files) for split in splits)
    assert bool(vectors) == ("vectors" in name)
    if "changelog-producer" in options:
        told = changelog(table)
        assert told == changelog(model)
        assert {kind for kind, _ in told} == {"+I", "-U", "+U", "-D"}


def changes(source: random.Random) -> Iterator[tuple[list[list[Any]], list[str]]]:
    """Generate commits of inserts, updates and deletions of few keys, some of them twice in one commit."""
    for commit in range(9):
        ids = [source.randrange(60) for _ in range(40 if commit else 50)]
        kinds = [source.choice(["+I", "+U", "+I", "-D"]) for _ in ids]
        # Few different values, so that many updates change nothing.
        yield [[i, source.choice(["a", "b", None]), source.randrange(2)] for i in ids], kinds


def changelog(table: JavaTable) -> list[tuple[str, list[Any]]]:
    """Return the changes of all snapshots, sorted within each snapshot."""
    told: list[tuple[str, list[Any]]] = []
    for snapshot in table.snapshots():
        read = table.changes(snapshot["id"], snapshot["id"])
        told += sorted(zip(read.kinds, read.rows, strict=True), key=repr)
    return told
