"""Processes that are killed in the middle of a commit, a compaction or a spill, and concurrent compactors."""

import signal
from pathlib import Path

import pytest

from tests.storage.write.lsm_process import KEYS, rows
from tests.support.lsm_tables import (
    LOOKUP,
    check_every_snapshot,
    create,
    finish,
    reopened,
    sorted_runs,
    start,
    state,
    values,
    written,
)
from tests.support.shares import each_run

UPSERT_STEPS = [
    "open_output:*/bucket-0/data-*:kill-before",
    "open_output:*/bucket-0/data-*:kill-after",
    "open_output:*/bucket-0/changelog-*:kill-after",
    "open_output:*/index/index-*:kill-after",
    # An upsert commits its rows first, and then the result of its compaction.
    "open_output:*/manifest/manifest-list-*:kill-after:1",
    "create_exclusive:*/snapshot/snapshot-*:kill-after",
    "open_output:*/manifest/index-manifest-*:kill-after",
    "create_exclusive:*/snapshot/snapshot-*:kill-before:1",
    "create_exclusive:*/snapshot/snapshot-*:kill-after:1",
]
COMPACTION_STEPS = [
    "open_output:*/bucket-0/data-*:kill-after",
    "open_output:*/manifest/manifest-*:kill-after",
    "create_exclusive:*/snapshot/snapshot-*:kill-before",
    "create_exclusive:*/snapshot/snapshot-*:kill-after",
]
OF_EACH_RUN = [("upsert", UPSERT_STEPS[2]), ("upsert", UPSERT_STEPS[5]), ("compact", COMPACTION_STEPS[2])]


@pytest.mark.parametrize(
    ("work", "step"),
    each_run(
        [("upsert", s) for s in UPSERT_STEPS] + [("compact", s) for s in COMPACTION_STEPS],
        lambda case: case in OF_EACH_RUN,
    ),
)
def test_a_table_stays_usable_after_a_process_is_killed_at_any_step(tmp_path: Path, work: str, step: str) -> None:
    table = create(tmp_path / "lake", **LOOKUP)
    table.upsert(rows(0, 4_000))
    table.upsert(rows(1, 200))
    before = state(table)
    after = {**before, **written(5)}
    assert finish(start(table, work, 5, step, temporary=tmp_path / "tmp")) == (-signal.SIGKILL, "")
    table = reopened(table)
    check_every_snapshot(table)
    assert state(table) in [before, after]
    # The next writer succeeds: no committed row is lost, none is visible twice. Rows that were committed without their
    # compaction are visible now at the latest.
    kept = after if any(s.commit_user == "victim" for s in table.snapshots()) else before
    table.upsert(rows(7, 100))
    check_every_snapshot(table)
    assert state(table) == {**kept, **values(rows(7, 100))}
    found = state(table)
    table.compact(full=True)
    check_every_snapshot(table)
    assert state(table) == found


@pytest.mark.parametrize("step", ["open_output:*/bucket-0/data-*:kill-before", "create_exclusive:*:kill-before"])
def test_spilled_files_of_a_killed_writer_are_removed_by_the_next_one(tmp_path: Path, step: str) -> None:
    table = create(tmp_path / "lake", **{"write-only": "true"})
    temporary = tmp_path / "tmp"
    code, output = finish(start(table, "spill", 3, step, temporary=temporary))
    assert (code, output) == (-signal.SIGKILL, "")
    assert [p.name.partition("-")[0] for p in temporary.iterdir()] == ["interbed", "interbed"]
    assert table.latest_snapshot() is None
    assert finish(start(table, "spill", 3, temporary=temporary)) == (0, "")
    assert list(temporary.iterdir()) == []
    assert state(table) == written(3)
    assert sorted_runs(table) == 1


def test_compactors_in_two_processes_lose_no_row(tmp_path: Path) -> None:
    table = create(tmp_path / "lake", **LOOKUP, **{"write-only": "true"})
    for round_number in range(2):
        for number in range(3):
            table.upsert(rows(round_number, KEYS if number else 10))
        processes = [start(table, "compact", 0, temporary=tmp_path / "tmp") for _ in range(2)]
        ended = [finish(p) for p in processes]
        assert [code for code, _ in ended] == [0, 0]
        # One wins. The other one gets a conflict, or comes late and finds no files to compact.
        assert sorted(output.strip().isdecimal() for _, output in ended) == [False, True]
        assert {output.strip() for _, output in ended if not output.strip().isdecimal()} <= {"conflict", "None"}
        assert sorted_runs(table) == 1
        check_every_snapshot(table)
        assert state(table) == written(round_number)
