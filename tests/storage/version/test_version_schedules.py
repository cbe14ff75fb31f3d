"""Two processes change the versions of one table and alternate several times in the middle of their work.

The turn changes before calls that concern both: on the journal, the mark and the plan of an expiry, and snapshots to be
deleted. The calls are drawn at random, from a seed.
"""

import random
import re
import shutil
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

import interbed
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.storage.base.errors import InterbedError
from interbed.storage.io.api import FileIO
from interbed.storage.meta.snapshot import history_journal
from interbed.storage.table.table import Table
from tests.storage.version.crash_points import (
    NAME,
    DyingFileIO,
    begin,
    catalog_of,
    go_on,
    seen,
    unsynced,
)
from tests.storage.version.test_crash_points import history, with_branch
from tests.storage.version.test_version_races import RACES, ChangeOutcome, check_rows, expire, forward, roll_back, write
from tests.support.shares import LONG
from tests.support.tally import Tally
from tests.support.waits import at_most

pytestmark = pytest.mark.usefixtures("both_kinds_of_store")

SCHEDULES = 300 if LONG else 8
SECONDS_MAX = at_most(60)
TURN_CALLS_MAX = 6
TURNS = 12


class TurnSchedule:
    """Schedule of two threads that alternate until all turns are over; then each runs to its end.

    A turn is a number of calls, or ends before the first call that matches the pattern.
    """

    def __init__(self, turns: Sequence[int | str]) -> None:
        self._turns = deque(turns)
        self._calls = 0
        self._whose = 0
        self._done = [False, False]
        self._changed = threading.Condition()

    def begin(self, number: int) -> None:
        """Wait for the first turn of the thread."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._whose == number, SECONDS_MAX), "the other one does not go on"

    def call(self, number: int, text: str) -> None:
        """Wait for the thread's turn to make that call."""
        with self._changed:
            while True:
                assert self._changed.wait_for(lambda: self._whose == number, SECONDS_MAX), (
                    "the other one does not go on"
                )
                if self._done[1 - number] or not self._turns or not self._is_over(self._turns[0], text):
                    self._calls += 1
                    return
                self._next()

    def end(self, number: int) -> None:
        """Record that the thread has finished."""
        with self._changed:
            self._done[number] = True
            if self._whose == number:
                self._next()

    def _is_over(self, turn: int | str, text: str) -> bool:
        return self._calls >= turn if isinstance(turn, int) else re.search(turn, text) is not None

    def _next(self) -> None:
        self._whose, self._calls = 1 - self._whose, 0
        if self._turns:
            self._turns.popleft()
        self._changed.notify_all()


class TakesTurns(DyingFileIO):
    """A FileIO whose thread alternates with another one."""

    def __init__(self, inner: FileIO, turns: TurnSchedule, number: int) -> None:
        super().__init__(inner)
        self._turns = turns
        self._who = number
        self._thread = threading.get_ident()

    def _count(self, name: str, path: object) -> None:
        text = str(path)
        notes = any(each in text for each in (".journal", ".expir"))
        if threading.get_ident() == self._thread and (notes or (name == "delete" and "/snapshot-" in text)):
            self._turns.call(self._who, f"{name} {text}")


def turn_by_turn(
    warehouse: Path, turns: TurnSchedule, changes: tuple[Callable[[Table], Any], ...]
) -> list[ChangeOutcome]:
    """Run the two changes, each in a process that begins with its first turn, and return their outcomes."""
    outcomes = [ChangeOutcome(), ChangeOutcome()]

    def change(number: int) -> None:
        catalog = interbed.load_catalog("lake", warehouse=str(warehouse))
        assert isinstance(catalog, FileSystemCatalog)
        catalog._file_io = cast(FileIO, TakesTurns(catalog.file_io, turns, number))
        turns.begin(number)
        try:
            outcomes[number].of(changes[number], catalog.get_table(NAME))
        finally:
            turns.end(number)

    threads = [threading.Thread(target=change, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * SECONDS_MAX)
        assert not thread.is_alive()
    return outcomes


@pytest.mark.sample(5)
@pytest.mark.longer
@pytest.mark.parametrize("race", RACES)
def test_each_of_two_alternating_changes_is_done_or_refused(race: str, tmp_path: Path, tally: Tally) -> None:
    prepare, first, second, check = RACES[race]
    template = tmp_path / "template"
    before = begin(catalog_of(template), prepare)
    for seed in range(SCHEDULES):
        drawn = random.Random(seed)
        calls = [drawn.randrange(TURN_CALLS_MAX) for _ in range(TURNS)]
        warehouse = tmp_path / f"schedule-{seed}"
        shutil.copytree(template, warehouse)
        one, other = turn_by_turn(warehouse, TurnSchedule(calls), (first, second))
        try:
            after = seen(catalog_of(warehouse))
            assert after is not None
            check(before, after, one, other)
            go_on(catalog_of(warehouse).get_table(NAME))
        except (AssertionError, InterbedError) as error:
            raise AssertionError(f"{race}, turns {calls}: {one.error} / {other.error}: {error}") from error
        shutil.rmtree(warehouse)
    tally("schedules of changes of versions", SCHEDULES)


def test_one_of_a_concurrent_rollback_and_expiry_succeeds(tmp_path: Path) -> None:
    """Each is held up between its check for the other one and its own step, as long as that takes."""
    before = begin(catalog_of(tmp_path / "w"), history)
    decision = r"(create_exclusive|delete\w*) .*\.expired-files"
    turns = ["create_exclusive .*journal", "create_exclusive .*expired-files", decision, "delete .*/snapshot-3"]
    back, expired = turn_by_turn(tmp_path / "w", TurnSchedule(turns), (roll_back, expire))
    after = seen(catalog_of(tmp_path / "w"))
    assert after is not None
    check_rows(before, after, back, expired)
    assert (back.error is None) == (3 in after.snapshots and len(after.snapshots) > 1)
    go_on(catalog_of(tmp_path / "w").get_table(NAME))


def test_a_fast_forward_survives_a_writer_that_reuses_an_old_snapshot_id(
    tmp_path: Path,
) -> None:
    before = begin(catalog_of(tmp_path / "w"), with_branch)
    turns = TurnSchedule([0, 2, 0, 1, 0, 4, 2, 3, 2, 5, 2])
    written, forwarded = turn_by_turn(tmp_path / "w", turns, (write, forward))
    after = seen(catalog_of(tmp_path / "w"))
    assert after is not None
    check_rows(before, after, written, forwarded)
    go_on(catalog_of(tmp_path / "w").get_table(NAME))


@pytest.fixture(autouse=True)
def unsynced_and_impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for other changes: waiting for a thread without a turn would never end."""
    unsynced(monkeypatch)
    monkeypatch.setattr(history_journal, "WAIT_SECONDS", 0.0)
