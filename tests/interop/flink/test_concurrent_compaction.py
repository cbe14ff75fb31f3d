"""Streaming jobs of Flink commit to tables that interbed compacts and writes concurrently: no row is lost."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed.storage.base.errors import CommitConflictError
from interbed.storage.table.table import Table
from tests.interop.flink.conftest import Change, SharedLake, by_key, read, rows_after, streamed, types_of
from tests.support.peers.flink import FlinkJob
from tests.support.peers.java import JavaPaimon
from tests.support.shares import LONG
from tests.support.tally import Tally

KEYS = 50
NAMES = ("id", "n", "written")
ROWS_PER_CHECKPOINT = 10
CHECKPOINTS = 30 if LONG else 15

SUMS = """
CREATE TABLE sums (
  id BIGINT, n BIGINT, written BIGINT, PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'bucket' = '2', 'merge-engine' = 'aggregation', 'commit.max-retries' = '1000',
  'fields.n.aggregate-function' = 'sum', 'fields.written.aggregate-function' = 'sum', {more}
)
"""


def additions(checkpoints: int) -> list[Change]:
    """Return rows to be summed: a lost or duplicate row changes a sum."""
    source = random.Random(checkpoints)
    count = checkpoints * ROWS_PER_CHECKPOINT
    return [("+I", [source.randrange(KEYS), source.randrange(1000), 1]) for _ in range(count)]


def sums(changes: list[Change]) -> list[list[Any]]:
    numbers: Counter[int] = Counter()
    counts: Counter[int] = Counter()
    for _, (key, number, written) in changes:
        numbers[key] += number
        counts[key] += written
    return [[key, numbers[key], counts[key]] for key in sorted(counts)]


def streaming(lake: SharedLake) -> None:
    """Let jobs stream, with checkpoints as often as possible, and restart after a failure."""
    lake.flink.run(
        """
        SET 'execution.runtime-mode' = 'streaming';
        SET 'table.dml-sync' = 'false';
        SET 'execution.checkpointing.interval' = '20 ms';
        SET 'execution.checkpointing.min-pause' = '0 ms';
        SET 'restart-strategy.type' = 'fixed-delay';
        SET 'restart-strategy.fixed-delay.attempts' = '1000';
        SET 'restart-strategy.fixed-delay.delay' = '10 ms';
        """
    )


def compact_until_done(table: Table, job: FlinkJob) -> int:
    """Compact the table until the job has ended, the last time fully; return the number of snapshots that made."""
    made = 0
    turn = 0
    while job.running():
        made += compacted(table, full=turn % 3 == 0)
        turn += 1
    job.wait()
    return made + compacted(table, full=True)


def compacted(table: Table, *, full: bool) -> int:
    try:
        return int(table.compact(full=full).snapshot_id is not None)
    except CommitConflictError:
        # The compaction of Flink's job was faster.
        return 0


def insert_into(lake: SharedLake, name: str, changes: list[Change], directory: Path) -> FlinkJob:
    """Start a streaming job that inserts these rows, some of them with each checkpoint."""
    columns = "id BIGINT, n BIGINT, written BIGINT"
    lake.flink.changes("added", columns, changes, directory, rows_per_checkpoint=ROWS_PER_CHECKPOINT)
    streaming(lake)
    return lake.flink.submit(f"INSERT INTO {name} SELECT * FROM added")


def check(lake: SharedLake, java_paimon: JavaPaimon, name: str, expected: list[list[Any]]) -> None:
    """Assert that Flink, Java Paimon and interbed read these rows, and no snapshot is missing."""
    table = lake.table(name)
    snapshots = table.snapshots()
    assert [snapshot.id for snapshot in snapshots] == list(range(1, len(snapshots) + 1))
    lake.flink.sql("SET 'execution.runtime-mode' = 'batch'")
    readers = {
        "interbed": read(table),
        "Flink": lake.flink.sql(f"SELECT * FROM {name}"),
        "Java": java_paimon.table(str(lake.directory), f"db.{name}").read(),
    }
    for reader, found in readers.items():
        assert sorted(found.rows) == expected, reader


def commits_of_jobs(table: Table) -> list[int]:
    """Return the identifiers of the commits of a job, which are its checkpoints."""
    return [s.commit_identifier for s in table.snapshots() if s.commit_kind == "APPEND"]


@pytest.mark.longer
def test_interbed_compacts_a_table_that_a_flink_job_writes(
    lake: SharedLake, java_paimon: JavaPaimon, tmp_path: Path, tally: Tally
) -> None:
    changes = additions(CHECKPOINTS)
    lake.flink.sql(SUMS.format(more="'write-only' = 'true'"))
    job = insert_into(lake, "sums", changes, tmp_path)
    table = lake.table("sums")
    compactions = compact_until_done(table, job)
    tally("compactions beside jobs of Flink's", compactions)
    kinds = Counter(str(snapshot.commit_kind) for snapshot in table.snapshots())
    assert kinds["COMPACT"] == compactions > 2
    checkpoints = commits_of_jobs(table)
    assert len(checkpoints) == len(set(checkpoints)) >= CHECKPOINTS
    check(lake, java_paimon, "sums", sums(changes))


@pytest.mark.long
def test_interbed_writes_and_compacts_a_table_that_a_flink_job_writes(
    hive: SharedLake, java_paimon: JavaPaimon, tmp_path: Path
) -> None:
    changes = additions(checkpoints=30)
    hive.flink.sql(SUMS.format(more="'write-only' = 'true', 'deletion-vectors.enabled' = 'true'"))
    job = insert_into(hive, "sums", changes, tmp_path)
    table = hive.table("sums")
    ours: list[Change] = []
    while job.running():
        added = additions(checkpoints=1)
        table.upsert(
            pa.Table.from_pylist([dict(zip(NAMES, row, strict=True)) for _, row in added], schema=table.arrow_schema)
        )
        ours += added
        table.compact(full=False)
    job.wait()
    table.compact(full=True)
    assert len(ours) > 2 * ROWS_PER_CHECKPOINT
    check(hive, java_paimon, "sums", sums([*changes, *ours]))


@pytest.mark.long
def test_conflicting_compactions_of_both_lose_no_rows(
    hive: SharedLake, java_paimon: JavaPaimon, tmp_path: Path, tally: Tally
) -> None:
    """A compacting job restarts from its checkpoint when interbed has compacted the same files first."""
    changes = additions(checkpoints=25)
    hive.flink.sql(SUMS.format(more="'num-sorted-run.compaction-trigger' = '2'"))
    job = insert_into(hive, "sums", changes, tmp_path)
    table = hive.table("sums")
    compacting = compact_until_done(table.copy({"write-only": "false"}), job)
    tally("compactions beside jobs of Flink's that compact", compacting)
    assert compacting > 2
    check(hive, java_paimon, "sums", sums(changes))


CHANGED = """
CREATE TABLE changed (
  id BIGINT, n BIGINT, written BIGINT, PRIMARY KEY (id) NOT ENFORCED
) WITH ('bucket' = '2', 'write-only' = 'true', 'changelog-producer' = '{producer}')
"""


@pytest.mark.long
@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_the_changelog_of_interbeds_compactions_has_the_rows_of_the_job(
    hive: SharedLake, java_paimon: JavaPaimon, tmp_path: Path, producer: str
) -> None:
    """A stream of Flink follows while another job writes and interbed's compactions produce the changelog."""
    changes = additions(CHECKPOINTS)
    expected = sorted({row[0]: row for _, row in changes}.values())
    hive.flink.sql(CHANGED.format(producer=producer))
    job = insert_into(hive, "changed", changes, tmp_path)
    table = hive.table("changed")
    compact_until_done(table, job)
    types = types_of(table)
    options = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
    told = streamed(table, options)
    assert rows_after(told, types) == read(table).comparable()
    given = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    with hive.flink.query(f"SELECT * FROM changed /*+ OPTIONS({given}) */") as query:
        assert by_key(query.fetch(len(told)), types) == by_key(told, types)
    check(hive, java_paimon, "changed", expected)
