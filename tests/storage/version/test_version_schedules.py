"""Two processes change the versions of one table, and take turns in the middle of what they do, several times.

Turns change before calls that both have to do with: the journal, the mark and the plan of an expiry, snapshots that go.
Which ones is drawn at random, from a seed.
"""

import random
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

import interbed
from interbed.catalog.filesystem import FileSystemCatalog
from interbed.storage.base.errors import InterbedError
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.meta.snapshot import line_journal
from interbed.storage.table.table import Table
from tests.storage.version.crash_points import NAME, DyingFileIO, catalog_of, go_on, new_table, seen, unsynced
from tests.storage.version.test_version_races import RACES, Outcome
from tests.support.shares import LONG
from tests.support.tally import Tally

pytestmark = pytest.mark.usefixtures("both_kinds_of_store")

SCHEDULES = 300 if LONG else 8
SECONDS_MAX = 60
TURN_CALLS_MAX = 6
TURNS = 12


class Turns:
    """Who of two threads may go on: each for so many calls in turn, and when these turns are over to its end."""

    def __init__(self, calls: list[int]) -> None:
        self._calls = calls
        self._left = calls.pop(0)
        self._whose = 0
        self._done = [False, False]
        self._changed = threading.Condition()

    def call(self, who: int) -> None:
        """Wait for one's turn, and use up one call of it."""
        with self._changed:
            while True:
                assert self._changed.wait_for(lambda: self._whose == who, SECONDS_MAX), "the other one does not go on"
                if self._left or not self._calls or self._done[1 - who]:
                    self._left -= 1
                    return
                self._next()

    def end(self, who: int) -> None:
        """This one has come to its end."""
        with self._changed:
            self._done[who] = True
            if self._whose == who:
                self._next()

    def _next(self) -> None:
        self._whose = 1 - self._whose
        self._left = self._calls.pop(0) if self._calls else 0
        self._changed.notify_all()


class TakesTurns(DyingFileIO):
    """A FileIO whose thread takes turns with another one."""

    def __init__(self, inner: FileIO, turns: Turns, who: int) -> None:
        super().__init__(inner)
        self._turns = turns
        self._who = who
        self._thread = threading.get_ident()

    def _count(self, name: str, path: object) -> None:
        text = str(path)
        notes = any(each in text for each in (".journal", ".expir"))
        if threading.get_ident() == self._thread and (notes or (name == "delete" and "/snapshot-" in text)):
            self._turns.call(self._who)


def turn_by_turn(warehouse: Path, turns: Turns, changes: tuple[Callable[[Table], Any], ...]) -> list[Outcome]:
    """What came of the two changes, each of a process that had opened the table before."""
    outcomes = [Outcome(), Outcome()]
    opened = threading.Barrier(2)

    def change(who: int) -> None:
        catalog = interbed.load_catalog("lake", warehouse=str(warehouse))
        assert isinstance(catalog, FileSystemCatalog)
        table = catalog.get_table(NAME)
        catalog._file_io = cast(FileIO, TakesTurns(catalog.file_io, turns, who))
        table = table if who else catalog.get_table(NAME)
        opened.wait(SECONDS_MAX)
        try:
            outcomes[who].of(changes[who], catalog.get_table(NAME))
        finally:
            turns.end(who)

    threads = [threading.Thread(target=change, args=(who,)) for who in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * SECONDS_MAX)
        assert not thread.is_alive()
    return outcomes


@pytest.mark.longer
@pytest.mark.parametrize("race", RACES)
def test_of_two_changes_that_take_turns_each_happens_or_is_refused(race: str, tmp_path: Path, tally: Tally) -> None:
    prepare, first, second, check = RACES[race]
    template = tmp_path / "template"
    catalog = interbed.load_catalog("lake", warehouse=str(template))
    assert isinstance(catalog, FileSystemCatalog)
    catalog.create_database("d")
    new_table(catalog)
    prepare(catalog)
    before = seen(catalog_of(template))
    assert before is not None
    for seed in range(SCHEDULES):
        calls = [random.Random(seed + n / TURNS).randrange(TURN_CALLS_MAX) for n in range(TURNS)]
        warehouse = tmp_path / f"schedule-{seed}"
        shutil.copytree(template, warehouse)
        one, other = turn_by_turn(warehouse, Turns(list(calls)), (first, second))
        try:
            after = seen(catalog_of(warehouse))
            assert after is not None
            check(before, after, one, other)
            go_on(catalog_of(warehouse).get_table(NAME))
        except (AssertionError, InterbedError) as error:
            raise AssertionError(f"{race}, turns {calls}: {one.error} / {other.error}: {error}") from error
        shutil.rmtree(warehouse)
    tally("schedules of changes of versions", SCHEDULES)


@pytest.fixture(autouse=True)
def unsynced_and_impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """To wait for who has no turn would be in vain."""
    unsynced(monkeypatch)
    monkeypatch.setattr(line_journal, "WAIT_SECONDS", 0.0)
