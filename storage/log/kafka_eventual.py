"""Eventual log in Kafka: the sender of rows as they are written, before they are committed, and the reader of each
record as soon as it is written, or of the records between two offsets.

All writers of a process share one producer for each log. The rows of a writer are in the log before it returns its
commit messages; if they are never committed, readers find that out at the table's next snapshot.

`bounds_of` returns the first and last offsets of the log's partitions. Connections are kept for the next request,
because opening one takes many times as long as a request, and a planner of Spark asks at every trigger of a query.
"""

import atexit
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock, Timer
from typing import Any, NamedTuple

import pyarrow as pa

from interbed.storage.base.errors import InterbedError, LogUnavailableError
from interbed.storage.log.api import RecordCodec
from interbed.storage.log.kafka import (
    LogConsumer,
    LogSettings,
    ensure_topic,
    identity_of,
    kafka_library,
    kept_settings,
    partition_of,
    produce,
)
from interbed.storage.log.written import WRITTEN_HEADER, WrittenBy, WrittenRange, WrittenRanges, WrittenRow
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.snapshot.progress import LogPosition

_log = logging.getLogger(__name__)

DELIVERY_SECONDS = 30.0
"""Delay of a write by a broker that does not answer, unless `kafka.message.timeout.ms` is set."""

END_SECONDS = 5.0
"""Time for which a commit waits for the end offsets of the log."""

_POLL_SECONDS = 0.05
_ROWS_BETWEEN_POLLS = 1_000


def log_ends(store: FileStore) -> Mapping[str, int] | None:
    """Return the end offsets of the table's log for a snapshot; None when Kafka does not answer."""
    try:
        return _connection_of(LogSettings.of(store.options)).ends()
    except InterbedError as error:
        _log.warning("The next snapshot of %s has no log offsets: %s", store.location, error)
        return None


def forget_sender(store: FileStore) -> None:
    """Close the connection to the log of a table that is dropped."""
    with _guard:
        held = _connections.pop(LogSettings.of(store.options).identity, None)
    if held is not None and held.process == os.getpid():
        held.close()


def forget_senders() -> None:
    """Close all connections; they are opened again when they are needed."""
    with _guard:
        held = list(_connections.values())
        _connections.clear()
    for each in held:
        if each.process == os.getpid():
            each.close()


class KafkaWriteLog:
    """WriteLog of one writer of a table. It connects at the first row."""

    def __init__(self, store: FileStore) -> None:
        self._settings = LogSettings.of(store.options)
        self._store = store
        self._codec = RecordCodec(store.schema)
        self._connection: _SharedConnection | None = None
        self._headers: list[tuple[str, bytes]] = []
        self._sent = 0
        self._delivered = 0
        self._failure: Any = None
        self._counting = Lock()

    def send(self, bucket: int, rows: pa.RecordBatch, kinds: "pa.Array[Any] | None") -> None:
        connection = self._connected()
        records = self._codec.upserts(rows, kinds)
        partition = partition_of(bucket, connection.partitions)
        producer, topic = connection.producer, self._settings.topic
        try:
            for number, (key, value) in enumerate(zip(records.keys, records.values, strict=True)):
                if number % _ROWS_BETWEEN_POLLS == 0:
                    producer.poll(0)
                    self._check()
                produce(
                    producer,
                    topic,
                    partition,
                    key,
                    value,
                    self._headers,
                    on_delivery=self._on_delivery,
                    check=self._check,
                )
                self._sent += 1
        except kafka_library().KafkaException as error:
            _forget(self._settings, connection)
            raise self._settings.unavailable("The log was not written", error) from error

    def flush(self) -> None:
        while self._connection is not None and self._delivered < self._sent:
            # Each record is delivered or given up within librdkafka's `message.timeout.ms`.
            self._connection.producer.poll(_POLL_SECONDS)
        self._check()

    def _connected(self) -> "_SharedConnection":
        if self._connection is None:
            by = WrittenBy(table=identity_of(self._store), schema_id=self._store.schema.id)
            self._headers = [(WRITTEN_HEADER, by.to_json())]
            self._connection = _connection_of(self._settings)
        return self._connection

    def _on_delivery(self, error: Any, message: Any) -> None:
        # Any thread that polls the shared producer gets the delivery reports of all writers.
        with self._counting:
            self._delivered += 1
            if error is not None and self._failure is None:
                self._failure = error

    def _check(self) -> None:
        if self._failure is not None and self._connection is not None:
            # After an error that does not concern a single record a producer can't be used any more.
            _forget(self._settings, self._connection)
            raise self._settings.unavailable("The log was not written", self._failure)


@dataclass(slots=True)
class _SharedConnection:
    """Connection to a log that the writers and commits of this process share."""

    settings: LogSettings
    producer: Any
    partitions: int
    process: int = field(default_factory=os.getpid)
    _consumer: LogConsumer | None = None
    _consumer_lock: Lock = field(default_factory=Lock)

    def ends(self) -> Mapping[str, int]:
        """Return the offset after the last record of each partition; raises LogUnavailableError."""
        with self._consumer_lock:
            if self._consumer is None:
                self._consumer = LogConsumer(self.settings, request_seconds=END_SECONDS, committed=False)
            self._consumer.log_what_waits()
            ends = self._consumer.highest(range(self.partitions))
        return LogPosition(snapshot=0, offsets=ends).as_log_offsets

    def close(self) -> None:
        """Close the connection without waiting for undelivered records."""
        self.producer.purge()
        with self._consumer_lock:
            if self._consumer is not None:
                self._consumer.close()
                self._consumer = None


_connections: dict[tuple[object, ...], _SharedConnection] = {}
_guard = Lock()


def _connection_of(settings: LogSettings) -> _SharedConnection:
    """Return the process's connection to a log; raises LogUnavailableError, InvalidOptionError, MissingExtraError."""
    with _guard:
        found = _connections.get(settings.identity)
        if found is None or found.process != os.getpid():
            found = _connections[settings.identity] = _connect(settings)
        return found


def _connect(settings: LogSettings) -> _SharedConnection:
    kafka = kafka_library()
    partitions = ensure_topic(settings)
    try:
        producer = kafka.Producer(
            {
                # Send a record at once; records that are available at the same time still form one batch.
                "linger.ms": "2",
                "compression.type": "lz4",
                "message.timeout.ms": str(int(DELIVERY_SECONDS * 1000)),
                **kept_settings(settings),
                # Records of a key keep their order when some are sent again.
                "enable.idempotence": "true",
            },
            logger=_log,
        )
    except kafka.KafkaException as error:
        raise settings.unavailable("The log can't be written", error) from error
    return _SharedConnection(settings, producer, partitions)


def _forget(settings: LogSettings, connection: _SharedConnection) -> None:
    with _guard:
        if _connections.get(settings.identity) is connection:
            del _connections[settings.identity]


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
