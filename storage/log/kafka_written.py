"""Reader of an eventual log in Kafka: each record as soon as it is written, or the records between two offsets.

`bounds_of` returns the first and last offsets of the log's partitions. Connections are kept for the next request,
because opening one takes many times as long as a request, and a planner of Spark asks at every trigger of a query.
"""

import atexit
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock, Timer
from typing import Any, NamedTuple

from interbed.storage.base.errors import LogUnavailableError
from interbed.storage.log.kafka import LogConsumer
from interbed.storage.log.settings import LogSettings
from interbed.storage.log.written import WRITTEN_HEADER, WrittenBy, WrittenRange, WrittenRanges, WrittenRow

_STEP_SECONDS = 0.5


class KafkaWrittenReader:
    """WrittenReader of a Kafka topic. Raises MissingExtraError. It connects in `open`."""

    def __init__(self, settings: LogSettings, *, request_seconds: float = 10.0) -> None:
        self._consumer = LogConsumer(settings, request_seconds=request_seconds)
        self._rows = _RowDecoder(settings)
        self._partitions = 0

    @property
    def is_at_end(self) -> bool:
        return len(self._consumer.at_end) >= self._partitions

    def open(self, offsets: Mapping[int, int]) -> WrittenRange | None:
        partitions = self._consumer.partitions()
        if partitions is None:
            return None
        self._partitions = partitions
        begins, ends = self._consumer.begin(offsets, partitions)
        return WrittenRange(begins, ends)

    def poll(self, timeout_seconds: float) -> Sequence[WrittenRow]:
        return self._rows.of(self._consumer.take(timeout_seconds))

    def close(self) -> None:
        self._consumer.close()


class KafkaWrittenRanges:
    """WrittenRanges of a Kafka topic. Raises MissingExtraError. It connects at the first request."""

    def __init__(self, settings: LogSettings, *, request_seconds: float = 10.0) -> None:
        self._settings = settings
        self._seconds = request_seconds
        self._consumer = LogConsumer(settings, request_seconds=request_seconds)
        self._rows = _RowDecoder(settings)

    def bounds(self) -> WrittenRange | None:
        self._consumer.log_what_waits()
        partitions = self._consumer.partitions()
        if partitions is None:
            return None
        return WrittenRange(self._consumer.lowest(range(partitions)), self._consumer.highest(range(partitions)))

    def between(self, partition: int, begin: int, end: int) -> Iterator[Sequence[WrittenRow]]:
        if begin >= end:
            return
        self._consumer.assign({partition: begin})
        deadline = time.monotonic() + self._seconds
        while True:
            messages = self._consumer.take(_STEP_SECONDS)
            inside = [message for message in messages if message.offset() < end]
            if inside:
                yield self._rows.of(inside)
            # The last offset may not belong to a record.
            if len(inside) < len(messages) or (messages and messages[-1].offset() >= end - 1):
                return
            if partition in self._consumer.at_end:
                return
            if messages:
                deadline = time.monotonic() + self._seconds
            elif time.monotonic() >= deadline:
                raise LogUnavailableError(
                    f"Records {begin} to {end} of partition {partition} of {self._settings.place} did not come within "
                    f"{self._seconds:g} s."
                )

    def close(self) -> None:
        self._consumer.close()


class _RowDecoder:
    """Decoder of Kafka's messages to rows."""

    def __init__(self, settings: LogSettings) -> None:
        self._place = settings.place
        self._known: dict[bytes, WrittenBy] = {}

    def of(self, messages: Sequence[Any]) -> Sequence[WrittenRow]:
        """Return the rows of the messages, without records from the time when the log was a transactional one."""
        return [row for message in messages if (row := self._row(message)) is not None]

    def _row(self, message: Any) -> WrittenRow | None:
        by = next((content for name, content in message.headers() or () if name == WRITTEN_HEADER), None)
        key = message.key()
        if by is None or key is None:
            return None
        known = self._known.get(by)
        if known is None:
            place = f"partition {message.partition()} of {self._place}"
            known = self._known[by] = WrittenBy.from_json(by, place=place)
        return WrittenRow(key, message.value(), known, message.partition(), message.offset())


MOST_CONNECTIONS = 32
IDLE_SECONDS = 60.0


class _CachedConnection(NamedTuple):
    log: WrittenRanges
    since: float


def _call_later(seconds: float, call: Callable[[], None]) -> None:
    timer = Timer(seconds, call)
    timer.name = "interbed-log-bounds"
    # The end of the process does not wait for it.
    timer.daemon = True
    timer.start()


class LogBounds:
    """Bounds of logs, with a cached connection to each of them. Thread-safe, also in forked processes.

    Each thread uses a connection alone during a request. A connection is closed after an error, when it is not used for
    `idle_seconds` (at most twice as long), when more than `most` are kept (the one used least recently), and by
    `close`. `later` calls a function after some seconds.
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
        self._kept: OrderedDict[tuple[object, ...], _CachedConnection] = OrderedDict()
        self._inherited: list[OrderedDict[tuple[object, ...], _CachedConnection]] = []
        self._is_watched = False
        self._guard = Lock()

    def of(self, settings: LogSettings) -> WrittenRange | None:
        """Return the current bounds of a log; None if it does not exist.

        Raises LogUnavailableError, MissingExtraError.
        """
        with self._guard:
            self._disown_inherited()
            kept = self._kept.pop(settings.identity, None)
        log = self._connect(settings) if kept is None else kept.log
        try:
            found = log.bounds()
        except BaseException:
            # Close the connection, which may be broken; the next request opens another one.
            log.close()
            raise
        self._keep(settings, log)
        return found

    def close(self) -> None:
        """Close all idle connections; they are opened again when they are needed."""
        with self._guard:
            self._disown_inherited()
            closing, self._kept = self._kept, OrderedDict()
        _close(*closing.values())

    def _keep(self, settings: LogSettings, log: WrittenRanges) -> None:
        closing = []
        with self._guard:
            # Another thread may have asked at the same time.
            if settings.identity in self._kept:
                closing.append(self._kept.pop(settings.identity))
            self._kept[settings.identity] = _CachedConnection(log, self._clock())
            while len(self._kept) > self._most:
                closing.append(self._kept.popitem(last=False)[1])
            self._watch()
        _close(*closing)

    def _watch(self) -> None:
        if self._kept and not self._is_watched:
            self._is_watched = True
            self._later(self._idle_seconds, self._close_idle)

    def _close_idle(self) -> None:
        with self._guard:
            self._disown_inherited()
            used = self._clock() - self._idle_seconds
            idle = [identity for identity, kept in self._kept.items() if kept.since <= used]
            closing = [self._kept.pop(identity) for identity in idle]
            self._is_watched = False
            self._watch()
        _close(*closing)

    def _disown_inherited(self) -> None:
        """Forget all connections after a fork, without closing them or dropping the last reference to one.

        Connections are closed by threads that the child process does not have.
        """
        if self._owner != self._process():
            self._owner = self._process()
            self._inherited.append(self._kept)
            self._kept = OrderedDict()
            self._is_watched = False


def _close(*closing: _CachedConnection) -> None:
    for each in closing:
        each.log.close()


_shared = LogBounds()
atexit.register(_shared.close)


def bounds_of(settings: LogSettings) -> WrittenRange | None:
    """Return the current bounds of a log, by the connections of this process; see LogBounds.of."""
    return _shared.of(settings)


def forget_bounds() -> None:
    """Close the connections of this process; they are opened again when they are needed."""
    _shared.close()
