"""Operations on remote file systems: each runs on a thread of its own, and its caller waits until a deadline.

A name node or object store that accepts connections and never answers blocks the threads of its operations for minutes.
Their number is bounded, for one authority (`scheme://host:port`) and for all, and the authorities that have not
answered yet share a part of them. An authority that missed a deadline is suspended: for some seconds its operations
fail at once. The number of waiting callers is bounded, too; further ones are refused.

An abandoned operation continues until its client library gives up. If it changes files, other operations on the same
directory are refused until it has ended: a late deletion must not meet files that were written after it.
"""

import contextvars
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

from interbed.catalog.server.service.errors import MetastoreError
from interbed.storage.io.resolve import one_scheme

logger = logging.getLogger(__name__)

T = TypeVar("T")

STORE_SECONDS = 15.0
"""Default of the time that a caller waits for one operation."""

SUSPENDED_SECONDS = 10.0
"""Time for which the operations of an authority fail at once after one that missed its deadline."""

THREADS_MAX = 64
THREADS_OF_UNPROVEN_MAX = 40
THREADS_OF_AUTHORITY_MAX = 8
THREADS_OF_UNPROVEN_AUTHORITY_MAX = 2
"""An authority is proven when it has answered since it last missed a deadline."""

CALLERS_MAX = 256
CALLERS_OF_AUTHORITY_MAX = 128

TIMEOUTS_OF_REQUEST_MAX = 2
"""Deadlines that one request may miss before its further operations on file systems that do not answer are refused: a
database may have tables on many of them.
"""

AUTHORITIES_MAX = 1000
"""Maximum of idle authorities in memory."""


class StoreUnavailableError(MetastoreError):
    """A remote file system did not answer in time, or is suspended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFigures:
    """Load from remote file systems on this process: operations that callers wait for, threads of abandoned operations,
    deadlines missed, and operations refused since the start.
    """

    waiting: int
    given_up: int
    timeouts_total: int
    refused_total: int


class MissedDeadlines:
    """The deadlines that one request has missed."""

    __slots__ = ("timeouts",)

    def __init__(self) -> None:
        self.timeouts = 0


missed_deadlines: contextvars.ContextVar[MissedDeadlines | None] = contextvars.ContextVar(
    "missed_deadlines", default=None
)
"""Set where a request begins; without it every operation has its whole deadline."""


class _AuthorityState:
    __slots__ = ("callers", "given_up", "is_proven", "name", "running", "suspended_until")

    def __init__(self, name: str) -> None:
        self.name = name
        self.callers = 0
        self.running = 0
        self.given_up = 0
        self.is_proven = False
        self.suspended_until = 0.0


class _Operation:
    __slots__ = ("action", "changes", "context", "done", "error", "is_given_up", "location", "result", "started")

    def __init__(self, location: str, action: Callable[[], Any], changes: bool) -> None:
        self.location = location
        self.action = action
        self.changes = changes
        self.context = contextvars.copy_context()
        self.started = time.monotonic()
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_given_up = False


class RemoteFiles:
    """Runs operations on remote file systems. Safe for many threads; a forked process begins with none running.

    `seconds` is how long a caller waits. `around` gives a context in which a caller waits, for instance one that lets
    another thread serve requests meanwhile.
    """

    def __init__(self, seconds: float = STORE_SECONDS, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._around: Callable[[], AbstractContextManager[None]] = nullcontext
        self._reset()

    def configure(self, *, seconds: float, around: Callable[[], AbstractContextManager[None]] | None = None) -> None:
        """Set the deadline, and the context in which callers wait."""
        self._seconds = seconds
        if around is not None:
            self._around = around

    @property
    def seconds(self) -> float:
        """Return the time that a caller waits for one operation."""
        return self._seconds

    @property
    def figures(self) -> RemoteFigures:
        """Return the present figures."""
        with self._changed:
            return RemoteFigures(
                waiting=self._callers,
                given_up=len(self._given_up),
                timeouts_total=self._timeouts,
                refused_total=self._refused,
            )

    def run(self, location: str, action: Callable[[], T], *, changes: bool = False) -> T:
        """Run an operation on the file system of the location and return its result; its errors are raised unchanged.

        StoreUnavailableError if it exceeds the deadline or is refused. With `changes`, an abandoned operation blocks
        others on its directory until it ends.
        """
        deadline = self._clock() + self._seconds
        operation = _Operation(location, action, changes)
        with self._caller(location) as authority, self._around():
            self._start(authority, operation, deadline)
            operation.done.wait(max(0.0, deadline - self._clock()))
            with self._changed:
                if not operation.done.is_set():
                    self._give_up(authority, operation)
        if operation.error is not None:
            raise operation.error
        result: T = operation.result
        return result

    def check_free(self, location: str) -> None:
        """Raise StoreUnavailableError if an abandoned operation may still change the directory."""
        with self._changed:
            self._check_free(location)

    def _reset(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._authorities: dict[str, _AuthorityState] = {}
        self._given_up: list[_Operation] = []
        self._callers = 0
        self._running = 0
        self._running_of_unproven = 0
        self._timeouts = 0
        self._refused = 0

    @contextmanager
    def _caller(self, location: str) -> Any:
        """Yield the authority of the location, with its number of callers increased."""
        name = authority_of(location)
        with self._changed:
            authority = self._authorities.get(name)
            if authority is None:
                self._forget_idle()
                authority = self._authorities[name] = _AuthorityState(name)
            self._check_free(location)
            self._check_suspension(authority, location)
            if authority.callers >= CALLERS_OF_AUTHORITY_MAX or self._callers >= CALLERS_MAX:
                raise self._refusal(f"cannot reach {location}: {self._callers} requests wait for file systems already")
            authority.callers += 1
            self._callers += 1
        try:
            yield authority
        finally:
            with self._changed:
                authority.callers -= 1
                self._callers -= 1

    def _start(self, authority: _AuthorityState, operation: _Operation, deadline: float) -> None:
        with self._changed:
            while not self._has_thread(authority):
                self._check_suspension(authority, operation.location)
                left = deadline - self._clock()
                if left <= 0:
                    raise self._refusal(
                        f"cannot reach {operation.location}: all threads for file systems were in use for "
                        f"{self._seconds:g} s"
                    )
                self._changed.wait(left)
            counts_as_unproven = not authority.is_proven
            authority.running += 1
            self._running += 1
            self._running_of_unproven += counts_as_unproven
        try:
            threading.Thread(
                target=self._work,
                args=(authority, operation, counts_as_unproven),
                name=f"store {authority.name}",
                daemon=True,
            ).start()
        except RuntimeError as error:
            with self._changed:
                self._ended(authority, counts_as_unproven)
            raise MetastoreError(f"cannot reach {operation.location}: {error}") from error

    def _has_thread(self, authority: _AuthorityState) -> bool:
        if self._running >= THREADS_MAX:
            return False
        if authority.is_proven:
            return authority.running < THREADS_OF_AUTHORITY_MAX
        return (
            authority.running < THREADS_OF_UNPROVEN_AUTHORITY_MAX
            and self._running_of_unproven < THREADS_OF_UNPROVEN_MAX
        )

    def _work(self, authority: _AuthorityState, operation: _Operation, counts_as_unproven: bool) -> None:
        error: BaseException | None = None
        try:
            operation.result = operation.context.run(operation.action)
        except BaseException as raised:  # noqa: BLE001 - The caller gets it, on its own thread.
            error = operation.error = raised
        with self._changed:
            operation.done.set()
            self._ended(authority, counts_as_unproven)
            if operation.is_given_up:
                authority.given_up -= 1
                self._given_up.remove(operation)
            elif error is None:
                authority.is_proven = True
                authority.suspended_until = 0.0
        if operation.is_given_up:
            logger.warning(
                "an operation on %s that was given up has ended after %.1f s: %s",
                operation.location,
                time.monotonic() - operation.started,
                "it is done" if error is None else error,
            )

    def _ended(self, authority: _AuthorityState, counts_as_unproven: bool) -> None:
        authority.running -= 1
        self._running -= 1
        self._running_of_unproven -= counts_as_unproven
        self._changed.notify_all()

    def _give_up(self, authority: _AuthorityState, operation: _Operation) -> None:
        operation.is_given_up = True
        self._given_up.append(operation)
        self._timeouts += 1
        authority.given_up += 1
        authority.is_proven = False
        authority.suspended_until = self._clock() + SUSPENDED_SECONDS
        missed = missed_deadlines.get()
        if missed is not None:
            missed.timeouts += 1
        # Callers that wait for the same authority fail now, too.
        self._changed.notify_all()
        after = "; the change may still be made, and its end is logged" if operation.changes else ""
        raise StoreUnavailableError(
            f"{authority.name} did not answer within {self._seconds:g} s (the setting store_seconds) about "
            f"{operation.location}{after}"
        )

    def _check_suspension(self, authority: _AuthorityState, location: str) -> None:
        left = authority.suspended_until - self._clock()
        if left > 0:
            raise self._refusal(
                f"cannot reach {location}: {authority.name} did not answer within {self._seconds:g} s (the setting "
                f"store_seconds) just now; it is asked again in {left:.0f} s"
            )
        if authority.is_proven:
            return
        if authority.given_up >= THREADS_OF_UNPROVEN_AUTHORITY_MAX:
            raise self._refusal(
                f"cannot reach {location}: {authority.given_up} operations on {authority.name} have not ended yet"
            )
        missed = missed_deadlines.get()
        if missed is not None and missed.timeouts >= TIMEOUTS_OF_REQUEST_MAX:
            raise self._refusal(
                f"{location} was not looked at: the request has waited for {missed.timeouts} file systems in vain"
            )

    def _check_free(self, location: str) -> None:
        for operation in self._given_up:
            if operation.changes and _overlap(operation.location, location):
                raise self._refusal(
                    f"{location} cannot be used now: an earlier operation on {operation.location} has not ended; try "
                    "again later"
                )

    def _refusal(self, message: str) -> StoreUnavailableError:
        self._refused += 1
        return StoreUnavailableError(message)

    def _forget_idle(self) -> None:
        if len(self._authorities) < AUTHORITIES_MAX:
            return
        now = self._clock()
        self._authorities = {
            name: each
            for name, each in self._authorities.items()
            if each.callers or each.running or each.is_proven or each.suspended_until > now
        }


def authority_of(location: str) -> str:
    """Return scheme and authority of a location, `hdfs://host:port`."""
    scheme, _, rest = location.partition(":")
    return f"{one_scheme(scheme.lower())}://{rest.removeprefix('//').partition('/')[0].lower()}"


def _overlap(left: str, right: str) -> bool:
    if authority_of(left) != authority_of(right):
        return False
    one, other = (f"/{each.partition('://')[2].partition('/')[2].strip('/')}/" for each in (left, right))
    one, other = one.replace("//", "/"), other.replace("//", "/")
    return one.startswith(other) or other.startswith(one)


REMOTE_FILES = RemoteFiles()
"""The remote files of this process."""

os.register_at_fork(after_in_child=REMOTE_FILES._reset)
