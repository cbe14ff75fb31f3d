"""An eventual log: rows are read as they are written, and the changes that readers got converge to the table."""

import logging
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import InvalidOptionError, LogUnavailableError, SnapshotNotFoundError
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.log.kafka import identity_of
from interbed.storage.log.kafka_eventual import forget_senders
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table
from tests.storage.log.tables import (
    QUICK,
    Row,
    apply_change,
    change,
    change_somehow,
    create,
    cut_log,
    log_options,
    rows_of,
    silently,
)
from tests.support.servers.kafka import KafkaServer, running_kafka
from tests.support.shares import each_run
from tests.support.waits import past_millisecond

SOON = 0.05


class EventualReader:
    """A stream and the rows that result from its changes; each change must fit these rows."""

    def __init__(
        self,
        table: Table,
        from_snapshot: int | None = None,
        rows: dict[int, Row] | None = None,
        idle_seconds: float = 60,
    ) -> None:
        self.rows: dict[int, Row] = {} if rows is None else rows
        self.checkpoint = from_snapshot
        self.is_strict = True
        self.received: list[tuple[int, int, Any]] = []
        # So long, as a rule, that only the test ends it.
        self._stream: Any = iter(table.stream(from_snapshot, log=True, poll_seconds=SOON, idle_seconds=idle_seconds))

    def take(self) -> None:
        """Wait for the next changes, and apply them."""
        self._apply(next(self._stream))

    def take_some(self, most: int) -> None:
        """Apply the next changes, up to that number, if there are any."""
        for changes in islice(self._stream, most):
            self._apply(changes)

    def _apply(self, changes: Any) -> None:
        self.checkpoint = changes.checkpoint
        for row in changes.to_arrow().to_pylist():
            kind = row.pop("_row_kind")
            self.received.append((kind, row["id"], row["v"]))
            apply_change(self.rows, kind, row, is_strict=self.is_strict)

    def until(self, rows: dict[int, Row]) -> None:
        """Read changes until they result in these rows."""
        while self.rows != rows:
            self.take()

    def close(self) -> None:
        self._stream.close()


@pytest.fixture
def table(kafka: KafkaServer, tmp_path: Path) -> Table:
    return create(kafka, tmp_path, log__consistency="eventual")


def row(number: int, value: str | None) -> dict[int, Row]:
    return {number: {"id": number, "v": value}}


def test_rows_are_read_before_they_are_committed(table: Table) -> None:
    reader = EventualReader(table)
    with table.new_write("me") as write:
        write.write_arrow(pa.table({"id": [1], "v": ["a"]}))
        reader.until(row(1, "a"))
        assert table.latest_snapshot() is None
        FileStoreCommit(table.store, "me").commit(write.prepare_commit())
    table.upsert([{"id": 1, "v": "b"}])
    table.upsert([{"id": 2, "v": "c"}])
    reader.until(rows_of(table))
    assert reader.received == [(0, 1, "a"), (1, 1, "a"), (2, 1, "b"), (0, 2, "c")]
    table.write_changes([{"id": 2, "v": "c", "_row_kind": "-D"}])
    reader.until(row(1, "b"))
    assert reader.received[4:] == [(3, 2, "c")]
    reader.close()


def test_a_stream_begins_with_the_newest_snapshot(table: Table) -> None:
    change(table, seed=5, commits=4)
    begun = rows_of(table)
    reader = EventualReader(table)
    reader.take()
    assert reader.rows == begun
    table.upsert([{"id": 3, "v": "x"}, {"id": 99, "v": "y"}])
    reader.until(rows_of(table))
    changed = [kind for kind, number, _ in reader.received[len(begun) :] if number == 3]
    assert changed == ([1, 2] if 3 in begun else [0])
    reader.close()


def test_columns_and_filters_work_as_in_any_stream(table: Table) -> None:
    table.upsert([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}])
    stream = iter(
        table.stream(log=True, columns=["v"], filter="id = 1", poll_seconds=SOON, idle_seconds=60),
    )
    assert next(stream).to_arrow().to_pylist() == [{"v": "a", "_row_kind": 0}]
    table.upsert([{"id": 1, "v": "c"}])
    assert next(stream).to_arrow().to_pylist() == [{"v": "a", "_row_kind": 1}, {"v": "c", "_row_kind": 2}]
    stream.close()


def test_rows_that_were_never_committed_are_corrected_at_the_next_snapshot(table: Table) -> None:
    table.upsert([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}])
    reader = EventualReader(table)
    with table.new_write("never") as write:
        write.write_arrow(pa.table({"id": [1, 7], "v": ["z", "z"]}))
        reader.until({**row(1, "z"), **row(2, "b"), **row(7, "z")})
    table.upsert([{"id": 3, "v": "c"}])
    reader.until(rows_of(table))
    assert reader.rows == {**row(1, "a"), **row(2, "b"), **row(3, "c")}
    reader.close()


def test_commits_of_writers_that_do_not_use_the_log_are_read_too(table: Table) -> None:
    table.upsert([{"id": n, "v": "a"} for n in range(6)])
    reader = EventualReader(table)
    silent = silently(table)
    silent.upsert([{"id": 1, "v": "b"}, {"id": 9, "v": "b"}])
    reader.until(rows_of(table))
    table.compact()
    silent.overwrite([{"id": 1, "v": "c"}, {"id": 8, "v": "c"}])
    reader.until({**row(1, "c"), **row(8, "c")})
    table.truncate()
    reader.until({})
    reader.close()


@pytest.mark.parametrize("seed", each_run(range(10), lambda seed: seed < 1))
def test_any_sequence_of_changes_converges_to_the_table(table: Table, seed: int) -> None:
    draw = random.Random(seed)
    reader = EventualReader(table)
    for step in range(14):
        if change_somehow(table, draw, f"{step}") and draw.random() < 0.5:
            # Everything in the log precedes its snapshot.
            reader.until(rows_of(table))
    table.upsert([{"id": 100, "v": "the end"}])
    reader.until(rows_of(table))
    reader.close()


@pytest.mark.parametrize("seed", each_run(range(6), lambda seed: seed < 1))
def test_a_killed_reader_resumes_from_its_checkpoint(table: Table, seed: int) -> None:
    draw = random.Random(seed)
    reader = EventualReader(table, idle_seconds=0.3)
    change(table, seed=seed, commits=2)
    for number in range(6):
        with table.new_write("never") as write:
            write.write_arrow(pa.table({"id": [draw.randint(0, 15)], "v": ["never"]}))
        reader.take_some(draw.randint(0, 4))
        reader.close()
        if draw.random() < 0.6:
            change(table, seed=100 * seed + number, commits=draw.randint(1, 3))
        reader = EventualReader(table, reader.checkpoint, reader.rows, idle_seconds=0.3)
        # Changes after the checkpoint are repeated.
        reader.is_strict = False
    table.upsert([{"id": 100, "v": "the end"}])
    reader.close()
    reader = EventualReader(table, reader.checkpoint, reader.rows)
    reader.is_strict = False
    reader.until(rows_of(table))
    reader.close()


def test_a_stream_ends_when_it_was_idle_for_long_enough(table: Table) -> None:
    change(table, seed=3, commits=3)
    received: dict[int, Row] = {}
    for changes in table.stream(from_snapshot=1, log=True, idle_seconds=0):
        for each in changes.to_arrow().to_pylist():
            kind = each.pop("_row_kind")
            received.pop(each["id"], None)
            if kind in (0, 2):
                received[each["id"]] = each
    assert received == rows_of(table)


@pytest.mark.long
def test_records_deleted_by_retention_are_read_from_the_snapshots(kafka: KafkaServer, table: Table) -> None:
    change(table, seed=8, commits=4)
    offsets = table.snapshots()[-1].log_offsets
    assert offsets is not None
    cut_log(kafka, table, {int(p): offset for p, offset in offsets.items()})
    reader = EventualReader(table, from_snapshot=2)
    # The reader resumes from a checkpoint, and also receives unchanged rows.
    reader.is_strict = False
    reader.rows = rows_of(table.copy({"scan.snapshot-id": "1"}))
    reader.until(rows_of(table))
    reader.close()


def test_raw_records_are_returned_as_they_were_written(table: Table) -> None:
    table.upsert([{"id": 1, "v": "a"}])
    raw = table.copy({"log.scan.remove-normalize": "true"})
    stream = iter(raw.stream(log=True, poll_seconds=SOON, idle_seconds=60))
    assert next(stream).to_arrow().to_pylist() == [{"id": 1, "v": "a", "_row_kind": 0}]
    table.upsert([{"id": 1, "v": "a"}])
    table.write_changes([{"id": 1, "v": "a", "_row_kind": "-D"}])
    received: list[Row] = []
    while len(received) < 2:
        received += next(stream).to_arrow().to_pylist()
    assert received == [{"id": 1, "v": "a", "_row_kind": 2}, {"id": 1, "v": None, "_row_kind": 3}]
    stream.close()


@pytest.mark.long
def test_added_and_changed_columns_are_read_with_the_schema_of_the_stream(table: Table) -> None:
    table.upsert([{"id": 1, "v": "a"}])
    reader = EventualReader(table)
    reader.take()
    with table.update_schema() as update:
        update.add_column("more", "INT")
    table.upsert([{"id": 1, "v": "a", "more": 1}, {"id": 2, "v": "b", "more": 2}])
    reader.until({**row(1, "a"), **row(2, "b")})
    assert [kind for kind, _, _ in reader.received] == [0, 0]
    reader.close()
    later = EventualReader(table, from_snapshot=1)
    later.is_strict = False
    later.until(rows_of(table))
    later.close()


def test_a_rollback_of_the_table_ends_its_streams(table: Table) -> None:
    change(table, seed=1, commits=3)
    reader = EventualReader(table)
    reader.take()
    table.versions.rollback_to(1)
    table.upsert([{"id": 50, "v": "x"}])
    with pytest.raises(SnapshotNotFoundError, match="rolled back"):
        reader.take_some(10)


def test_a_commit_records_the_offsets_of_the_log(table: Table) -> None:
    table.upsert([{"id": n, "v": "a"} for n in range(8)])
    table.compact()
    table.upsert([{"id": n, "v": "b"} for n in range(8)])
    offsets = [s.log_offsets or {} for s in table.snapshots()]
    assert [sum(each.values()) for each in offsets] == [8, 8, 16]


def test_a_stream_refuses_the_log_of_another_table_in_the_same_topic(
    kafka: KafkaServer, tmp_path: Path, table: Table
) -> None:
    topic = table.options.kafka_topic
    assert identity_of(table.store) <= past_millisecond()
    other = create(kafka, tmp_path, kafka__topic=topic, log__consistency="eventual")
    other.upsert([{"id": 1, "v": "a"}])
    with pytest.raises(InvalidOptionError, match="log of another table"):
        list(table.stream(log=True, idle_seconds=0))


@pytest.fixture
def own_kafka() -> Iterator[KafkaServer]:
    with running_kafka() as server:
        yield server
    forget_senders()


# The tests of publishing use a broker that is down in every run.
@pytest.mark.long
@pytest.mark.usefixtures("answered_soon_or_not")
def test_a_broker_that_is_down_fails_the_write_and_no_reader(
    own_kafka: KafkaServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = create(own_kafka, tmp_path, kafka__message__timeout__ms="1500", log__consistency="eventual")
    _written(table, 1, "a")
    reader = EventualReader(table)
    reader.take()
    own_kafka.kill()
    with pytest.raises(LogUnavailableError):
        table.upsert([{"id": 2, "v": "b"}])
    assert rows_of(table) == row(1, "a")
    with caplog.at_level(logging.WARNING):
        silently(table).upsert([{"id": 3, "v": "c"}])
        reader.until({**row(1, "a"), **row(3, "c")})
    own_kafka.start()
    _written(table, 4, "d")
    reader.until(rows_of(table))
    assert set(reader.rows) == {1, 3, 4}
    reader.close()


def _written(table: Table, number: int, value: str) -> None:
    """Write until the broker, which was just started, accepts it."""
    while True:
        try:
            Table(table.name, open_store(table.location)).upsert([{"id": number, "v": value}])
        except LogUnavailableError:
            continue
        return


@pytest.mark.long
def test_partitioned_tables_may_have_an_eventual_log(kafka: KafkaServer, tmp_path: Path) -> None:
    catalog = interbed.load_catalog("test", warehouse=f"file:{tmp_path}")
    catalog.create_database("db", ignore_if_exists=True)
    rows = [{"id": i, "dt": f"2024-01-0{i % 3 + 1}", "v": "a"} for i in range(9)]
    options = {"bucket": "2", "log.consistency": "eventual", **QUICK, **log_options(kafka)}
    table = catalog.create_table(
        "db.parts_eventual", rows, primary_keys=["id", "dt"], partition_keys=["dt"], options=options
    )
    reader = EventualReader(table)
    table.upsert(rows)
    reader.until(rows_of(table))
    table.delete_partitions({"dt": "2024-01-02"})
    reader.until(rows_of(table))
    assert len(reader.rows) == 6
    reader.close()
