"""Log in Kafka: append the records of each snapshot in one transaction, and read committed records in groups.

All writers of a topic have one `transactional.id`, so that Kafka itself lets only one of them append. A writer that
takes the log over ends the open transaction of another writer, and waits until all committed records can be read. Then
it knows the end of the topic, and no other process appends. The end of a transaction, after a marker, has an offset
that readers do not see. Source: https://kafka.apache.org/documentation/#semantics, KIP-98.
"""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from interbed.storage.base.errors import InterbedError, LogUnavailableError
from interbed.storage.log.api import (
    MARKER_HEADER,
    GroupAssembler,
    LogGroup,
    LogMarker,
    LogRecords,
    LogTakenOverError,
    PublishedMarker,
    kind_header,
)
from interbed.storage.log.kafka import (
    REQUEST_SECONDS,
    LogConsumer,
    LogSettings,
    ensure_topic,
    kafka_library,
    kept_settings,
    produce,
)

_FIRST_WINDOW = 16
"""Number of offsets before the end that are first searched for a marker; later searches cover many times more."""


class KafkaLogReader:
    """LogReader of a Kafka topic. Raises MissingExtraError. It connects in `open`."""

    def __init__(self, settings: LogSettings, *, request_seconds: float = 10.0) -> None:
        self._settings = settings
        self._consumer = LogConsumer(settings, request_seconds=request_seconds)
        self._assembler = GroupAssembler(0)
        self._buffers: dict[int, PartBuffer] = {}

    def open(self, offsets: Mapping[int, int]) -> bool:
        partitions = self._consumer.partitions()
        if partitions is None:
            return False
        self._assembler = GroupAssembler(partitions)
        self._buffers = {p: PartBuffer(f"partition {p} of {self._settings.place}") for p in range(partitions)}
        self._consumer.begin(offsets, partitions)
        return True

    def poll(self, timeout_seconds: float) -> Sequence[LogGroup]:
        received = self._consumer.take(timeout_seconds)
        while received:
            for message in received:
                part = self._buffers[message.partition()].take(message)
                if part is not None:
                    self._assembler.add(message.partition(), *part, message.offset() + 1)
            # Return complete groups before reading more into memory.
            groups = list(self._assembler.complete())
            if groups:
                return groups
            received = self._consumer.take(0.0)
        return []

    def close(self) -> None:
        self._consumer.close()


class PartBuffer:
    """Buffer of the messages of one partition up to the next marker."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._kinds: list[int] = []

    def take(self, message: Any) -> tuple[LogMarker, LogRecords] | None:
        """Take a message; a marker is returned with the records before it."""
        kind = -1
        for name, content in message.headers() or ():
            if name == MARKER_HEADER:
                marker = LogMarker.from_json(content or b"", place=self._place)
                records = LogRecords(keys=self._keys, values=self._values, kinds=np.array(self._kinds, np.int8))
                self._keys, self._values, self._kinds = [], [], []
                return marker, records
            if name == "kind" and content in (b"1", b"2"):
                kind = int(content)
        self._keys.append(message.key())
        self._values.append(message.value())
        self._kinds.append(kind)
        return None


def read_last_marker(settings: LogSettings, partitions: int, seconds: float) -> PublishedMarker | None:
    """Return the last marker of the log, with the offsets after it; None without any.

    Raises LogUnavailableError, CorruptFileError for an invalid marker.
    """
    consumer = LogConsumer(settings, request_seconds=seconds)
    try:
        lows, highs = consumer.lowest(range(partitions)), consumer.highest(range(partitions))
        found: dict[int, tuple[LogMarker, int]] = {}
        window = _FIRST_WINDOW
        missing = [p for p in lows if lows[p] < highs[p]]
        while missing:
            begins = {p: max(lows[p], highs[p] - window) for p in missing}
            found |= _last_markers(consumer, begins, settings, seconds)
            missing = [p for p in missing if p not in found and begins[p] > lows[p]]
            window *= 64
    finally:
        consumer.close()
    if not found:
        return None
    newest = max(marker.order for marker, _ in found.values())
    marker = next(m for m, _ in found.values() if m.order == newest)
    # A partition whose marker was deleted by retention is empty.
    ends = {p: found[p][1] if p in found else highs[p] for p in range(partitions)}
    return PublishedMarker(marker=marker, offsets=ends)


def _last_markers(
    consumer: LogConsumer, begins: Mapping[int, int], settings: LogSettings, seconds: float
) -> dict[int, tuple[LogMarker, int]]:
    """Return the last marker of each partition after the offsets, and the offset after it."""
    consumer.assign(begins)
    found: dict[int, tuple[LogMarker, int]] = {}
    deadline = time.monotonic() + seconds
    while not consumer.at_end >= begins.keys():
        before = len(consumer.at_end)
        messages = consumer.take(max(0.0, deadline - time.monotonic()))
        if messages or len(consumer.at_end) > before:
            deadline = time.monotonic() + seconds
        elif time.monotonic() >= deadline:
            # Until then the consumer may have recovered from an error by itself.
            raise LogUnavailableError(
                f"The end of {settings.place} was not reached within {seconds:g} s. Try again when it answers."
            )
        for message in messages:
            for name, content in message.headers() or ():
                if name == MARKER_HEADER:
                    place = f"partition {message.partition()} of {settings.place}"
                    marker = LogMarker.from_json(content or b"", place=place)
                    found[message.partition()] = (marker, message.offset() + 1)
    return found


_log = logging.getLogger(__name__)

TRANSACTION_SECONDS = 120.0
"""Time within which the records of one snapshot must be delivered."""

_MOST_COMMIT_TRIES = 2
_TAKEN_OVER = "_FENCED INVALID_PRODUCER_EPOCH PRODUCER_FENCED _UNKNOWN_TOPIC UNKNOWN_TOPIC_OR_PART"
"""Errors that say that another writer took the topic over, or deleted it."""
_KINDS = [kind_header(kind) for kind in range(4)]


class KafkaLogWriter:
    """LogWriter of a topic, which is created if necessary. Raises LogUnavailableError, MissingExtraError."""

    def __init__(self, settings: LogSettings, *, request_seconds: float = REQUEST_SECONDS) -> None:
        self._settings = settings
        self._kafka = kafka_library()
        self._seconds = request_seconds
        self._taken_over_codes = [
            code for name in _TAKEN_OVER.split() if (code := getattr(self._kafka.KafkaError, name, None)) is not None
        ]
        self._partitions = ensure_topic(settings, request_seconds)
        self._ends: dict[int, int] = {}
        self._producer = self._take_over()

    @property
    def partitions(self) -> int:
        return self._partitions

    def published(self) -> PublishedMarker | None:
        return read_last_marker(self._settings, self._partitions, self._seconds)

    def append(
        self, marker: LogMarker, records: Iterable[tuple[int, LogRecords]], time_millis: int
    ) -> Mapping[int, int]:
        """Append records and the marker; see LogWriter. After an error the writer can't be used any more."""
        try:
            self._producer.begin_transaction()
            try:
                self._send_all(marker, records, time_millis)
                self._commit()
            except LogUnavailableError:
                # The next writer that takes the log over ends the transaction.
                raise
            except (InterbedError, OSError):
                # Reading from the table failed; readers see nothing of the transaction.
                self._producer.abort_transaction(self._seconds)
                raise
        except (self._kafka.KafkaException, SystemError) as error:
            found = self._cause_of(error)
            if found.args[0].code() in self._taken_over_codes:
                raise LogTakenOverError(self._settings.place) from error
            raise self._settings.unavailable("The log was not written", found) from error
        return dict(self._ends)

    def close(self) -> None:
        """Close the connection. Pending records are discarded."""
        self._producer.purge()

    def _cause_of(self, error: BaseException) -> Any:
        """Return the Kafka error that caused an error.

        When a producer is fenced while it reports deliveries, Kafka's client continues with the next delivery, which
        Python turns into a SystemError, and again for the one after that.
        """
        found: BaseException | None = error
        while isinstance(found, SystemError):
            found = found.__cause__
        if not isinstance(found, self._kafka.KafkaException):
            raise error
        return found

    def _take_over(self) -> Any:
        settings = {
            # Send compressed batches without waiting for more records: the marker ends a snapshot anyway.
            "linger.ms": "0",
            "compression.type": "lz4",
            **kept_settings(self._settings),
            "transactional.id": f"interbed-log-{self._settings.topic}",
            "transaction.timeout.ms": str(int(TRANSACTION_SECONDS * 1000)),
        }
        try:
            producer = self._kafka.Producer(settings, logger=_log)
            producer.init_transactions(self._seconds)
        except self._kafka.KafkaException as error:
            raise self._settings.unavailable("The log can't be written", error) from error
        return producer

    def _send_all(self, marker: LogMarker, records: Iterable[tuple[int, LogRecords]], time_millis: int) -> None:
        self._ends = {}
        counts = dict.fromkeys(range(self._partitions), 0)
        for partition, some in records:
            counts[partition] += len(some)
            self._send_records(partition, some, time_millis)
        for partition, count in counts.items():
            header = (MARKER_HEADER, marker.with_records(count).to_json())
            produce(
                self._producer,
                self._settings.topic,
                partition,
                None,
                None,
                [header],
                time_millis=time_millis,
                on_delivery=self._on_marker,
            )

    def _send_records(self, partition: int, records: LogRecords, time_millis: int) -> None:
        producer, topic = self._producer, self._settings.topic
        # Kafka's client takes one message at a time. A failed delivery fails the transaction.
        for key, value, kind in zip(records.keys, records.values, records.kinds.tolist(), strict=True):
            header = _KINDS[kind]
            headers = None if header is None else [("kind", header)]
            produce(producer, topic, partition, key, value, headers, time_millis=time_millis)

    def _on_marker(self, error: Any, message: Any) -> None:
        if error is None:
            self._ends[message.partition()] = message.offset() + 1

    def _deliver(self) -> None:
        """Wait until everything is delivered, as long as each wait makes progress."""
        left = len(self._producer)
        while left:
            before, left = left, self._producer.flush(self._seconds)
            if left == before:
                raise self._settings.unavailable(
                    "The log was not written", f"nothing was taken within {self._seconds:g} s"
                )

    def _commit(self) -> None:
        self._deliver()
        for tries in range(_MOST_COMMIT_TRIES):
            try:
                self._producer.commit_transaction(self._seconds)
            except self._kafka.KafkaException as error:
                if error.args[0].retriable() and tries + 1 < _MOST_COMMIT_TRIES:
                    _log.info("Committing to %s is tried again: %s", self._settings.place, self._settings.shown(error))
                    continue
                if error.args[0].txn_requires_abort():
                    self._producer.abort_transaction(self._seconds)
                raise
            else:
                break
        if len(self._ends) != self._partitions:
            # The transaction is committed; the next writer determines its end.
            raise LogTakenOverError(self._settings.place)
