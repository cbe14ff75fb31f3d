"""Where eventual logs begin and end, asked by connections that stay for the next question.

A connection takes many times as long to make as to be answered. Who asks at every trigger of a query, as a planner of
Spark does, mostly hears that nothing came, and shall not make one each time.
"""

import atexit
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock, Timer
from typing import NamedTuple

from interbed.storage.log.kafka_written import KafkaWrittenRanges
from interbed.storage.log.settings import LogSettings
from interbed.storage.log.written import WrittenRange, WrittenRanges

MOST_CONNECTIONS = 32
IDLE_SECONDS = 60.0


class _Kept(NamedTuple):
    log: WrittenRanges
    since: float


def _call_later(seconds: float, call: Callable[[], None]) -> None:
    timer = Timer(seconds, call)
    timer.name = "interbed-log-bounds"
    # A process that ends does not wait for it.
    timer.daemon = True
    timer.start()


class LogBounds:
    """Asks logs for their bounds, and keeps a connection to each of them. Safe for several threads, each of which has
    a connection alone while it asks, and for processes that are forked.

    A connection goes after an error, when it is not used for `idle_seconds` (at most as long again later), when more
    than `most` are kept (the one used least recently), and by `close`. `later` calls a function after some seconds.
    """

    def __init__(
        self,
        connect: Callable[[LogSettings], WrittenRanges] = KafkaWrittenRanges,
        *,
        most: int = MOST_CONNECTIONS,
        idle_seconds: float = IDLE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        later: Callable[[float, Callable[[], None]], None] = _call_later,
        process: Callable[[], int] = os.getpid,
    ) -> None:
        self._connect = connect
        self._most = most
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._later = later
        self._process = process
        self._owner = process()
        self._kept: OrderedDict[tuple[object, ...], _Kept] = OrderedDict()
        self._inherited: list[OrderedDict[tuple[object, ...], _Kept]] = []
        self._is_watched = False
        self._guard = Lock()

    def of(self, settings: LogSettings) -> WrittenRange | None:
        """Where a log begins and ends now; None for one that is not there. LogUnavailableError, MissingExtraError."""
        with self._guard:
            self._disown_inherited()
            kept = self._kept.pop(settings.identity, None)
        log = self._connect(settings) if kept is None else kept.log
        try:
            found = log.bounds()
        except BaseException:
            # The next question may be answered by a connection that knows of nothing.
            log.close()
            raise
        self._keep(settings, log)
        return found

    def close(self) -> None:
        """Let go of all connections that nobody uses now; they are made again when they are needed."""
        with self._guard:
            self._disown_inherited()
            gone, self._kept = self._kept, OrderedDict()
        _close(*gone.values())

    def _keep(self, settings: LogSettings, log: WrittenRanges) -> None:
        gone = []
        with self._guard:
            # Another thread may have asked at the same time.
            if settings.identity in self._kept:
                gone.append(self._kept.pop(settings.identity))
            self._kept[settings.identity] = _Kept(log, self._clock())
            while len(self._kept) > self._most:
                gone.append(self._kept.popitem(last=False)[1])
            self._watch()
        _close(*gone)

    def _watch(self) -> None:
        if self._kept and not self._is_watched:
            self._is_watched = True
            self._later(self._idle_seconds, self._let_go_of_idle)

    def _let_go_of_idle(self) -> None:
        with self._guard:
            self._disown_inherited()
            used = self._clock() - self._idle_seconds
            idle = [identity for identity, kept in self._kept.items() if kept.since <= used]
            gone = [self._kept.pop(identity) for identity in idle]
            self._is_watched = False
            self._watch()
        _close(*gone)

    def _disown_inherited(self) -> None:
        """After a fork, begin with nothing: connections are closed by threads that the child does not have, so that it
        must not even drop the last reference to one.
        """
        if self._owner != self._process():
            self._owner = self._process()
            self._inherited.append(self._kept)
            self._kept = OrderedDict()
            self._is_watched = False


def _close(*gone: _Kept) -> None:
    for each in gone:
        each.log.close()


_shared = LogBounds()
atexit.register(_shared.close)


def bounds_of(settings: LogSettings) -> WrittenRange | None:
    """Where a log begins and ends now, by the connections of this process; see LogBounds.of."""
    return _shared.of(settings)


def forget_bounds() -> None:
    """Let go of the connections of this process; they are made again when they are needed."""
    _shared.close()
