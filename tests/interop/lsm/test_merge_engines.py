"""Java Paimon and interbed compute the same rows from the same changes, for every merge engine and writer.

Each case is a table with a sequence of commits from a seeded generator. Java writes one table and interbed a second
one, and both write a third in turns. After each commit and each compaction both readers must find the same rows in all
three.
"""

import random
from pathlib import Path
from typing import Any

import pytest

from tests.interop.lsm.merge_cases import CASES, MergeCase, canonical_rows, changes
from tests.support.peers.interbed import interbed_table
from tests.support.peers.java import JavaPaimon
from tests.support.shares import each_run

COMMITS = 6
ROWS = 14


# The other cases cover pairs of these options, these one option each.
COMBINED = (
    "partial-update-by-sequence",
    "groups-retracting",
    "groups-removing",
    "groups-aggregating-late",
    "groups-aggregating-ignoring-retracts",
    "aggregation-removing",
    "aggregation-by-sequence",
    "deduplicate-descending",
    "first-row-ignoring",
    "looked-up-aggregation",
    "groups-of-sets",
    "deduplicate-ignoring-updates-before",
)


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "case", each_run(CASES, lambda case: case.name not in COMBINED), ids=[case.name for case in CASES]
)
def test_java_and_interbed_merge_alike(java_paimon: JavaPaimon, tmp_path: Path, case: MergeCase) -> None:
    options = {"bucket": "1", "write-only": "true", **case.options}
    columns = [("id", "INT NOT NULL"), *((name, of) for name, of, _ in case.columns)]
    names = ("java", "ours", "turns")
    for name in names:
        creator: Any = (
            interbed_table(tmp_path, "db.ours") if name == "ours" else java_paimon.table(tmp_path, f"db.{name}")
        )
        creator.create(columns, primary_keys=list(case.keys), options=options)
    java = {name: java_paimon.table(tmp_path, f"db.{name}") for name in names}
    ours = {name: interbed_table(tmp_path, f"db.{name}") for name in names}

    def assert_agreement(when: str) -> None:
        expected = canonical_rows(java["java"].read(), case)
        for name in names:
            assert canonical_rows(ours[name].read(), case) == expected, f"interbed reads {name} {when}"
            if name != "java":
                assert canonical_rows(java[name].read(), case) == expected, f"Java reads {name} {when}"

    source = random.Random(f"{case.name} 1")
    for commit in range(COMMITS):
        rows, kinds = changes(case, source, ROWS)
        java["java"].write(rows, kinds=kinds)
        ours["ours"].write(rows, kinds=kinds)
        (java if commit % 2 else ours)["turns"].write(rows, kinds=kinds)
        if commit % 2:
            assert_agreement(f"after commit {commit}")
        if commit == 3:
            java["java"].compact()
            ours["ours"].compact()
            ours["turns"].compact()
            assert_agreement("after the first compaction")
    java["java"].compact()
    ours["ours"].compact()
    java["turns"].compact()
    assert_agreement("after the last compaction")
    projected = [case.columns[0][0], "id"]
    assert ours["ours"].read(columns=projected).comparable() == ours["java"].read(columns=projected).comparable() or (
        case.columns[0][0] in case.unordered
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize("case", [case for case in CASES if case.removes], ids=lambda case: case.name)
def test_java_reads_keys_that_were_deleted_and_written_again(
    java_paimon: JavaPaimon, tmp_path: Path, case: MergeCase
) -> None:
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "3", **case.options}
    columns = [("id", "INT NOT NULL"), *((name, of) for name, of, _ in case.columns)]
    commits = ("once", "apart")
    ours = {name: interbed_table(tmp_path, f"db.{name}") for name in commits}
    for table in ours.values():
        table.create(columns, primary_keys=list(case.keys), options=options)
    source = random.Random(f"{case.name} 2")
    for _ in range(COMMITS):
        drawn = zip(*changes(case, source, ROWS, continued=True), strict=True)
        rows, kinds = zip(*((row, kind) for row, kind in drawn if kind != "-U"), strict=True)
        ours["once"].write(rows, kinds=kinds)
        for row, kind in zip(rows, kinds, strict=True):
            ours["apart"].write([row], kinds=[kind])
        read = {name: canonical_rows(table.read(), case) for name, table in ours.items()}
        for name in commits:
            assert canonical_rows(java_paimon.table(tmp_path, f"db.{name}").read(), case) == read[name], (
                f"Java reads {name}"
            )
        # Rows that are late for a group are no longer late if a deletion in the same commit removed the row.
        assert read["once"] == read["apart"] or case.name == "groups-removing"
