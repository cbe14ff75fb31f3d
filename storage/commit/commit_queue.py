"""Turns of a table's writers: they queue for the next snapshot instead of racing each other for it.

Turns only serve speed and fairness. The exclusive creation of the snapshot file decides whether a commit succeeds, with
or without a turn. `MachineQueue` is for tables in a local directory: a lock of the operating system. `StoreQueue` is
for tables in an object store, where no lock ends with the process that holds it.

In an object store the writer that has just committed knows the newest snapshot and has the next one ready before the
other writers have read it. It would win again and again. So a writer that lost takes a turn:

    <location>/schema/.commit-turn    holds a random word; created exclusively, deleted after the commit

For some time after that, all commits of this process to the table wait for a turn before their first try. Every commit
lists the schemas, so a writer without a turn sees the file in that listing, and its next commits wait for their turn.
A turn file that has not changed for some seconds belongs to a process that died and is deleted. Where the object store
fails to read, create or delete the file, commits go without turns.
"""

import logging
import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from interbed.storage.base.errors import InterbedError
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.base.fileio.file_lock import FileLock
from interbed.storage.base.recent import Recent

_log = logging.getLogger(__name__)


class CommitQueue(Protocol):
    """One commit's place in the queue of a table, which it leaves at the end of the `with`."""

    longest_wait_millis: float
    """For how long it is worth while to wait."""

    @property
    def is_taken(self) -> bool:
        """Whether this commit has its turn."""
        ...

    def take(self, timeout_seconds: float) -> bool:
        """Wait for the turn, but not longer than the timeout; False without one, which is no reason not to try."""
        ...

    def lost(self) -> None:
        """Learn that this commit has lost a race."""
        ...

    def meet(self) -> None:
        """Learn that another writer has its turn, while this commit has none."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class MachineQueue:
    """That of the writers on one machine: a lock of the operating system on a file.

    It ends with the process that holds it, however it ends. Where there is no such lock there are no turns.
    """

    longest_wait_millis = 2000.0
    """Turns take milliseconds; one that takes longer than this belongs to a process that hangs."""

    def __init__(self, file: str) -> None:
        self._lock = FileLock(file, create=True)

    @property
    def is_taken(self) -> bool:
        """See CommitQueue."""
        return self._lock.is_held

    def take(self, timeout_seconds: float) -> bool:
        """See CommitQueue."""
        try:
            return self._lock.take(timeout_seconds)
        except OSError as error:
            _log.debug("No turns: %s", error)
            return False

    def lost(self) -> None:
        """See CommitQueue: the next turn is waited for anyway."""

    def meet(self) -> None:
        """See CommitQueue: the next turn is waited for anyway."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


_log = logging.getLogger(__name__)

CONTENDED_SECONDS = 10.0
"""For so long after a lost race, or somebody else's turn, turns are waited for from the start."""
HELD_SECONDS_MIN, HELD_SECONDS_MAX = 2.0, 30.0
"""How long somebody may have one turn, at least and at most; between them, several times what a try takes here."""
_TRIES_HELD = 4
_PAUSE_SECONDS_MIN, _PAUSE_SECONDS_MAX = 0.02, 0.5
_TABLES_MAX = 1000


@dataclass(slots=True)
class _Neighbours:
    """What commits of this process have noticed of other writers of a table.

    `met_at` is when that was last (None: never), `turns` how many of others were waited for last, and `try_seconds` how
    long the last try for a snapshot took.
    """

    met_at: float | None = None
    turns: int = 0
    try_seconds: float = 0.0


class StoreQueue:
    """The queue of the table with that file of turns; see CommitQueue."""

    longest_wait_millis = 60_000.0
    """As long as others have their turns, waiting costs less than lost races."""

    def __init__(
        self,
        file_io: FileIO,
        file: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._file_io = file_io
        self._file = file
        self._clock = clock
        self._sleep = sleep
        self._taken_at: float | None = None
        self._tried_at = clock()

    @property
    def is_taken(self) -> bool:
        """See CommitQueue."""
        return self._taken_at is not None

    def take(self, timeout_seconds: float) -> bool:
        """See CommitQueue: waits only where other writers were met lately."""
        try:
            if not self.is_taken and self._has_neighbours() and self._wait(timeout_seconds):
                self._taken_at = self._clock()
        except (InterbedError, OSError) as error:
            _log.debug("No turns: %s", error)
        self._tried_at = self._clock()
        return self.is_taken

    def lost(self) -> None:
        """See CommitQueue."""
        self._tried()
        self.meet()

    def meet(self, turns: int | None = None) -> None:
        """See CommitQueue; `turns` of others were waited for, if any."""
        known = self._known
        known.met_at, known.turns = self._clock(), known.turns if turns is None else turns

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._taken_at is None:
            return
        # Somebody who has waited for longer may have taken it away, and then it is another one's.
        if self._clock() - self._taken_at < self._held_seconds:
            self._file_io.delete_quietly([self._file])
        self._taken_at = None
        self._tried()

    @property
    def _known(self) -> _Neighbours:
        return _NEIGHBOURS.get(self._file, _Neighbours)

    def _has_neighbours(self) -> bool:
        met_at = self._known.met_at
        return met_at is not None and self._clock() - met_at < CONTENDED_SECONDS

    def _tried(self) -> None:
        self._known.try_seconds = self._clock() - self._tried_at

    def _wait(self, timeout_seconds: float) -> bool:
        word = uuid.uuid4().bytes
        began = since = self._clock()
        seen: bytes | None = None
        turns, expected = 0, self._known.turns
        # Who has come last looks least often, so that those who wait for longer are the first to see a turn end.
        shortest = min(max(self._known.try_seconds / 8, _PAUSE_SECONDS_MIN), _PAUSE_SECONDS_MAX)
        while True:
            holder = self._holder()
            if holder is None:
                if self._file_io.create_exclusive(self._file, word):
                    return True
            elif holder != seen:
                turns += 1
                self.meet(turns)
                seen, since = holder, self._clock()
            elif self._clock() - since >= self._held_seconds:
                _log.info("Whoever had the turn of %s is gone.", self._file)
                self._file_io.delete_quietly([self._file])
                continue
            if self._clock() - began >= timeout_seconds:
                return False
            self._sleep(min(shortest * max(1, expected - turns), _PAUSE_SECONDS_MAX) * random.uniform(0.5, 1.0))

    @property
    def _held_seconds(self) -> float:
        return min(max(_TRIES_HELD * self._known.try_seconds, HELD_SECONDS_MIN), HELD_SECONDS_MAX)

    def _holder(self) -> bytes | None:
        try:
            return self._file_io.read_bytes(self._file)
        except FileNotFoundError:
            return None


_NEIGHBOURS: Recent[_Neighbours] = Recent(_TABLES_MAX)
"""By the file of turns; of threads that note something at once one may be overlooked, which costs a race."""
