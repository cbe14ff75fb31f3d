"""Sending rows to an eventual log as they are written, before they are committed.

All writers of a process share one producer for each log. What a writer sent is in the log before it hands out its
commit messages; should the commit never come, readers find that out at the table's next snapshot.
"""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import pyarrow as pa

from interbed.storage.base.errors import InterbedError
from interbed.storage.log.kafka import LogConsumer, ensure_topic, partition_of, produce
from interbed.storage.log.records import RecordCodec
from interbed.storage.log.settings import LogSettings, identity_of, kafka_library, kept_settings
from interbed.storage.log.written import WRITTEN_HEADER, WrittenBy
from interbed.storage.meta.snapshot.progress import LogPosition
from interbed.storage.meta.store import TableStore

_log = logging.getLogger(__name__)

DELIVERY_SECONDS = 30.0
"""How long a broker that does not answer delays a write, unless `kafka.message.timeout.ms` says otherwise."""

END_SECONDS = 5.0
"""How long a commit waits to be told where the log ends."""

_POLL_SECONDS = 0.05
_ROWS_BETWEEN_POLLS = 1_000


def log_ends(store: TableStore) -> Mapping[str, int] | None:
    """The offsets after all that is in the table's log now, as a snapshot has them; None when Kafka does not say."""
    try:
        return _connection_of(LogSettings.of(store.options)).ends()
    except InterbedError as error:
        _log.warning("Where the log of %s stands is not in its next snapshot: %s", store.location, error)
        return None


def forget_sender(store: TableStore) -> None:
    """Let go of the connection to the log of a table that is dropped."""
    with _guard:
        held = _connections.pop(LogSettings.of(store.options).identity, None)
    if held is not None and held.process == os.getpid():
        held.close()


def forget_senders() -> None:
    """Let go of all connections; they are made again when they are needed."""
    with _guard:
        held = list(_connections.values())
        _connections.clear()
    for each in held:
        if each.process == os.getpid():
            each.close()


class KafkaWriteLog:
    """The WriteLog of one writer of a table. Nothing is connected to before the first row."""

    def __init__(self, store: TableStore) -> None:
        self._settings = LogSettings.of(store.options)
        self._store = store
        self._codec = RecordCodec(store.schema)
        self._connection: _Connection | None = None
        self._headers: list[tuple[str, bytes]] = []
        self._sent = 0
        self._delivered = 0
        self._failure: Any = None
        self._counting = Lock()

    def send(self, bucket: int, rows: pa.RecordBatch, kinds: "pa.Array[Any] | None") -> None:
        """See WriteLog."""
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
        """See WriteLog."""
        while self._connection is not None and self._delivered < self._sent:
            # Each record is delivered or given up in the end: that is librdkafka's `message.timeout.ms`.
            self._connection.producer.poll(_POLL_SECONDS)
        self._check()

    def _connected(self) -> "_Connection":
        if self._connection is None:
            by = WrittenBy(table=identity_of(self._store), schema_id=self._store.schema.id)
            self._headers = [(WRITTEN_HEADER, by.to_json())]
            self._connection = _connection_of(self._settings)
        return self._connection

    def _on_delivery(self, error: Any, message: Any) -> None:
        # Whoever polls the producer that writers share is told of the records of all of them.
        with self._counting:
            self._delivered += 1
            if error is not None and self._failure is None:
                self._failure = error

    def _check(self) -> None:
        if self._failure is not None and self._connection is not None:
            # After an error that is not of one record a producer is of no more use.
            _forget(self._settings, self._connection)
            raise self._settings.unavailable("The log was not written", self._failure)


@dataclass(slots=True)
class _Connection:
    """What the writers and commits of this process share of a log."""

    settings: LogSettings
    producer: Any
    partitions: int
    process: int = field(default_factory=os.getpid)
    _consumer: LogConsumer | None = None
    _turn: Lock = field(default_factory=Lock)

    def ends(self) -> Mapping[str, int]:
        """The offset after the last record of each partition; raises LogUnavailableError."""
        with self._turn:
            if self._consumer is None:
                self._consumer = LogConsumer(self.settings, request_seconds=END_SECONDS, committed=False)
            self._consumer.log_what_waits()
            ends = self._consumer.highest(range(self.partitions))
        return LogPosition(snapshot=0, offsets=ends).as_log_offsets

    def close(self) -> None:
        """Let go of what is connected; what is not delivered is not waited for."""
        self.producer.purge()
        with self._turn:
            if self._consumer is not None:
                self._consumer.close()
                self._consumer = None


_connections: dict[tuple[object, ...], _Connection] = {}
_guard = Lock()


def _connection_of(settings: LogSettings) -> _Connection:
    """The process's connection to a log; raises LogUnavailableError, InvalidOptionError, MissingExtraError."""
    with _guard:
        found = _connections.get(settings.identity)
        if found is None or found.process != os.getpid():
            found = _connections[settings.identity] = _connect(settings)
        return found


def _connect(settings: LogSettings) -> _Connection:
    kafka = kafka_library()
    partitions = ensure_topic(settings)
    try:
        producer = kafka.Producer(
            {
                # A record is to be read at once; many that are there at the same time are one batch all the same.
                "linger.ms": "2",
                "compression.type": "lz4",
                "message.timeout.ms": str(int(DELIVERY_SECONDS * 1000)),
                **kept_settings(settings),
                # The records of a key stay in their order, whatever is sent again.
                "enable.idempotence": "true",
            },
            logger=_log,
        )
    except kafka.KafkaException as error:
        raise settings.unavailable("The log can't be written", error) from error
    return _Connection(settings, producer, partitions)


def _forget(settings: LogSettings, connection: _Connection) -> None:
    with _guard:
        if _connections.get(settings.identity) is connection:
            del _connections[settings.identity]
