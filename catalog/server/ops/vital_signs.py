"""Vital signs of a serving process, written every second, the problems that they show, and the memory that holds them;
and the limits of a process: open files and connections, core dumps, and the time to end.

A hanging loop, a request that waits while all threads are busy, few file descriptors left: none of them shows in a
query of the database or a check of the warehouse. A server whose clients have taken all descriptors cannot
accept the connection of a probe, so that some descriptors are kept in reserve for probes.

Processes of one server share a piece of memory (`SharedBoard`). It begins with the number of workers that serve, and
the time of the last turn of the parent's loop. After them each worker has a section for its vital signs, which its loop
writes every second, and for a text that names its problem. The companion reads them; texts end with a NUL.

Threads that wait for an object store or a disk must not keep a process alive that was asked to end.
"""

import errno
import logging
import mmap
import os
import resource
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from interbed.catalog.server.threads import SupervisedThread, ThreadDeaths
from interbed.catalog.server.thrift.edge.loop import SHUTDOWN_SECONDS_MAX

T = TypeVar("T")

HANDLES_LEFT_MIN = 16
"""With fewer the server is not ready: a request may need several, for files of the database and of the warehouse."""

RESERVE = 4
"""Files that are kept open, and closed so that probes can be accepted: one for each probe at a time."""

_NONE_LEFT = (errno.EMFILE, errno.ENFILE)
_OPEN_FILES = ("/proc/self/fd", "/dev/fd")

SILENT_SECONDS_MAX = 5.0
"""Time without signs after which a process has a problem; it writes them every second."""

WAIT_SECONDS_MAX = 5.0
"""Time that requests may wait without one being begun."""

NO_LIMIT = -1
"""Value where the system does not limit descriptors."""

TEXT_BYTES = 512
"""The length of a worker's text; a longer one is cut."""

_COUNT_MAX = 255
_SIGNS = struct.Struct("=ddq")
_HEAD = struct.Struct("=Bxxxxxxxd")
_PARENT_AT = struct.Struct("=d")
_PARENT_OFFSET = 8
_PLACE_BYTES = _SIGNS.size + TEXT_BYTES


def handles_left() -> int | None:
    """Return how many files this process may still open; None where the system does not report it."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return None
    for directory in _OPEN_FILES:
        try:
            return limit - len(os.listdir(directory))
        except OSError as error:
            # Listing them takes one.
            if error.errno in _NONE_LEFT:
                return 0
    return None


class HandleReserve:
    """Open files that are closed when a descriptor is needed. Safe for many threads."""

    def __init__(self, count: int = RESERVE) -> None:
        self._guard = threading.Lock()
        self._count = count
        self._kept: list[int] = []
        self.refill()

    def use(self, action: Callable[[], T]) -> T:
        """Run an action that opens a file, with a descriptor of the reserve if no other is left. OSError."""
        try:
            return action()
        except OSError as error:
            with self._guard:
                if error.errno not in _NONE_LEFT or not self._kept:
                    raise
                os.close(self._kept.pop())
        return action()

    def refill(self) -> None:
        """Open missing files of the reserve, as far as descriptors are available."""
        with self._guard, suppress(OSError):
            while len(self._kept) < self._count:
                self._kept.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def close(self) -> None:
        """Close all files of the reserve."""
        with self._guard:
            while self._kept:
                os.close(self._kept.pop())


@dataclass(frozen=True, slots=True, kw_only=True)
class VitalSigns:
    """The state of a process at a time of the monotonic clock, which all processes of a machine share."""

    at: float
    wait_seconds: float
    handles_left: int

    def problem(self, now: float) -> str | None:
        """Return the problem that the latest signs show; None if there is none."""
        if now - self.at > SILENT_SECONDS_MAX:
            return f"has not answered for {now - self.at:.0f} s: it is stopped, or starved of processor time"
        if self.wait_seconds > WAIT_SECONDS_MAX:
            return f"a request has waited for {self.wait_seconds:.0f} s: all threads are busy"
        if 0 <= self.handles_left < HANDLES_LEFT_MIN:
            return f"{self.handles_left} open files are left (RLIMIT_NOFILE): raise the limit or lower connections_max"
        return None


def current_signs(wait_seconds: float) -> VitalSigns:
    """Return the signs of this process now, with how long requests have waited without one being begun."""
    left = handles_left()
    return VitalSigns(
        at=time.monotonic(), wait_seconds=wait_seconds, handles_left=NO_LIMIT if left is None else max(0, left)
    )


class OwnSigns:
    """The latest signs of a process that serves alone."""

    def __init__(self) -> None:
        self._latest: VitalSigns | None = None

    def beat(self, wait_seconds: float) -> None:
        """Take the signs of this process now."""
        self._latest = current_signs(wait_seconds)

    def problem(self) -> str | None:
        """Return the problem, None if there is none or no signs were taken."""
        latest = self._latest
        return None if latest is None else latest.problem(time.monotonic())


class WorkerPlace:
    """A worker's part of the memory; called with a text, it stores the problem of the worker."""

    def __init__(self, memory: mmap.mmap, start: int) -> None:
        self._memory = memory
        self._start = start

    def __call__(self, text: str) -> None:
        """Store a problem of the worker; an empty text means none."""
        start = self._start + _SIGNS.size
        line = text.encode(errors="replace")[: TEXT_BYTES - 1]
        self._memory[start : start + TEXT_BYTES] = line.ljust(TEXT_BYTES, b"\0")

    def beat(self, wait_seconds: float) -> None:
        """Store the worker's vital signs; its requests have waited this long without one being begun."""
        signs = current_signs(wait_seconds)
        _SIGNS.pack_into(self._memory, self._start, signs.at, signs.wait_seconds, signs.handles_left)

    def clear(self) -> None:
        """Clear the state of the worker that had this section before."""
        self("")
        _SIGNS.pack_into(self._memory, self._start, 0.0, 0.0, 0)

    def problem(self, now: float) -> str | None:
        """Return the worker's problem, None if there is none."""
        start = self._start + _SIGNS.size
        # A text that is cut, or is being written, may end within a character.
        text = self._memory[start : start + TEXT_BYTES].partition(b"\0")[0].decode(errors="replace")
        if text:
            return text
        at, wait_seconds, left = _SIGNS.unpack_from(self._memory, self._start)
        # Before its first signs a worker does not serve, and is not counted.
        return VitalSigns(at=at, wait_seconds=wait_seconds, handles_left=left).problem(now) if at else None


class SharedBoard:
    """The shared memory; made before the processes are forked. `workers` is their number."""

    def __init__(self, workers: int) -> None:
        self._memory = mmap.mmap(-1, _HEAD.size + workers * _PLACE_BYTES)
        self._places = [WorkerPlace(self._memory, _HEAD.size + each * _PLACE_BYTES) for each in range(workers)]

    @property
    def serving(self) -> int:
        """Number of workers that serve, at most 255."""
        return self._memory[0]

    @serving.setter
    def serving(self, count: int) -> None:
        self._memory[0] = min(_COUNT_MAX, count)

    def place(self, worker: int) -> WorkerPlace:
        """Return the section of a worker, counted from 1."""
        return self._places[worker - 1]

    def write(self, worker: int, text: str) -> None:
        """Store a problem of a worker, counted from 1; an empty text means none."""
        self.place(worker)(text)

    def parent_beat(self) -> None:
        """Store the time of this turn of the parent's loop."""
        _PARENT_AT.pack_into(self._memory, _PARENT_OFFSET, time.monotonic())

    def problem(self) -> str | None:
        """Return the problem of a worker, or of the parent, None if there is none."""
        now = time.monotonic()
        problems = []
        for worker, place in enumerate(self._places, start=1):
            text = place.problem(now)
            if text is not None:
                problems.append(f"worker {worker}: {text}")
        (at,) = _PARENT_AT.unpack_from(self._memory, _PARENT_OFFSET)
        parent = VitalSigns(at=at, wait_seconds=0.0, handles_left=-1).problem(now) if at else None
        if parent is not None:
            problems.append(f"the process that accepts connections {parent}")
        return "; ".join(problems) or None


logger = logging.getLogger(__name__)

OTHER_FILES = 256
"""Descriptors for everything but clients: the database's connections, log files, file systems."""

PROCESS_SECONDS_MAX = SHUTDOWN_SECONDS_MAX + 1.0
"""Time that a process has to end: that of running requests, and a little more."""

_CORE_FILTER = Path("/proc/self/coredump_filter")
"""The mappings of this process that a core dump has, on Linux."""

_started = threading.Event()


def allow_connections(connections: int) -> None:
    """Raise the limit of open files, as far as the system allows it, to the need of the clients. Most systems start
    a process with 1024, and allow it to raise the limit.
    """
    wanted = connections + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError) as error:
        logger.warning("the limit of %d open files could not be raised: %s", soft, error)
        return
    if allowed < wanted:
        logger.warning(
            "the system allows %d open files, so that about %d clients can be connected, not %d: raise its limit "
            "(ulimit -Hn, LimitNOFILE) or lower connections_max",
            allowed,
            max(allowed - OTHER_FILES, 0),
            connections,
        )


def leave_no_core_dump() -> None:
    """Have a crash of this process, and of those that it starts, leave no core dump: memory has tokens and passwords.

    The limit of the size is not that of dumps that the kernel passes to a program, so that the mappings are left out of
    those.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
        if _CORE_FILTER.exists():
            _CORE_FILTER.write_text("0")
    except (OSError, ValueError) as error:
        logger.warning("a crash may leave a core dump with secrets: %s", error)


def end_at_last(seconds: float = PROCESS_SECONDS_MAX) -> None:
    """End this process with code 0 after `seconds`, if it still runs then. Every change that was acknowledged is
    on disk. Safe in a signal handler, and more than once.
    """
    if not _started.is_set():
        _started.set()
        SupervisedThread(partial(_end, seconds), name="deadline", deaths=ThreadDeaths()).start()


def _end(seconds: float) -> None:
    threading.Event().wait(seconds)
    logger.warning("the process has not ended within %.1f s and is ended now; running requests are given up", seconds)
    os._exit(0)
