"""A disk that becomes full in the middle of a file: the error names the file, and the table is unchanged.

The system itself refuses the write, because a limit (RLIMIT_FSIZE) keeps the process from making larger files.
"""

import re
from pathlib import Path

import pytest

from interbed.storage.table.table import Table
from tests.storage.write.lsm_process import rows
from tests.support.lsm_tables import LOOKUP, create, files_of, finish, reopened, sorted_runs, start, state, written

TRIGGER = {"num-sorted-run.compaction-trigger": "2", "compaction.max-size-amplification-percent": "1"}


def refused(table: Table, work: str, limit: int, tmp_path: Path) -> str:
    """Return the path of the file that the process could not write, after checking that nothing else has changed."""
    before, there = state(table), files_of(table)
    code, output = finish(start(table, work, 5, "--limit", str(limit), temporary=tmp_path / "tmp"))
    found = re.fullmatch(r"StorageAccessError Can't write (\S+)(?: on local disk)?: .*File too large.*\n", output)
    assert found, output
    assert code == 1
    assert files_of(table) == there
    assert list((tmp_path / "tmp").iterdir()) == []
    again = reopened(table)
    assert state(again) == before
    # Without the limit, the same work succeeds.
    assert finish(start(table, work, 5, temporary=tmp_path / "tmp"))[0] == 0
    assert reopened(table).snapshots()[-1].id > table.snapshots()[0].id
    return found[1]


def test_a_full_disk_in_the_middle_of_a_flush(tmp_path: Path) -> None:
    table = create(tmp_path / "lake", **{"write-only": "true"})
    table.upsert(rows(0, 10))
    assert "/bucket-0/data-" in refused(table, "upsert", 4_000, tmp_path)


def test_rows_go_to_the_table_when_the_disk_is_full_in_the_middle_of_a_spill(tmp_path: Path) -> None:
    table = create(tmp_path / "lake", **{"write-only": "true"})
    code, output = finish(start(table, "spill", 3, "--limit", "4000", temporary=tmp_path / "tmp"))
    assert code == 0
    assert re.search(r"spill-\S+ on local disk: .*File too large.*TMPDIR.*flushed to the table instead", output)
    assert state(reopened(table)) == written(3)
    assert sorted_runs(reopened(table)) > 1
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.long
def test_a_full_disk_in_the_middle_of_a_compaction(tmp_path: Path) -> None:
    table = create(tmp_path / "lake", **{"write-only": "true"})
    for number in range(4):
        table.upsert(rows(number, 2_000, step=7 + number))
    largest = max(p.stat().st_size for p in files_of(table) if p.parent.name == "bucket-0")
    assert "/bucket-0/data-" in refused(table, "compact", largest + 1_000, tmp_path)


@pytest.mark.long
def test_a_full_disk_in_the_middle_of_a_background_compaction(tmp_path: Path) -> None:
    table = create(tmp_path / "lake", **TRIGGER)
    table.upsert(rows(0, 3_000))
    assert "/bucket-0/data-" in refused(table, "upsert", 12_000, tmp_path)


@pytest.mark.long
def test_a_full_disk_in_the_middle_of_a_changelog(tmp_path: Path) -> None:
    table = create(tmp_path / "lake", **{"write-only": "true", "changelog-producer": "full-compaction"})
    table.upsert(rows(0))
    table.compact(full=True)
    table.upsert(rows(1))
    # An update has two rows in a changelog, so the changelog is larger than the data.
    assert "/bucket-0/changelog-" in refused(table, "compact", 6_000, tmp_path)


def test_a_full_disk_in_the_middle_of_a_lookup_file(tmp_path: Path) -> None:
    table = create(tmp_path / "lake", **LOOKUP)
    table.upsert(rows(0, 4_000))
    assert "/lookup-" in refused(table, "upsert", 20_000, tmp_path)


def test_a_full_disk_in_the_middle_of_a_manifest(tmp_path: Path) -> None:
    table = create(tmp_path / "lake", **{"write-only": "true"})
    for number in range(2):
        table.upsert(rows(number, 10))
    assert "/manifest/manifest-" in refused(table, "compact", 2_000, tmp_path)


@pytest.mark.parametrize(("work", "limit"), [("expire", 20), ("expire", 150), ("tag", 150)])
def test_a_full_disk_in_a_change_of_versions(tmp_path: Path, work: str, limit: int) -> None:
    table = create(tmp_path / "lake", **{"write-only": "true"})
    for number in range(4):
        table.upsert(rows(number, 10))
    there, versions = hidden_and_other_files(table), [s.id for s in table.snapshots()]
    code, output = finish(start(table, work, 0, "--limit", str(limit), temporary=tmp_path / "tmp"))
    assert re.fullmatch(r"StorageAccessError Can't create \S+: File too large\.\n", output), output
    assert (code, hidden_and_other_files(table)) == (1, there)
    again = reopened(table)
    assert ([s.id for s in again.snapshots()], again.versions.tags(), again.maintenance.fsck().findings) == (
        versions,
        [],
        (),
    )
    assert finish(start(table, work, 0, temporary=tmp_path / "tmp"))[0] == 0
    assert state(reopened(table)) == state(table)


def hidden_and_other_files(table: Table) -> set[Path]:
    return {p for p in Path(table.location).rglob("*") if p.is_file()}
