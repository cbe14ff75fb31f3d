"""A transactional log has the changes of the table's files, snapshot by snapshot, despite crashes and races."""

import contextlib
import logging
import multiprocessing
import random
import threading
from pathlib import Path
from typing import Any

import pytest

import interbed
from interbed.storage.base.errors import NotSupportedError, SnapshotNotFoundError
from interbed.storage.io.local import LocalFileIO
from interbed.storage.log.publisher import forget_writers
from interbed.storage.meta.snapshot.progress import LogPositions
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table
from tests.storage.log.tables import (
    QUICK,
    SCHEMA,
    change,
    changes_by_snapshot,
    changes_from_files,
    create,
    cut_log,
    log_options,
    warm_up,
)
from tests.support.dying_disk import DyingDisk, SimulatedKill
from tests.support.servers.kafka import KafkaServer
from tests.support.shares import each_run
from tests.support.waits import at_most

LONG = 30.0
"""So long that a stream does not look at the files: the changes come from the log."""


def from_log(table: Table, from_snapshot: int, count: int) -> list[Any]:
    """Return the changes in the log after a snapshot, `count` of them, without reading files."""
    stream = iter(_LogOnly(table).stream(from_snapshot))
    return changes_by_snapshot(next(stream) for _ in range(count))


class _LogOnly:
    """Streams of a table from which its files are hidden once they have begun."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def stream(self, from_snapshot: int) -> Any:
        stream = self._table.stream(from_snapshot, log=True, poll_seconds=LONG, idle_seconds=LONG)
        stream.scan.plan = lambda: None  # type: ignore[method-assign]
        return stream


def reopened(table: Table) -> Table:
    """The table as a new process opens it."""
    forget_writers()
    return Table(table.name, open_store(table.location))


PRODUCERS = ["none", "input", "lookup", "full-compaction"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("producer", PRODUCERS)
def test_the_log_has_the_same_changes_of_each_snapshot_as_the_files(
    kafka: KafkaServer, tmp_path: Path, producer: str
) -> None:
    table = create(kafka, tmp_path, changelog_producer=producer)
    change(table, seed=1, commits=6)
    table.compact()
    expected = changes_from_files(table, 1)
    assert expected
    assert from_log(table, 1, len(expected)) == expected
    assert LogPositions(table.store.file_io, table.store.paths).read() is not None


def test_append_tables_and_partitioned_tables_may_have_logs(kafka: KafkaServer, tmp_path: Path) -> None:
    append = create(kafka, tmp_path, keyed=False)
    change(append, seed=2, commits=3)
    expected = changes_from_files(append, 1)
    assert from_log(append, 1, 3) == expected
    catalog = interbed.load_catalog("test", warehouse=f"file:{tmp_path}")
    options = {"bucket": "3", **QUICK, **log_options(kafka)}
    rows = [{"id": i, "dt": f"2024-01-0{i % 3 + 1}", "v": "a"} for i in range(12)]
    table = catalog.create_table("db.parts", rows, primary_keys=["id", "dt"], partition_keys=["dt"], options=options)
    table.upsert(rows)
    table.upsert([{"id": 1, "dt": "2024-01-02", "v": "b"}])
    assert from_log(table, 1, 2) == changes_from_files(table, 1)


def test_a_stream_begins_with_the_newest_snapshot_and_continues_with_the_log(
    kafka: KafkaServer, tmp_path: Path
) -> None:
    table = create(kafka, tmp_path)
    change(table, seed=3, commits=4)
    stream = iter(table.stream(log=True, columns=["v", "id"], filter="id < 6", poll_seconds=LONG, idle_seconds=LONG))
    begin = next(stream).to_arrow()
    assert begin.drop_columns(["_row_kind"]).equals(table.scan(["v", "id"], filter="id < 6").to_arrow())
    table.upsert([{"id": 3, "v": "x"}, {"id": 9, "v": "y"}])
    changes = next(stream)
    assert changes.to_arrow().to_pylist() == [{"v": "x", "id": 3, "_row_kind": 0}]
    assert changes.checkpoint == table.latest_snapshot().id + 1  # type: ignore[union-attr]


def test_a_snapshot_records_the_offsets_of_the_log(kafka: KafkaServer, tmp_path: Path) -> None:
    table = create(kafka, tmp_path)
    change(table, seed=4, commits=3)
    offsets = [s.log_offsets for s in table.snapshots()]
    assert offsets[0] is None
    assert offsets[1] is not None
    assert offsets[2] is not None
    assert offsets[1].keys() == offsets[2].keys() == {"0", "1"}
    assert all(offsets[1][p] < offsets[2][p] for p in "01")


@pytest.mark.long
@pytest.mark.parametrize("seed", each_run(range(6), lambda seed: seed < 1))
def test_a_reader_killed_at_random_sees_every_change_once_and_in_order(
    kafka: KafkaServer, tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    producer = draw.choice(PRODUCERS)
    table = create(kafka, tmp_path, changelog_producer=producer, num_sorted_run__compaction_trigger="3")
    change(table, seed=seed, commits=draw.randint(0, 4))
    writer = threading.Thread(target=change, args=(table, seed + 100, 15))
    writer.start()
    seen: list[Any] = []
    position = 1
    # Each round is a process that is killed after some changes; the last ones that it got count as not processed.
    while writer.is_alive() or draw.random() < 0.8:
        given = []
        for changes in table.stream(position, log=True, poll_seconds=0.5, idle_seconds=0.5):
            given.append(changes)
            if len(given) > draw.randint(1, 4):
                break
        for changes in given[:-1] if len(given) > 1 else given:
            seen += changes_by_snapshot([changes])
            position = changes.checkpoint or position
    writer.join()
    seen += changes_by_snapshot(table.stream(position, log=True, poll_seconds=0.5, idle_seconds=1.0))
    assert [part for part in seen if part[1]] == changes_from_files(table, 1)


@pytest.mark.parametrize("every", each_run([7, 1], lambda every: every == 7))
def test_the_next_publisher_publishes_the_snapshots_of_one_that_died(
    kafka: KafkaServer, tmp_path: Path, every: int
) -> None:
    template = create(kafka, tmp_path)
    steps = _steps_of_a_commit(template)
    for step in range(0, steps, every):
        table = create(kafka, tmp_path)
        table.upsert([{"id": 1, "v": "a"}])
        forget_writers()
        dying = Table(table.name, open_store(table.location, LocalFileIO(DyingDisk(step))))
        with contextlib.suppress(SimulatedKill):
            dying.upsert([{"id": 2, "v": "b"}])
        after = reopened(table)
        after.upsert([{"id": 3, "v": "c"}])
        expected = changes_from_files(after, 1)
        assert from_log(after, 1, len(expected)) == expected
        assert after.maintenance.publish_log() == after.latest_snapshot().id  # type: ignore[union-attr]


def _steps_of_a_commit(table: Table) -> int:
    disk = DyingDisk()
    alive = Table(table.name, open_store(table.location, LocalFileIO(disk)))
    alive.upsert([{"id": 1, "v": "a"}])
    before = len(disk.steps)
    alive.upsert([{"id": 2, "v": "b"}])
    return len(disk.steps) - before


def test_a_published_but_unrecorded_snapshot_is_not_published_twice(kafka: KafkaServer, tmp_path: Path) -> None:
    table = create(kafka, tmp_path)
    change(table, seed=5, commits=3)
    LogPositions(table.store.file_io, table.store.paths).delete()
    after = reopened(table)
    assert after.maintenance.publish_log() == 3
    after.upsert([{"id": 1, "v": "z"}])
    expected = changes_from_files(after, 1)
    assert from_log(after, 1, len(expected)) == expected
    noted = LogPositions(table.store.file_io, table.store.paths).read()
    assert noted is not None
    assert noted.snapshot == 4


def _write(location: str, seed: int, commits: int) -> None:
    change(Table("t", open_store(location)), seed, commits)


@pytest.mark.long
def test_each_snapshot_of_several_concurrent_processes_is_published_once(kafka: KafkaServer, tmp_path: Path) -> None:
    table = create(kafka, tmp_path)
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(table.location, seed, 6)) for seed in (1, 2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(at_most(120))
        assert writer.exitcode == 0
    last = reopened(table).maintenance.publish_log()
    expected = changes_from_files(table, 1)
    assert last == table.latest_snapshot().id  # type: ignore[union-attr]
    assert len(expected) == 12
    assert from_log(table, 1, len(expected)) == expected


@pytest.mark.long
def test_snapshots_are_published_exactly_once_when_writers_are_killed_at_any_moment(
    kafka: KafkaServer, tmp_path: Path
) -> None:
    table = create(kafka, tmp_path)
    draw = random.Random(1)
    context = multiprocessing.get_context("spawn")
    for number in range(8):
        writer = context.Process(target=_write, args=(table.location, number, 1_000))
        writer.start()
        enough = (table.store.snapshots.latest_id() or 0) + draw.randint(1, 4)
        while (table.store.snapshots.latest_id() or 0) < enough:
            # The moment lies between two looks, so the process is killed at another point of a commit each time.
            writer.join(draw.random() / 10)
            assert writer.exitcode is None
        writer.kill()
        writer.join()
    assert reopened(table).maintenance.publish_log() == table.store.snapshots.latest_id()
    expected = changes_from_files(table, 1)
    assert from_log(table, 1, len(expected)) == expected


@pytest.mark.long
@pytest.mark.usefixtures("answered_soon_or_not")
def test_a_broker_that_is_down_fails_no_commit_and_no_reader(
    kafka: KafkaServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = create(kafka, tmp_path)
    change(table, seed=6, commits=2)
    seen = changes_by_snapshot(table.stream(1, log=True, poll_seconds=0.5, idle_seconds=0.5))
    kafka.kill()
    try:
        with caplog.at_level(logging.WARNING):
            change(table, seed=7, commits=2)
        assert "not in its log yet" in caplog.text
        seen += changes_by_snapshot(table.stream(3, log=True, poll_seconds=0.2, idle_seconds=0.2))
        assert seen == changes_from_files(table, 1)
    finally:
        kafka.start()
        warm_up(kafka)
    after = reopened(table)
    assert after.maintenance.publish_log() == 4
    assert from_log(after, 1, 4) == changes_from_files(table, 1)


def test_records_deleted_by_retention_are_read_from_the_files(kafka: KafkaServer, tmp_path: Path) -> None:
    table = create(kafka, tmp_path)
    change(table, seed=8, commits=6)
    expected = changes_from_files(table, 1)
    # Cut in the middle of the records of a snapshot, and of another one in each partition.
    third, fourth = table.snapshots()[2].log_offsets, table.snapshots()[3].log_offsets
    assert third is not None
    assert fourth is not None
    cut_log(kafka, table, {0: third["0"] + 1, 1: fourth["1"]})
    stream = table.stream(1, log=True, poll_seconds=0.5, idle_seconds=1.0)
    assert changes_by_snapshot(stream) == expected
    assert from_log(table, 5, 2) == expected[4:]


@pytest.mark.long
def test_a_log_outlives_the_snapshots_of_its_files(kafka: KafkaServer, tmp_path: Path) -> None:
    table = create(kafka, tmp_path)
    change(table, seed=9, commits=5)
    expected = changes_from_files(table, 1)
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    assert len(table.snapshots()) == 1
    with pytest.raises(SnapshotNotFoundError):
        changes_by_snapshot(table.stream(1, idle_seconds=0))
    assert changes_by_snapshot(table.stream(1, log=True, poll_seconds=0.5, idle_seconds=1.0)) == expected
    # Changes that are neither in the log nor in the files are an error.
    fourth = table.snapshots()[-1].log_offsets
    assert fourth is not None
    cut_log(kafka, table, {int(p): offset for p, offset in fourth.items()})
    with pytest.raises(SnapshotNotFoundError, match="has expired"):
        changes_by_snapshot(table.stream(1, log=True, poll_seconds=LONG, idle_seconds=LONG))


def test_snapshots_do_not_expire_before_they_are_published(kafka: KafkaServer, tmp_path: Path) -> None:
    table = create(kafka, tmp_path)
    change(table, seed=10, commits=2)
    quiet = table.copy({"log.system": "none"})
    change(quiet, seed=11, commits=3)
    assert table.maintenance.expire_snapshots(retain_max=1, retain_min=1).snapshots == (1, 2)
    # A writer that does not use the log lets the snapshots expire; readers of the log get an error.
    quiet.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    assert reopened(table).maintenance.publish_log() == 5
    with pytest.raises(SnapshotNotFoundError, match="has expired"):
        changes_by_snapshot(table.stream(3, log=True, poll_seconds=0.5, idle_seconds=0.5))
    assert from_log(table, 5, 1) == changes_from_files(table, 5)


def test_readers_get_an_error_after_a_rollback_of_the_table(kafka: KafkaServer, tmp_path: Path) -> None:
    table = create(kafka, tmp_path)
    change(table, seed=12, commits=4)
    stream = iter(_LogOnly(table).stream(3))
    given = [next(stream), next(stream)]
    table.upsert([{"id": 1, "v": "a"}])
    assert changes_by_snapshot([*given, next(stream)]) == changes_from_files(table, 3)
    table.versions.rollback_to(2)
    change(table, seed=13, commits=4)
    with pytest.raises(SnapshotNotFoundError, match="rolled back"):
        next(stream)
    # A new stream finds the new history in the log, and earlier changes in the files.
    assert changes_by_snapshot(table.stream(1, log=True, poll_seconds=0.5, idle_seconds=1.0)) == changes_from_files(
        table, 1
    )


def test_an_overwrite_is_published_as_a_stream_of_the_files_returns_it(
    kafka: KafkaServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    silent = create(kafka, tmp_path)
    silent.upsert([{"id": 1, "v": "a"}])
    silent.truncate()
    silent.upsert([{"id": 2, "v": "b"}])
    with caplog.at_level(logging.WARNING):
        assert from_log(silent, 1, 2) == changes_from_files(silent, 1)
    assert "streaming-read-overwrite" in caplog.text
    table = create(kafka, tmp_path, streaming_read_overwrite="true")
    table.upsert([{"id": 1, "v": "a"}])
    table.truncate()
    assert from_log(table, 1, 2)[1] == (2, [{"id": 1, "v": "a", "_row_kind": 3}])


@pytest.mark.long
def test_columns_added_later_are_in_the_log(kafka: KafkaServer, tmp_path: Path) -> None:
    table = create(kafka, tmp_path)
    table.upsert([{"id": 1, "v": "a"}])
    old = reopened(table)
    with table.update_schema() as update:
        update.add_column("w", "INT")
        update.rename_column("v", "u")
    table.upsert([{"id": 2, "u": "b", "w": 7}])
    # A committer that has not read the new schema publishes the new columns, too.
    old.upsert([{"id": 3, "v": "c"}])
    expected = changes_from_files(table, 1)
    assert expected[1] == (2, [{"id": 2, "u": "b", "w": 7, "_row_kind": 0}])
    assert from_log(table, 1, 3) == expected


def test_branches_have_no_log(kafka: KafkaServer, tmp_path: Path) -> None:
    table = create(kafka, tmp_path)
    table.upsert([{"id": 1, "v": "a"}])
    table.versions.create_branch("b")
    branch = table.branch("b")
    branch.upsert([{"id": 2, "v": "b"}])
    for refused in (branch.maintenance.publish_log, lambda: branch.stream(log=True)):
        with pytest.raises(NotSupportedError, match="branches have"):
            refused()
    table.upsert([{"id": 3, "v": "c"}])
    assert from_log(table, 1, 2) == changes_from_files(table, 1)


def test_a_table_without_a_log_is_refused_by_name(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("test", warehouse=f"file:{tmp_path}")
    catalog.create_database("db")
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    for refused in (table.maintenance.publish_log, lambda: table.stream(log=True)):
        with pytest.raises(NotSupportedError, match=r"log\.system"):
            refused()
