"""Appending to a log in Kafka, one transaction for each snapshot.

All writers of a topic have one `transactional.id`, so that Kafka itself lets only one of them append: taking it over
ends the transaction that another one has open, and waits until whatever was committed can be read. So what the topic
ends with is known then, and nobody else adds to it. Source: https://kafka.apache.org/documentation/#semantics, KIP-98.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from interbed.storage.base.errors import InterbedError, LogUnavailableError
from interbed.storage.log.api import LogTakenOverError, Published
from interbed.storage.log.kafka_producer import produce
from interbed.storage.log.kafka_reader import read_last_marker
from interbed.storage.log.marker import MARKER_HEADER, LogMarker
from interbed.storage.log.records import LogRecords, kind_header
from interbed.storage.log.settings import LogSettings, kafka_library, kept_settings
from interbed.storage.log.topic import REQUEST_SECONDS, ensure_topic

_log = logging.getLogger(__name__)

TRANSACTION_SECONDS = 120.0
"""How long the records of one snapshot may take to be delivered."""

_MOST_COMMIT_TRIES = 2
_TAKEN_OVER = "_FENCED INVALID_PRODUCER_EPOCH PRODUCER_FENCED _UNKNOWN_TOPIC UNKNOWN_TOPIC_OR_PART"
"""What says that another writer took the topic over, or deleted it."""
_KINDS = [kind_header(kind) for kind in range(4)]


class KafkaLogWriter:
    """A LogWriter of a topic, which is made when it is not there. Raises LogUnavailableError, MissingExtraError."""

    def __init__(self, settings: LogSettings, *, request_seconds: float = REQUEST_SECONDS) -> None:
        self._settings = settings
        self._kafka = kafka_library()
        self._seconds = request_seconds
        self._taken_over_codes = [
            code for name in _TAKEN_OVER.split() if (code := getattr(self._kafka.KafkaError, name, None)) is not None
        ]
        self._partitions = ensure_topic(settings, request_seconds)
        self._ends: dict[int, int] = {}
        self._producer = self._took_over()

    @property
    def partitions(self) -> int:
        """See LogWriter."""
        return self._partitions

    def published(self) -> Published | None:
        """See LogWriter."""
        return read_last_marker(self._settings, self._partitions, self._seconds)

    def append(
        self, marker: LogMarker, records: Iterable[tuple[int, LogRecords]], time_millis: int
    ) -> Mapping[int, int]:
        """See LogWriter. After an error the writer is of no more use."""
        try:
            self._producer.begin_transaction()
            try:
                self._send_all(marker, records, time_millis)
                self._commit()
            except LogUnavailableError:
                # Whoever takes the log over next ends the transaction.
                raise
            except (InterbedError, OSError):
                # What was read from the table failed; readers see nothing of the transaction.
                self._producer.abort_transaction(self._seconds)
                raise
        except (self._kafka.KafkaException, SystemError) as error:
            found = self._cause_of(error)
            if found.args[0].code() in self._taken_over_codes:
                raise LogTakenOverError(self._settings.place) from error
            raise self._settings.unavailable("The log was not written", found) from error
        return dict(self._ends)

    def close(self) -> None:
        """See LogWriter; nothing is pending that anybody waits for."""
        self._producer.purge()

    def _cause_of(self, error: BaseException) -> Any:
        """The error of Kafka. When a producer is fenced while it tells what was delivered, Kafka's client goes on to
        call for the next delivery, which Python makes a SystemError of, and again for the one after that.
        """
        found: BaseException | None = error
        while isinstance(found, SystemError):
            found = found.__cause__
        if not isinstance(found, self._kafka.KafkaException):
            raise error
        return found

    def _took_over(self) -> Any:
        settings = {
            # Compressed batches of what is there, without waiting for more: the marker ends a snapshot anyway.
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
        # Kafka's client takes one message at a time. What is not delivered fails the transaction.
        for key, value, kind in zip(records.keys, records.values, records.kinds.tolist(), strict=True):
            header = _KINDS[kind]
            headers = None if header is None else [("kind", header)]
            produce(producer, topic, partition, key, value, headers, time_millis=time_millis)

    def _on_marker(self, error: Any, message: Any) -> None:
        if error is None:
            self._ends[message.partition()] = message.offset() + 1

    def _deliver(self) -> None:
        """Wait until everything is delivered, as long as some of it is in each of the times that one waits."""
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
            # It is committed; where it ends the next writer finds out.
            raise LogTakenOverError(self._settings.place)
