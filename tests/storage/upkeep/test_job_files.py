"""The files of a job are found by its name, in every directory layout of a table, and files of other jobs are kept."""

from pathlib import Path

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.storage.table.table import Table
from interbed.storage.upkeep.job_files import JobFiles, delete_unnamed, marked_jobs
from interbed.storage.write.commit_message import CommitMessage

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("p", pa.int64(), nullable=False)])
PLACES = [
    {"bucket": "2"},
    {"bucket": "-1", "index-file-in-data-file-dir": "true"},
    {"bucket": "-1"},
    {"bucket": "1", "data-file.path-directory": "data"},
    {"bucket": "1", "changelog-producer": "input"},
    {"bucket": "1", "data-file.prefix": "part-", "changelog-producer": "input"},
]


def _table(tmp_path: Path, options: dict[str, str]) -> Table:
    catalog = load_catalog(warehouse=str(tmp_path / "lake"))
    catalog.create_database("db")
    return catalog.create_table("db.t", SCHEMA, primary_keys=["id", "p"], partition_keys=["p"], options=options)


def _written(table: Table, job: str, *ids: int) -> list[CommitMessage]:
    """Write the rows to two partitions, as a task of the job does."""
    named = table.copy(JobFiles(table.store, job).named())
    with named.new_write(job) as write:
        write.write_arrow(pa.RecordBatch.from_pydict({"id": list(ids), "p": [i % 2 for i in ids]}, schema=SCHEMA))
        return write.prepare_commit()


def _files(table: Table) -> set[str]:
    """The table's files without its schema files."""
    root = Path(table.location)
    return {str(f) for f in root.rglob("*") if f.is_file() and f.parent.name != "schema"}


@pytest.mark.parametrize("options", PLACES)
def test_deleting_the_files_of_a_job_keeps_those_of_others(tmp_path: Path, options: dict[str, str]) -> None:
    table = _table(tmp_path, options)
    _written(table, "theirs", 1, 2)
    kept = _files(table)
    _written(table, "ours", 1, 2)
    own = _files(table) - kept
    job = JobFiles(table.store, "ours")

    assert set(job.paths()) == own
    assert len(own) >= 2
    job.delete_all()

    assert _files(table) == kept


def test_files_outside_of_the_table_directory_are_found_and_swept(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    options = {"data-file.external-paths": f"file:{outside}", "data-file.external-paths.strategy": "entropy-inject"}
    table = _table(tmp_path, {"bucket": "1", **options})
    told, untold = _written(table, "ours", 1, 2), _written(table, "ours", 1, 2)
    job = JobFiles(table.store, "ours")
    assert len(set(job.paths())) == 4

    job.sweep(told)

    committed = {f.file_name for m in told for f in m.data.new_files}
    assert {f.name for f in outside.rglob("*.parquet")} == committed
    assert not committed & {f.file_name for m in untold for f in m.data.new_files}


def test_a_sweep_keeps_files_of_other_jobs_and_other_buckets(tmp_path: Path) -> None:
    table = _table(tmp_path, {"bucket": "1", "changelog-producer": "input", "file-index.bloom-filter.columns": "id"})
    theirs = _written(table, "theirs", 1, 2)
    first, second = _written(table, "ours", 1), _written(table, "ours", 2)
    lost = _written(table, "ours", 3)
    gone = {f.file_name.partition(".")[0] for m in lost for f in (*m.data.new_files, *m.data.changelog_files)}
    kept = {f for f in _files(table) if Path(f).name.partition(".")[0] not in gone}

    JobFiles(table.store, "ours").sweep(first)

    assert _files(table) == kept
    assert table.new_commit("c").commit([*theirs, *first, *second])


def test_a_mark_records_that_a_job_may_succeed(tmp_path: Path) -> None:
    table = _table(tmp_path, {"bucket": "1"})
    job, other = JobFiles(table.store, "query-1"), JobFiles(table.store, "another-1")
    job.mark()
    other.mark()

    assert job.is_marked()
    assert [j.name for j in marked_jobs(table.store, "query-")] == ["query-1"]
    job.unmark()

    assert not job.is_marked()
    assert other.is_marked()
    assert marked_jobs(table.store, "query-") == []
    # Removing the mark twice does nothing.
    job.unmark()


def test_files_of_abandoned_jobs_that_a_snapshot_names_are_kept(tmp_path: Path) -> None:
    table = _table(tmp_path, {"bucket": "1"})
    _written(table, "query-1", 1, 2)
    committed = _written(table, "query-2", 3, 4)
    table.new_commit("c").commit(committed)

    delete_unnamed([JobFiles(table.store, name) for name in ("query-1", "query-2", "query-3")])

    assert list(JobFiles(table.store, "query-1").paths()) == []
    assert len(list(JobFiles(table.store, "query-2").paths())) == 2
    assert table.scan().count() == 2
    delete_unnamed([])
