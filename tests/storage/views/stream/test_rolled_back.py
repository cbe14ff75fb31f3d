"""A stream that resumes after a rollback reports an error where the table's history differs from what it has read."""

import json
import pickle
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import interbed
from interbed.storage.base.errors import InvalidInputError, SnapshotNotFoundError
from interbed.storage.table.table import Table
from interbed.storage.views.stream.micro_batches import BatchLimits, MicroBatches
from interbed.storage.views.stream.position import StreamCheckpoint, StreamPosition
from tests.storage.views.stream.test_stream_scan import create, rows
from tests.support.tally import Tally

REFUSAL = "recreated or rolled back; start a new stream"


def _written(warehouse: Path, *numbers: int, bucket: str = "1") -> Table:
    table = create(warehouse, changelog_producer="input", bucket=bucket)
    for number in numbers:
        table.upsert(rows(number))
    return table


def _read(table: Table, from_snapshot: int | str | None) -> tuple[list[int], StreamCheckpoint]:
    """The ids that a stream returns until its end, and its last checkpoint."""
    handed: list[Any] = []
    checkpoint = None
    for changes in table.stream(from_snapshot, idle_seconds=0):
        handed += changes.to_arrow()["id"].to_pylist()
        checkpoint = changes.checkpoint
    assert checkpoint is not None
    return handed, checkpoint


def _back_and_on(table: Table, version: int, *numbers: int) -> None:
    table.versions.rollback_to(version)
    for number in numbers:
        table.upsert(rows(number))


@pytest.mark.parametrize("newer", [1, 2, 3, 4])
def test_a_checkpoint_is_refused_when_its_snapshot_has_been_replaced(tmp_path: Path, newer: int) -> None:
    table = _written(tmp_path, 0, 1, 2, 3)
    handed, checkpoint = _read(table, 1)
    assert (handed, checkpoint) == ([0, 1, 2, 3], 5)
    _back_and_on(table, 2, *range(10, 10 + newer))
    for kept in (checkpoint, checkpoint.to_text(), pickle.loads(pickle.dumps(checkpoint))):
        for stream in (table.stream(kept, idle_seconds=0), table.audit_log().stream(kept, idle_seconds=0)):
            with pytest.raises(SnapshotNotFoundError, match=REFUSAL):
                list(stream)


def test_a_stream_resumes_after_a_rollback_to_a_snapshot_that_it_has_read(tmp_path: Path) -> None:
    table = _written(tmp_path, 0, 1)
    _, checkpoint = _read(table, 1)
    table.upsert(rows(2))
    _back_and_on(table, 2, 10)
    for kept in (checkpoint, checkpoint.to_text(), json.loads(json.dumps(checkpoint))):
        assert _read(table, kept)[0] == [10]


def test_a_stream_of_another_process_does_not_return_rolled_back_changes(tmp_path: Path) -> None:
    table = _written(tmp_path, 0, 1)
    scan = table.new_stream_scan()
    scan.restore(3)
    assert scan.plan() is None
    table.upsert(rows(2))
    # The process whose stream reads it next remembers the snapshot.
    assert table.store.snapshots.snapshot(3).id == 3
    other = _opened_elsewhere(tmp_path)
    _back_and_on(other, 2, 10)
    plan = scan.plan()
    assert plan is not None
    assert table.new_change_read().to_reader(plan.splits).read_all()["id"].to_pylist() == [10]


def test_a_running_stream_gets_an_error_too(tmp_path: Path) -> None:
    table = _written(tmp_path, 0, 1, 2)
    scan = table.new_stream_scan()
    assert scan.plan() is not None
    assert scan.checkpoint() == 4
    _back_and_on(_opened_elsewhere(tmp_path), 1, 10, 11, 12)
    with pytest.raises(SnapshotNotFoundError, match=REFUSAL):
        scan.plan()


def test_checkpoints_within_a_snapshot_record_the_snapshot_before(tmp_path: Path) -> None:
    table = _written(tmp_path, 0, bucket="4")
    table.upsert(rows(*range(20)))
    stream = iter(table.stream(2, idle_seconds=0, max_splits=1))
    assert next(stream).checkpoint == 2
    first = next(iter(table.stream(1, idle_seconds=0)))
    assert first.checkpoint is not None
    first = next(iter(table.stream(first.checkpoint, idle_seconds=0, max_splits=1)))
    assert first.checkpoint is not None
    assert (first.checkpoint, first.checkpoint.passed is None) == (2, False)
    table.upsert(rows(7))
    table.versions.create_tag("t", 1)
    table.versions.rollback_to("t")
    assert _read(_and_upsert(table, 8), first.checkpoint)[0] == [8]


def _opened_elsewhere(warehouse: Path) -> Table:
    return interbed.load_catalog("other", warehouse=f"file:{warehouse}").get_table("db.t")


def _and_upsert(table: Table, number: int) -> Table:
    table.upsert(rows(number))
    return table


def test_a_fast_forward_is_noticed(tmp_path: Path) -> None:
    table = _written(tmp_path, 0)
    table.versions.create_tag("t", 1)
    table.versions.create_branch("b", "t")
    for number in (1, 2):
        table.upsert(rows(number))
    _, checkpoint = _read(table, 1)
    branch = table.copy({"branch": "b"})
    for number in (10, 11, 12):
        branch.upsert(rows(number))
    table.versions.fast_forward("b")
    with pytest.raises(SnapshotNotFoundError, match=REFUSAL):
        list(table.stream(checkpoint.to_text(), idle_seconds=0))


def test_a_consumer_notices_a_rollback_and_its_file_stays_as_paimon_has_it(tmp_path: Path) -> None:
    table = _written(tmp_path, 0, 1, 2, 3)
    consumer = table.copy({"consumer-id": "c", "scan.mode": "from-snapshot", "scan.snapshot-id": "1"})
    assert _read(consumer, None)[0] == [0, 1, 2, 3]
    path = Path(table.location, "consumer", "consumer-c")
    kept = json.loads(path.read_text())
    assert kept["nextSnapshot"] == 5
    assert set(kept) == {"nextSnapshot", "passed"}
    _back_and_on(table, 2, 10, 11, 12, 13)
    with pytest.raises(SnapshotNotFoundError, match=r"rolled back; .* after resetting the consumer 'c'"):
        list(consumer.stream(idle_seconds=0))
    # A consumer file as Paimon writes it, which does not identify the previous snapshot.
    path.write_text(json.dumps({"nextSnapshot": 5}))
    assert _read(consumer, None)[0] == [12, 13]
    table.versions.reset_consumer("c", 3)
    assert _read(consumer, None)[0] == [10, 11, 12, 13]


def test_micro_batches_notice_a_rollback_at_every_position(tmp_path: Path) -> None:
    table = _written(tmp_path, 0, 1, bucket="4")
    table.upsert(rows(*range(20)))
    batches = MicroBatches(table.copy({"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}).store)
    positions = [batches.start()]
    while (end := batches.advance(positions[-1], BatchLimits(files=1))) is not None:
        positions.append(StreamPosition.from_json(end.to_json()))
    assert [p.snapshot_id for p in positions] == [1, 1, 2, 3, 3, 3, 3]
    _back_and_on(table, 1, 10)
    table.upsert(rows(*range(30, 50)))
    table.upsert(rows(60))
    for position in positions[2:]:
        with pytest.raises(SnapshotNotFoundError, match="recreated or rolled back"):
            batches.advance(position)
    for after, end in pairwise(positions[1:]):
        with pytest.raises(SnapshotNotFoundError, match="recreated or rolled back"):
            batches.splits(after, end)
    assert batches.advance(positions[1]) is not None
    # Positions of Paimon and of earlier versions have only the id.
    plain = StreamPosition.from_json('{"snapshotId":3,"index":3,"scanSnapshot":false,"totalSplits":4}')
    assert batches.advance(plain) is not None


def test_invalid_texts_of_checkpoints_are_refused(tmp_path: Path) -> None:
    table = _written(tmp_path, 0)
    assert StreamCheckpoint.of("7").to_text() == "7"
    assert StreamCheckpoint.of("7@a-b").to_text() == "7@a-b"
    for text in ("", "x", "@c", "-1@c", "5 @c"):
        with pytest.raises(InvalidInputError, match="Not a checkpoint of a stream"):
            table.stream(text)


def _resumed(table: Table, reader: str, kept: Any, apply: Callable[[Any], None]) -> Any:
    """Resume from the kept progress, read to the end, and return the new progress."""
    if reader == "positions":
        batches = MicroBatches(table.store)
        position = batches.start() if kept is None else StreamPosition.from_json(kept)
        while (end := batches.advance(position, BatchLimits(files=1))) is not None:
            apply(table.new_change_read().to_reader(batches.splits(position, end)).read_all())
            position = StreamPosition.from_json(end.to_json())
        return position.to_json()
    if reader == "consumer":
        for changes in table.copy({"consumer-id": "c"}).stream(idle_seconds=0):
            apply(changes.to_arrow())
        return None
    for changes in table.stream(kept, idle_seconds=0):
        apply(changes.to_arrow())
        kept = changes.checkpoint.to_text() if changes.checkpoint is not None else kept
    return kept


@pytest.mark.sample(1)
@pytest.mark.parametrize("reader", ["text", "consumer", "positions"])
def test_a_resumed_stream_yields_the_table_or_an_error_after_any_rollback(
    tmp_path: Path, reader: str, tally: Tally
) -> None:
    refused = resumed = 0
    for seed in range(12):
        source = random.Random(seed)
        table = _written(tmp_path / str(seed), 0)
        copy: dict[int, str] = {}
        kept: Any = None

        def apply(changes: Any, copy: dict[int, str] = copy) -> None:
            for row in changes.to_pylist():
                if row["_row_kind"] in (0, 2):
                    copy[row["id"]] = row["v"]
                else:
                    copy.pop(row["id"], None)

        for step in range(10):
            if source.random() < 0.3:
                table.versions.rollback_to(source.choice(table.store.snapshots.ids()))
            for _ in range(source.randrange(3)):
                table.upsert(rows(*source.sample(range(5), 2), v=f"{step} {source.random()}"))
            resumed += 1
            try:
                kept = _resumed(table, reader, kept, apply)
            except SnapshotNotFoundError:
                refused += 1
                kept = None
                copy.clear()
                table.versions.clear_consumers()
                continue
            assert copy == {row["id"]: row["v"] for row in table.scan().to_arrow().to_pylist()}
    assert 0 < refused < resumed
    tally("streams that went on, some of them after a rollback", resumed)


@pytest.mark.parametrize("newer", [0, 1, 2])
def test_micro_batches_that_end_at_the_newest_snapshot_notice_a_rollback(tmp_path: Path, newer: int) -> None:
    table = _written(tmp_path, 0, 1, 2)
    batches = MicroBatches(table.copy({"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}).store)
    end = batches.advance(batches.start(), last_snapshot=batches.newest())
    assert end is not None
    assert end.snapshot_id == 3
    assert batches.advance(end, last_snapshot=batches.newest()) is None
    _back_and_on(table, 1, *range(10, 10 + newer))
    with pytest.raises(SnapshotNotFoundError, match=REFUSAL):
        batches.advance(end, last_snapshot=batches.newest())


def test_micro_batches_notice_a_rollback_of_the_snapshot_whose_rows_they_read(tmp_path: Path) -> None:
    table = _written(tmp_path, 0, 1, 2)
    batches = MicroBatches(table.store)
    start = batches.start()
    assert start.full
    _back_and_on(table, 1)
    with pytest.raises(SnapshotNotFoundError, match=REFUSAL):
        batches.advance(start, last_snapshot=batches.newest())
