"""Settings of a table's log: its topic, its options for librdkafka, and the table's identity.

Some settings belong to the log: with other values it would lose changes, or repeat them. The identity distinguishes a
table from another one whose records are in the same topic.
"""

import logging
from collections.abc import Mapping
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
