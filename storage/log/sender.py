"""Sender of rows to an eventual log as they are written, before they are committed.

All writers of a process share one producer for each log. The rows of a writer are in the log before it returns its
commit messages; if they are never committed, readers find that out at the table's next snapshot.
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
