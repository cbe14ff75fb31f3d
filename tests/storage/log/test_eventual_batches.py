"""Micro-batches of an eventual log: their changes converge to the table, and each batch can be read again."""

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from interbed.storage.base.errors import InvalidInputError, NotSupportedError, SnapshotNotFoundError
from interbed.storage.meta.file_store import StoreEnvironment
from interbed.storage.read.change_read import ROW_KIND, ChangeRead
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table
from interbed.storage.views.stream.eventual_batches import EventualBatches, LogStep, LogStepRead
from interbed.storage.views.stream.micro_batches import BatchLimits
from interbed.storage.views.stream.position import LogBatchPosition
from tests.storage.log.tables import Row, apply_change, change_somehow, create, cut_log, rows_of
from tests.support.servers.kafka import KafkaServer
from tests.support.shares import each_run


class BatchQuery:
    """A stream by micro-batches as an engine runs it, and the resulting rows; each change must fit these rows."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.batches = EventualBatches(table.store)
        self.position = self.batches.start()
        self.rows: dict[int, Row] = {}

    def step(self, limits: BatchLimits | None = None, *, last_snapshot: int | None = None) -> list[Row] | None:
        """Apply the changes of the next batch and return them; None when there is no batch."""
        end = self.batches.advance(self.position, limits, last_snapshot=last_snapshot)
        if end is None:
            return None
        changes = self.read(self.position, end)
        self.position = end
        for each in changes:
            row = dict(each)
            apply_change(self.rows, row.pop(ROW_KIND), row)
        return changes

    def read(self, after: str, end: str) -> list[Row]:
        """The changes between two positions."""
        splits = self.batches.splits(after, end)
        if splits is not None:
            return list(ChangeRead(self.table.store).to_reader(splits).read_all().to_pylist())
        found: list[Row] = []
        for step in self.batches.steps(after, end):
            sent = LogStep.from_bytes(step.to_bytes())
            assert sent == step
            for batch in LogStepRead(self.table.store).to_batches(sent):
                found += batch.to_pylist()
        return found

    def to_end(self) -> None:
        """Read until there are no more changes."""
        while self.step() is not None:
            pass


@pytest.fixture
def table(kafka: KafkaServer, tmp_path: Path) -> Table:
    return create(kafka, tmp_path, log__consistency="eventual")


@pytest.mark.parametrize("seed", each_run(range(10), lambda seed: seed < 1))
def test_batches_converge_to_the_table_and_are_repeatable(table: Table, seed: int) -> None:
    draw = random.Random(seed)
    query = BatchQuery(table)
    read: list[tuple[str, str, list[Row]]] = []
    for step in range(14):
        change_somehow(table, draw, f"{step}")
        if draw.random() < 0.7:
            before = query.position
            changes = query.step(BatchLimits(rows=draw.choice([None, 1, 3])))
            if changes is not None:
                read.append((before, query.position, changes))
    table.upsert([{"id": 100, "v": "the end"}])
    query.to_end()
    assert query.rows == rows_of(table)
    for before, after, changes in read:
        assert query.read(before, after) == changes


def test_rows_are_read_before_their_commit_and_withdrawn_without_one(table: Table) -> None:
    table.upsert([{"id": 1, "v": "a"}])
    query = BatchQuery(table)
    query.to_end()
    with table.new_write("never") as writer:
        writer.write_arrow(pa.table({"id": [1, 2], "v": ["b", "b"]}))
        writer.prepare_commit()
        query.to_end()
    assert query.rows == {1: {"id": 1, "v": "b"}, 2: {"id": 2, "v": "b"}}
    table.upsert([{"id": 3, "v": "c"}])
    query.to_end()
    assert query.rows == rows_of(table) == {1: {"id": 1, "v": "a"}, 3: {"id": 3, "v": "c"}}


def test_a_run_that_ends_at_a_snapshot_returns_only_changes_in_it(table: Table) -> None:
    table.upsert([{"id": 1, "v": "a"}])
    query = BatchQuery(table)
    last = query.batches.newest()
    table.upsert([{"id": 1, "v": "b"}])
    while query.step(last_snapshot=last) is not None:
        pass
    assert query.rows == {1: {"id": 1, "v": "a"}}
    while query.step(last_snapshot=query.batches.newest()) is not None:
        pass
    assert query.rows == rows_of(table)


def test_a_batch_waits_for_the_minimum_number_of_rows(table: Table) -> None:
    query = BatchQuery(table)
    table.upsert([{"id": 1, "v": "a"}])
    assert query.step(BatchLimits(min_rows=2)) is None
    table.upsert([{"id": 2, "v": "a"}])
    assert query.step(BatchLimits(min_rows=2)) is not None
    assert query.rows == rows_of(table)


def test_deletion_of_records_that_were_read_already_ends_the_stream(kafka: KafkaServer, table: Table) -> None:
    query = BatchQuery(table)
    with table.new_write("never") as writer:
        writer.write_arrow(pa.table({"id": list(range(20)), "v": ["never"] * 20}))
        writer.prepare_commit()
        query.to_end()
    assert len(query.rows) == 20
    position = LogBatchPosition.from_json(query.position)
    assert isinstance(position, LogBatchPosition)
    cut_log(kafka, table, dict(position.log))
    with pytest.raises(SnapshotNotFoundError, match="Start a new stream"):
        query.step()


def test_unread_records_deleted_from_the_log_are_read_from_the_snapshots(kafka: KafkaServer, table: Table) -> None:
    query = BatchQuery(table)
    table.upsert([{"id": 1, "v": "a"}, {"id": 2, "v": "a"}])
    offsets = table.snapshots()[-1].log_offsets
    assert offsets is not None
    cut_log(kafka, table, {int(p): offset for p, offset in offsets.items()})
    query.to_end()
    assert query.rows == rows_of(table)


def test_a_rollback_of_the_table_ends_its_streams(table: Table) -> None:
    table.upsert([{"id": 1, "v": "a"}])
    table.upsert([{"id": 1, "v": "b"}])
    query = BatchQuery(table)
    query.to_end()
    table.upsert([{"id": 1, "v": "c"}])
    query.to_end()
    table.versions.rollback_to(1)
    with pytest.raises(SnapshotNotFoundError, match="rolled back"):
        query.step()
    table.upsert([{"id": 1, "v": "d"}])
    table.upsert([{"id": 1, "v": "e"}])
    # Another snapshot has the id now.
    with pytest.raises(SnapshotNotFoundError, match="rolled back"):
        query.step()


def test_a_batch_ends_at_the_snapshot_against_which_its_beginning_was_checked(table: Table) -> None:
    query = BatchQuery(table)
    for value in "abc":
        table.upsert([{"id": 1, "v": value}])
    query.to_end()
    questions = 0

    def rolled_back_at_the_second_question() -> None:
        nonlocal questions
        questions += 1
        if questions == 2:
            table.versions.rollback_to(1)

    # The catalog is asked at each look-up of the newest snapshot.
    environment = StoreEnvironment(known_latest=rolled_back_at_the_second_question)
    batches = EventualBatches(open_store(table.location, environment=environment))
    assert batches.advance(query.position) is None
    assert questions == 1
    with pytest.raises(SnapshotNotFoundError, match="rolled back"):
        batches.advance(query.position)


def test_options_that_micro_batches_do_not_support_are_refused(table: Table) -> None:
    for option in ({"consumer-id": "me"}, {"log.scan.remove-normalize": "true"}):
        with pytest.raises(NotSupportedError, match=next(iter(option))):
            EventualBatches(table.copy(option).store)


@pytest.mark.parametrize("text", ["", "7", '{"log": {"0": 1}}', '{"snapshotId": "x", "log": {}, "covered": {}}'])
def test_an_invalid_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="Not a position"):
        LogBatchPosition.from_json(text)


def test_damaged_bytes_of_a_step_are_refused() -> None:
    step = LogStep(bucket=0, before=1, emitted=(0, 1), after=1, written=(1, 2), splits=())
    assert LogStep.from_bytes(step.to_bytes()) == step
    with pytest.raises(InvalidInputError, match="Not a step"):
        LogStep.from_bytes(replace(step, bucket=1).to_bytes()[:-3])
