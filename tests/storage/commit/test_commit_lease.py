"""Turns of the writers of a table in an object store: a writer that lost a race waits for a turn and gets it.

Faults of the turn file never make a commit fail.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.storage.commit.contention import (
    CONTENDED_SECONDS,
    HELD_SECONDS_MAX,
    HELD_SECONDS_MIN,
    CommitLease,
)
from interbed.storage.io.api import FileIO
from interbed.storage.io.faults import Fault, FaultAction, FaultyFileIO
from interbed.storage.io.local import LocalFileIO


class FakeClock:
    """A clock that advances only by sleeping; `meanwhile` is called during each sleep."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.meanwhile: Callable[[], None] = lambda: None

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()


class TurnFile:
    """The turn file of one table."""

    def __init__(self, directory: Path, file_io: FileIO) -> None:
        self.file = directory / "turn"
        self.clock = FakeClock()
        self._file_io = file_io

    def queue(self) -> CommitLease:
        return CommitLease(self._file_io, str(self.file), clock=self.clock.time, sleep=self.clock.sleep)

    def waits(self) -> bool:
        """Return whether the next commit of this process waits for a turn of its own."""
        with self.queue() as queue:
            return queue.take(1)


@pytest.fixture
def table(tmp_path: Path) -> TurnFile:
    return TurnFile(tmp_path, LocalFileIO())


def test_a_writer_without_contention_takes_no_turn(table: TurnFile) -> None:
    table.file.write_bytes(b"another")
    assert not table.waits()
    assert table.clock.now == 1000
    with table.queue() as queue:
        queue.meet()
    assert not table.waits()
    assert table.clock.now > 1001
    assert table.file.read_bytes() == b"another"


def test_a_writer_that_lost_a_race_takes_turns_for_a_while(table: TurnFile) -> None:
    with table.queue() as queue:
        assert not queue.take(1)
        queue.lost()
        assert queue.take(1)
        assert queue.is_taken
        assert table.file.exists()
        assert queue.take(1)
    assert not table.file.exists()
    for _ in range(int(CONTENDED_SECONDS)):
        assert table.waits()
        table.clock.now += 1
    # Turns without contention do not extend that time.
    assert not table.waits()


def test_one_writer_at_a_time_has_a_turn(table: TurnFile) -> None:
    with table.queue() as first:
        first.lost()
        assert first.take(1)
        with table.queue() as second:
            assert not second.take(1)
        assert table.file.exists()
        third = table.queue()

        def end() -> None:
            first.__exit__(None, None, None)

        table.clock.meanwhile = end
        with third:
            assert third.take(1)


@pytest.mark.parametrize(("try_seconds", "held"), [(0.1, HELD_SECONDS_MIN), (2.0, 8.0), (60.0, HELD_SECONDS_MAX)])
def test_the_wait_for_a_dead_writer_depends_on_the_length_of_an_attempt(
    table: TurnFile, try_seconds: float, held: float
) -> None:
    table.file.write_bytes(b"dead")
    with table.queue() as queue:
        table.clock.now += try_seconds
        queue.lost()
        began = table.clock.now
        assert queue.take(HELD_SECONDS_MAX + 1)
        assert held <= table.clock.now - began <= held + 1
        assert table.file.read_bytes() != b"dead"


def test_a_writer_waits_while_others_take_turns(table: TurnFile) -> None:
    turns = 0

    def next_turn() -> None:
        nonlocal turns
        turns += 1
        table.file.write_bytes(b"%d" % turns)
        if turns == 100:
            table.file.unlink()

    table.file.write_bytes(b"0")
    table.clock.meanwhile = next_turn
    with table.queue() as queue:
        queue.lost()
        assert queue.take(60)
    assert turns == 100


def test_a_slow_writer_does_not_delete_the_turn_of_another(table: TurnFile) -> None:
    with table.queue() as slow:
        slow.lost()
        assert slow.take(1)
        table.clock.now += HELD_SECONDS_MIN
        table.file.write_bytes(b"another")
    assert table.file.read_bytes() == b"another"


@pytest.mark.parametrize("operation", ["create_exclusive", "read_bytes"])
def test_commits_go_on_without_turns_where_the_store_refuses_the_file(tmp_path: Path, operation: str) -> None:
    fault = Fault(operation=operation, pattern="*/turn", action=FaultAction.FAIL_BEFORE)
    table = TurnFile(tmp_path, FaultyFileIO(LocalFileIO(), [fault]))
    with table.queue() as queue:
        queue.lost()
        assert not queue.take(1)


@pytest.mark.usefixtures("like_a_store")
def test_eight_writers_with_few_retries_lose_no_commit(tmp_path: Path) -> None:
    catalog = interbed.load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    options = {"bucket": "1", "write-only": "true", "commit.max-retries": "3"}
    catalog.create_table("db.t", pa.schema([("id", pa.int64())]), primary_keys=["id"], options=options)

    def write(number: int) -> None:
        table = catalog.get_table("db.t")
        for row in range(10):
            table.upsert(pa.table({"id": [number * 100 + row]}))

    with ThreadPoolExecutor(8) as writers:
        for written in [writers.submit(write, number) for number in range(8)]:
            written.result()
    table = catalog.get_table("db.t")
    assert table.scan().to_arrow().num_rows == 80
    assert not Path(table.store.paths.turn_in_store).exists()
    assert table.maintenance.remove_orphan_files().files == ()


@pytest.mark.usefixtures("like_a_store")
def test_commits_that_win_a_race_notice_the_turn_of_another(tmp_path: Path) -> None:
    catalog = interbed.load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    options = {"bucket": "1", "commit.max-retry-wait": "20 ms"}
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]), primary_keys=["id"], options=options)
    turn = Path(table.store.paths.turn_in_store)
    turn.write_bytes(b"another")
    queue = CommitLease(table.store.file_io, str(turn))
    for number in range(2):
        assert queue.take(0) is False
        table.upsert(pa.table({"id": [number]}))
    turn.unlink()
    with queue:
        assert queue.take(0)
