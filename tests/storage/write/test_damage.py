"""Damaged files of the LSM engine: the error names the file and a remedy, and the table is unchanged."""

from pathlib import Path

import pytest

from interbed.storage.base.errors import CorruptFileError
from interbed.storage.table.table import Table
from tests.storage.write.lsm_process import rows
from tests.support.lsm_tables import LOOKUP, check_every_snapshot, create, files_of, state, values


def newest(table: Table, pattern: str) -> Path:
    return max(Path(table.location).glob(pattern), key=lambda p: p.stat().st_mtime_ns)


def flipped(path: Path) -> bytes:
    """Change bytes in the middle of a file, and return the previous content."""
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(content[:middle] + bytes(b ^ 0xFF for b in content[middle : middle + 4]) + content[middle + 4 :])
    return content


def marked(warehouse: Path) -> Table:
    """A table with a deletion vector over a file of the highest level."""
    table = create(warehouse, **LOOKUP)
    table.upsert(rows(0, 4_000))
    table.upsert(rows(1))
    return table


def test_a_damaged_deletion_vector_fails_reads_and_compactions_without_losing_rows(tmp_path: Path) -> None:
    table = marked(tmp_path)
    before, there = state(table), files_of(table)
    victim = newest(table, "index/index-*")
    content = flipped(victim)
    for work in (lambda: state(table), lambda: table.compact(full=True), lambda: table.upsert(rows(2, 10))):
        with pytest.raises(CorruptFileError, match=rf"{victim.name}.*data-.*parquet.*rollback_to.*overwrite"):
            work()
    assert files_of(table) == there
    victim.write_bytes(content)
    assert state(table) == before
    table.upsert(rows(2, 10))
    check_every_snapshot(table)


def test_a_rollback_or_an_overwrite_repairs_a_damaged_deletion_vector(tmp_path: Path) -> None:
    table = marked(tmp_path)
    flipped(newest(table, "index/index-*"))
    table.versions.rollback_to(2)
    assert state(table) == values(rows(0, 4_000))
    flipped_again = marked(tmp_path / "other")
    flipped(newest(flipped_again, "index/index-*"))
    flipped_again.overwrite(rows(3))
    assert state(flipped_again) == values(rows(3))


def test_the_error_names_a_damaged_changelog_file_and_the_rows_are_still_readable(tmp_path: Path) -> None:
    table = marked(tmp_path)
    before = state(table)
    victim = newest(table, "bucket-0/changelog-*")
    victim.write_bytes(victim.read_bytes()[:-10])
    with pytest.raises(CorruptFileError, match=victim.name):
        table.changes().to_arrow()
    assert state(table) == before
    assert table.changes(to_snapshot=2).to_arrow().num_rows == 4_000


def test_the_error_names_a_file_whose_lookup_fails_and_the_commit_leaves_no_file(tmp_path: Path) -> None:
    table = create(tmp_path, **LOOKUP)
    table.upsert(rows(0, 4_000))
    there = files_of(table)
    victim = newest(table, "bucket-0/data-*")
    content = victim.read_bytes()
    victim.write_bytes(content[: len(content) // 2])
    with pytest.raises(CorruptFileError, match=victim.name):
        table.upsert(rows(1))
    assert files_of(table) == there
    victim.write_bytes(content)
    table.upsert(rows(1))
    check_every_snapshot(table)


def test_a_writer_waits_for_its_compactions_before_there_are_too_many_runs(tmp_path: Path) -> None:
    options = {"write-buffer-size": "1 kb", "write-buffer-spillable": "false", "num-sorted-run.stop-trigger": "6"}
    table = create(tmp_path, **options)
    most = 0
    with table.new_write("tester") as write:
        for number in range(40):
            write.write_arrow(rows(number, 60))
            (writer,) = write._writers.values()
            assert writer._compaction is not None
            most = max(most, len(writer._compaction.levels.runs))
        table.new_commit("tester").commit(write.prepare_commit())
    # Paimon waits when there are more runs than the trigger, and then adds one.
    assert 1 < most <= 7
    assert state(table) == values(rows(39, 60))
