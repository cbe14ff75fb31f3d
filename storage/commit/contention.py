"""Contention of the writers of a table: they take turns for the next snapshot instead of racing for it, and a commit
that lost the race is tried again by its retry policy.

Turns only serve speed and fairness. The exclusive creation of the snapshot file decides whether a commit succeeds, with
or without a turn. `LocalCommitLock` is for tables in a local directory and uses a lock of the operating system.
`CommitLease` is for tables in an object store, where no lock ends with the process that holds it.

In an object store the writer that has just committed knows the newest snapshot and has the next one ready before the
other writers have read it. It would win every race. So a writer that lost takes a turn:

    <location>/schema/.commit-turn    holds a random token; created exclusively, deleted after the commit

For `CONTENDED_SECONDS` after that, all commits of this process to the table wait for a turn before their first attempt.
Every commit lists the schemas, so a writer without a turn sees the file in that listing, and its next commits wait for
their turn. A turn file that has not changed for some seconds belongs to a process that died and is deleted. Where the
object store fails to read, create or delete the file, commits go without turns.
"""

import logging
import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self, TypeVar

from interbed.storage.base.backoff import ExponentialBackoff, RetryLoop
from interbed.storage.base.errors import CommitConflictError, InterbedError
from interbed.storage.base.memory_cache import LruCache
from interbed.storage.io.api import FileIO
from interbed.storage.io.file_lock import FileLock
from interbed.storage.meta.options.core import CoreOptions

_log = logging.getLogger(__name__)


class ContentionLock(Protocol):
    """Place of one commit in the queue of a table. The end of the `with` block releases its turn."""

    longest_wait_millis: float
    """Longest wait for a turn that is shorter than losing races."""

    @property
    def is_taken(self) -> bool:
        """Whether this commit has its turn."""
        ...

    def take(self, timeout_seconds: float) -> bool:
        """Wait for the turn, at most for the timeout. Return False without a turn; the commit may be tried anyway."""
        ...

    def lost(self) -> None:
        """Record that this commit has lost a race."""
        ...

    def meet(self) -> None:
        """Record that another writer has its turn, while this commit has none."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class LocalCommitLock:
    """Commit queue of the writers on one machine: a lock of the operating system on a file.

    The lock ends with the process that holds it. Where the file system has no such locks there are no turns.
    """

    longest_wait_millis = 2000.0
    """Turns take milliseconds; a longer turn belongs to a process that hangs."""

    def __init__(self, file: str) -> None:
        self._lock = FileLock(file, create=True)

    @property
    def is_taken(self) -> bool:
        return self._lock.is_held

    def take(self, timeout_seconds: float) -> bool:
        try:
            return self._lock.take(timeout_seconds)
        except OSError as error:
            _log.debug("Committing without a turn: %s", error)
            return False

    def lost(self) -> None:
        """Do nothing: every commit waits for its turn anyway."""

    def meet(self) -> None:
        """Do nothing: every commit waits for its turn anyway."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


_log = logging.getLogger(__name__)

CONTENDED_SECONDS = 10.0
"""Time after observed contention in which commits wait for a turn before their first attempt."""
HELD_SECONDS_MIN, HELD_SECONDS_MAX = 2.0, 30.0
"""Least and greatest time for which a turn file counts as held; in between `_TRIES_HELD` attempts long."""
_TRIES_HELD = 4
_PAUSE_SECONDS_MIN, _PAUSE_SECONDS_MAX = 0.02, 0.5
_TABLES_MAX = 1000


@dataclass(slots=True)
class _TableContention:
    """Contention that commits of this process have observed at a table.

    `met_at` is when another writer was last observed (None: never), `turns` the number of turns of others during the
    last wait, and `try_seconds` the length of the last attempt at a snapshot.
    """

    met_at: float | None = None
    turns: int = 0
    try_seconds: float = 0.0


class CommitLease:
    """Commit queue of a table in an object store, by its turn file."""

    longest_wait_millis = 60_000.0
    """While other writers take turns, waiting costs less than lost races."""

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
        return self._taken_at is not None

    def take(self, timeout_seconds: float) -> bool:
        """Wait for the turn, but only where other writers were observed lately; see ContentionLock."""
        try:
            if not self.is_taken and self._is_contended() and self._wait(timeout_seconds):
                self._taken_at = self._clock()
        except (InterbedError, OSError) as error:
            _log.debug("Committing without a turn: %s", error)
        self._tried_at = self._clock()
        return self.is_taken

    def lost(self) -> None:
        """Record a lost race, with the length of the attempt."""
        self._tried()
        self.meet()

    def meet(self, turns: int | None = None) -> None:
        """Record contention; `turns` is the number of turns of other writers during a wait, if there was one."""
        known = self._known
        known.met_at, known.turns = self._clock(), known.turns if turns is None else turns

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._taken_at is None:
            return
        # Another writer may have broken this turn after its time; the file is that writer's then.
        if self._clock() - self._taken_at < self._held_seconds:
            self._file_io.delete_quietly([self._file])
        self._taken_at = None
        self._tried()

    @property
    def _known(self) -> _TableContention:
        return _CONTENTION.get(self._file, _TableContention)

    def _is_contended(self) -> bool:
        met_at = self._known.met_at
        return met_at is not None and self._clock() - met_at < CONTENDED_SECONDS

    def _tried(self) -> None:
        self._known.try_seconds = self._clock() - self._tried_at

    def _wait(self, timeout_seconds: float) -> bool:
        token = uuid.uuid4().bytes
        began = since = self._clock()
        seen: bytes | None = None
        turns, expected = 0, self._known.turns
        # The last writer in the queue polls least often, so that writers that have waited longer see the end of a turn
        # first.
        shortest = min(max(self._known.try_seconds / 8, _PAUSE_SECONDS_MIN), _PAUSE_SECONDS_MAX)
        while True:
            holder = self._holder()
            if holder is None:
                if self._file_io.create_exclusive(self._file, token):
                    return True
            elif holder != seen:
                turns += 1
                self.meet(turns)
                seen, since = holder, self._clock()
            elif self._clock() - since >= self._held_seconds:
                _log.info(
                    "Deleting the stale turn file %s: its holder has not released it for %.1f s",
                    self._file,
                    self._clock() - since,
                )
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


_CONTENTION: LruCache[_TableContention] = LruCache(_TABLES_MAX)
"""Contention by turn file. Threads that record at the same time may overwrite each other's record, which costs a race.
"""


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Back-off of a table's commits, as its options say it; all times in milliseconds."""

    max_retries: int
    min_wait_millis: float
    max_wait_millis: float
    timeout_millis: float | None = None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = field(default=random.random)

    @staticmethod
    def of(options: CoreOptions) -> "RetryPolicy":
        """Return the policy of a table's `commit.*` options."""
        return RetryPolicy(
            max_retries=options.commit_max_retries,
            min_wait_millis=options.commit_min_retry_wait_millis,
            max_wait_millis=options.commit_max_retry_wait_millis,
            timeout_millis=options.commit_timeout_millis,
        )

    @property
    def backoff(self) -> ExponentialBackoff:
        """The same in seconds.

        The jitter covers three quarters of the pause, so that writers that lost to the same winner do not return
        together and lose again.
        """
        return ExponentialBackoff(
            first_seconds=self.min_wait_millis / 1000,
            longest_seconds=self.max_wait_millis / 1000,
            jitter=(0.25, 1.0),
            retries=self.max_retries,
            timeout_seconds=None if self.timeout_millis is None else self.timeout_millis / 1000,
            clock=self.clock,
            sleep=self.sleep,
            random=self.random,
        )

    def start(self) -> "CommitRetries":
        """Return the retries of one commit, whose time starts now."""
        return CommitRetries(self.backoff)

    def redo(self, work: Callable[[], _T]) -> _T:
        """Do the work, and repeat it after conflicts with other writers.

        Raises the last conflict when no retry is left.
        """
        retries = self.backoff.start("the write", _log)
        while True:
            try:
                return work()
            except CommitConflictError as conflict:
                if not retries.pause(conflict):
                    raise


class CommitRetries(RetryLoop):
    """Retries of one commit, which may wait for a lock before each attempt."""

    def take(self, queue: ContentionLock) -> bool:
        """Wait for a turn, at most for the length of a pause. Return whether the turn was taken.

        The commit may be tried without a turn.
        """
        longest = min(self.backoff.longest_seconds, queue.longest_wait_millis / 1000)
        if self.backoff.timeout_seconds is not None:
            longest = min(longest, self.backoff.timeout_seconds - self.elapsed_seconds)
        return queue.take(longest)
