"""Kafka clients of the log's readers and writers: their settings, a consumer, a producer, and the topic's creation and
deletion.

Offsets are those of Kafka's protocol, in which the end of a transaction has one, too. The topic is created when
something is first written to the log, and deleted with the table.

Some settings belong to the log: with other values it would lose changes, or repeat them. The identity distinguishes a
table from another one whose records are in the same topic.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from interbed.storage.base.errors import InvalidOptionError, LogUnavailableError, load_extra
from interbed.storage.base.shown_text import secrets_of, shown_error
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.log import (
    KAFKA,
    KAFKA_SERVERS,
    KAFKA_TOPIC,
    LOG_SYSTEM,
    LogSystem,
)

_log = logging.getLogger(__name__)

OWNED = frozenset(
    {
        "allow.auto.create.topics",
        "auto.offset.reset",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.gapless.guarantee",
        "enable.idempotence",
        "enable.partition.eof",
        "group.id",
        "isolation.level",
        "transactional.id",
    }
)
_TOPIC_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_TOPIC_LONGEST = 249


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Topic of a table, its number of partitions on creation, and its connection; `repr` shows no secrets."""

    topic: str
    servers: str
    partitions: int
    retention_millis: int | None
    settings: Mapping[str, str] = field(repr=False)

    @staticmethod
    def of(options: CoreOptions) -> "LogSettings":
        """Return the settings in a table's options.

        Raises InvalidOptionError for a missing option or an invalid topic.
        """
        for key, value in ((KAFKA_SERVERS, options.kafka_servers), (KAFKA_TOPIC, options.kafka_topic)):
            if not value:
                raise InvalidOptionError(f"Option '{LOG_SYSTEM}' = '{LogSystem.KAFKA}' needs '{key}'; set it.")
        topic = options.kafka_topic
        if not set(topic) <= _TOPIC_LETTERS or len(topic) > _TOPIC_LONGEST or topic in (".", ".."):
            raise InvalidOptionError(
                f"Option '{KAFKA_TOPIC}' = '{topic}' is no name of a topic: it has up to {_TOPIC_LONGEST} letters, "
                "digits, dots, underscores and hyphens."
            )
        owned = sorted(OWNED & options.kafka_settings.keys())
        if owned:
            raise InvalidOptionError(f"Option '{KAFKA}{owned[0]}' is set by the log itself; remove it.")
        return LogSettings(
            topic=topic,
            servers=options.kafka_servers,
            partitions=max(1, options.bucket),
            retention_millis=options.log_retention_millis,
            settings=dict(options.kafka_settings),
        )

    @property
    def place(self) -> str:
        """Name of the log in messages."""
        return f"topic {self.topic} in Kafka at {self.servers}"

    @property
    def identity(self) -> tuple[object, ...]:
        """Key of connections to the same log."""
        return (self.topic, tuple(sorted(self.settings.items())))

    def shown(self, error: Any) -> str:
        """Return the text of an error without secrets, with Kafka's description of its own errors."""
        return shown_error(kafka_library(), error, secrets_of(self.settings))

    def unavailable(self, what: str, error: Any) -> LogUnavailableError:
        """Return the error for a log that does not answer."""
        return LogUnavailableError(f"{what}: {self.shown(error)} ({self.place}). Try again when Kafka answers.")


def kafka_library() -> Any:
    """Return Kafka's client library; raises MissingExtraError where it is not installed."""
    return load_extra("confluent_kafka", needed_by="The log of a table")


def check_settings(settings: LogSettings) -> None:
    """Raise InvalidOptionError for unknown settings of librdkafka and invalid values, without connecting.

    Raises MissingExtraError where librdkafka is not installed.
    """
    kafka = kafka_library()
    unreachable = {name: value for name, value in settings.settings.items() if name != "bootstrap.servers"}
    try:
        kafka.Producer(unreachable, logger=_log)
    except kafka.KafkaException as error:
        # Files and libraries of a connection may be on other machines than this one.
        if error.args[0].code() == kafka.KafkaError._INVALID_ARG and "configuration" in error.args[0].str().lower():
            # Leave the cause out: it may quote a secret.
            raise InvalidOptionError(
                f"An option that begins with '{KAFKA}' is none of librdkafka's settings: {settings.shown(error)}."
            ) from None


def kept_settings(settings: LogSettings) -> Mapping[str, str]:
    """Return the settings of every client of a log: the user's, and those that belong to the log."""
    return {
        # The close of an idle connection needs no warning.
        "log.connection.close": "false",
        **settings.settings,
        "allow.auto.create.topics": "false",
    }


def identity_of(store: FileStore) -> int:
    """Return the creation time of the table's first schema, in milliseconds since the epoch."""
    ids = store.schemas.ids()
    return store.schemas.schema(min(ids)).time_millis or 0 if ids else 0


def error_of_another_table(settings: LogSettings, store: FileStore) -> InvalidOptionError:
    """Return the error for readers of a topic that has records of another table."""
    return InvalidOptionError(
        f"The {settings.place} is the log of another table than the one at {store.location}; set 'kafka.topic'."
    )


_MESSAGES_AT_ONCE = 1_000
_TRANSIENT = """
    _ALL_BROKERS_DOWN _RESOLVE _TIMED_OUT _TRANSPORT COORDINATOR_NOT_AVAILABLE
    LEADER_NOT_AVAILABLE NOT_COORDINATOR NOT_LEADER_FOR_PARTITION THROTTLING_QUOTA_EXCEEDED
"""
"""Errors after which a consumer retries by itself."""


class LogConsumer:
    """Consumer of the topic of a log. Raises MissingExtraError. It connects at the first request. Not thread-safe.

    With `committed` records outside of committed transactions are hidden. `at_end` are the partitions that were read to
    their end.
    """

    def __init__(self, settings: LogSettings, *, request_seconds: float, committed: bool = True) -> None:
        self._settings = settings
        self._kafka = kafka_library()
        self._seconds = request_seconds
        self._transient = [getattr(self._kafka.KafkaError, name) for name in _TRANSIENT.split()]
        self._consumer = self._kafka.Consumer(
            {
                # Records are delivered at once, and an empty queue is filled again at once.
                "fetch.wait.max.ms": "100",
                "fetch.queue.backoff.ms": "20",
                **kept_settings(settings),
                # A consumer needs a group; nothing is stored under this name.
                "group.id": f"interbed-log-{settings.topic}",
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "enable.auto.commit": "false",
                "enable.auto.offset.store": "false",
                # A missing offset is a gap. Continuing at another offset would hide it.
                "auto.offset.reset": "error",
                "enable.partition.eof": "true",
            },
            logger=_log,
        )
        self.at_end: set[int] = set()

    def partitions(self) -> int | None:
        """Return the number of partitions of the topic; None without one. Raises LogUnavailableError."""
        topic = self._settings.topic
        try:
            found = self._consumer.list_topics(topic, timeout=self._seconds).topics[topic]
        except self._kafka.KafkaException as error:
            raise self._settings.unavailable("The log can't be read", error) from error
        if found.error is not None and found.error.code() != self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise self._settings.unavailable("The log can't be read", found.error)
        return len(found.partitions) or None

    def lowest(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the first existing offset of each partition. Raises LogUnavailableError."""
        return self._offsets(partitions, self._kafka.OFFSET_BEGINNING)

    def highest(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the offset after the last one of each partition. Raises LogUnavailableError."""
        return self._offsets(partitions, self._kafka.OFFSET_END)

    def begin(self, offsets: Mapping[int, int], partitions: int) -> tuple[dict[int, int], dict[int, int]]:
        """Read from these offsets. Return the begin and the end of each partition.

        A partition without an offset, or whose offset is no longer valid, is read from its beginning. Raises
        LogUnavailableError.
        """
        lows, highs = self.lowest(range(partitions)), self.highest(range(partitions))
        begins = {}
        for partition, low in lows.items():
            wanted = offsets.get(partition, low)
            # Offsets beyond the end belong to a topic that was deleted and recreated.
            begins[partition] = wanted if low <= wanted <= highs[partition] else low
        self.assign(begins)
        return begins, highs

    def assign(self, begins: Mapping[int, int]) -> None:
        """Read these partitions from these offsets. Raises LogUnavailableError."""
        topic = self._settings.topic
        self.at_end = set()
        try:
            self._consumer.assign([self._kafka.TopicPartition(topic, p, o) for p, o in begins.items()])
        except self._kafka.KafkaException as error:
            raise self._settings.unavailable("The log can't be read", error) from error

    def take(self, timeout_seconds: float) -> list[Any]:
        """Return the available messages, waiting for the first; none also when a partition was read to its end.

        Raises LogUnavailableError for an error after which a consumer does not continue by itself.
        """
        received = self._consume(_MESSAGES_AT_ONCE, 0.0)
        if not received:
            received = self._consume(1, timeout_seconds)
            # Records that were sent together are mostly available together.
            received += self._consume(_MESSAGES_AT_ONCE, 0.0) if received else []
        return self._checked(received)

    def log_what_waits(self) -> None:
        """Log librdkafka's pending messages, for callers that call `take` rarely."""
        self._consumer.poll(0)

    def close(self) -> None:
        """Close the connections of the consumer."""
        self._consumer.close()

    def _offsets(self, partitions: Iterable[int], when: int) -> dict[int, int]:
        asked = [self._kafka.TopicPartition(self._settings.topic, p, when) for p in partitions]
        try:
            answers = self._consumer.offsets_for_times(asked, timeout=self._seconds)
        except self._kafka.KafkaException as error:
            raise self._settings.unavailable("The log can't be read", error) from error
        for answer in answers:
            if answer.error is not None:
                raise self._settings.unavailable("The log can't be read", answer.error)
        return {answer.partition: answer.offset for answer in answers}

    def _consume(self, most: int, timeout_seconds: float) -> list[Any]:
        try:
            messages: list[Any] = self._consumer.consume(most, timeout_seconds)
        except self._kafka.KafkaException as error:
            raise self._settings.unavailable("The log can't be read", error) from error
        return messages

    def _checked(self, received: list[Any]) -> list[Any]:
        """Return the messages without errors, and handle errors."""
        messages = []
        for message in received:
            error = message.error()
            if error is None:
                self.at_end.discard(message.partition())
                messages.append(message)
            elif error.code() == self._kafka.KafkaError._PARTITION_EOF:
                self.at_end.add(message.partition())
            elif error.retriable() or error.code() in self._transient:
                _log.info("Reading %s goes on after an error: %s", self._settings.place, self._settings.shown(error))
            else:
                raise self._settings.unavailable("The log can't be read on", error)
        return messages


_FULL_QUEUE_SECONDS = 0.05


def partition_of(bucket: int, partitions: int) -> int:
    """Return the partition of a bucket's records."""
    return bucket % partitions


def produce(
    producer: Any,
    topic: str,
    partition: int,
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes]] | None,
    *,
    time_millis: int = 0,
    on_delivery: Callable[[Any, Any], None] | None = None,
    check: Callable[[], None] | None = None,
) -> None:
    """Pass a record to librdkafka, waiting for space in its queue until other records are delivered or given up.

    A time of 0 means the current time. `check` is called after each wait; an error of it ends the waiting. Raises
    KafkaException.
    """
    while True:
        try:
            producer.produce(
                topic, value, key, partition, on_delivery=on_delivery, timestamp=time_millis, headers=headers
            )
        except BufferError:
            # The queue is full: some records have to be delivered first.
            producer.poll(_FULL_QUEUE_SECONDS)
            if check is not None:
                check()
        else:
            return


_log = logging.getLogger(__name__)

REQUEST_SECONDS = 10.0
"""Timeout of one request to Kafka."""


def ensure_topic(settings: LogSettings, seconds: float = REQUEST_SECONDS) -> int:
    """Create the topic if it does not exist. Return its number of partitions.

    Its messages are kept as long as `log.retention` says. Raises LogUnavailableError, and InvalidOptionError for a
    topic that keeps only the last message of a key.
    """
    kafka = kafka_library()
    client = _admin_library().AdminClient(dict(kept_settings(settings)), logger=_log)
    try:
        found = client.list_topics(settings.topic, timeout=seconds).topics[settings.topic]
        if found.error is not None and found.error.code() != kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise settings.unavailable("The topic of the log can't be looked at", found.error)
        if found.error is not None or not found.partitions:
            return _created(client, settings, seconds)
        _check_topic(client, settings, seconds)
    except kafka.KafkaException as error:
        raise settings.unavailable("The topic of the log can't be made", error) from error
    return len(found.partitions)


def delete_topic(settings: LogSettings, seconds: float = REQUEST_SECONDS) -> None:
    """Delete the topic, if it exists. Raises LogUnavailableError, MissingExtraError."""
    kafka = kafka_library()
    client = _admin_library().AdminClient(dict(kept_settings(settings)), logger=_log)
    try:
        _answer(client.delete_topics([settings.topic], request_timeout=seconds)[settings.topic], settings, seconds)
    except kafka.KafkaException as error:
        if error.args[0].code() != kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise settings.unavailable("The topic of the log was not deleted", error) from error


def _created(client: Any, settings: LogSettings, seconds: float) -> int:
    kafka, admin = kafka_library(), _admin_library()
    config = {"cleanup.policy": "delete"}
    if settings.retention_millis is not None:
        config["retention.ms"] = str(settings.retention_millis)
    topic = admin.NewTopic(settings.topic, settings.partitions, config=config)
    try:
        _answer(client.create_topics([topic], request_timeout=seconds)[settings.topic], settings, seconds)
    except kafka.KafkaException as error:
        if error.args[0].code() != kafka.KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        return len(client.list_topics(settings.topic, timeout=seconds).topics[settings.topic].partitions)
    return settings.partitions


def _check_topic(client: Any, settings: LogSettings, seconds: float) -> None:
    """Refuse a topic that deletes records by key, and set its retention to that of the table's options."""
    admin = _admin_library()
    resource = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, settings.topic)
    known = _answer(client.describe_configs([resource], request_timeout=seconds)[resource], settings, seconds)
    policy = known["cleanup.policy"].value
    if policy != "delete":
        raise InvalidOptionError(
            f"The log of a table keeps every record, but {settings.place} has 'cleanup.policy' = '{policy}'. Set it to "
            "'delete', or give the table another topic by 'kafka.topic'."
        )
    wanted = None if settings.retention_millis is None else str(settings.retention_millis)
    if wanted is None or known["retention.ms"].value == wanted:
        return
    entry = admin.ConfigEntry("retention.ms", wanted, incremental_operation=admin.AlterConfigOpType.SET)
    changed = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, settings.topic, incremental_configs=[entry])
    _answer(client.incremental_alter_configs([changed], request_timeout=seconds)[changed], settings, seconds)


def _answer(future: Any, settings: LogSettings, seconds: float) -> Any:
    """Return the result of a request that has its own timeout; raises KafkaException, LogUnavailableError."""
    try:
        return future.result(seconds)
    except TimeoutError as error:
        raise settings.unavailable("The topic of the log can't be maintained", "no answer came") from error


def _admin_library() -> Any:
    return load_extra("confluent_kafka.admin", needed_by="The log of a table")
