"""Options of a table's log: the changes of the table in a topic of Apache Kafka, beside its files.

Names, values and defaults are those of FLIP-188 and Flink Table Store 0.3. A log is transactional or eventual: see
docs/log-store.md. Options that begin with `kafka.` are settings of librdkafka, listed in
https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from interbed.storage.meta.options.reader import OptionReader

LOG_SYSTEM = "log.system"
LOG_CONSISTENCY = "log.consistency"
LOG_CHANGELOG_MODE = "log.changelog-mode"
LOG_KEY_FORMAT = "log.key.format"
LOG_FORMAT = "log.format"
LOG_RETENTION = "log.retention"
LOG_SCAN_REMOVE_NORMALIZE = "log.scan.remove-normalize"
CHANGE_TRACKING = "change-tracking"
KAFKA = "kafka."
KAFKA_SERVERS = "kafka.bootstrap.servers"
KAFKA_TOPIC = "kafka.topic"


class LogSystem(StrEnum):
    """System that has the log of a table."""

    NONE = "none"
    KAFKA = "kafka"


class LogConsistency(StrEnum):
    """Visibility of changes in the log: with their snapshot, or as soon as they are written."""

    TRANSACTIONAL = "transactional"
    EVENTUAL = "eventual"


class LogChangelogMode(StrEnum):
    """Changes in the log: all with their kinds, or the last value of each key."""

    AUTO = "auto"
    ALL = "all"
    UPSERT = "upsert"


class LogKeyFormat(StrEnum):
    """Format of the keys of messages."""

    JSON = "json"


class LogFormat(StrEnum):
    """Format of the values of messages."""

    DEBEZIUM_JSON = "debezium-json"


@dataclass(frozen=True, slots=True)
class LogOptions(OptionReader):
    """Options of the log of a table."""

    @property
    def log_system(self) -> LogSystem:
        """System that has the log; `none` for a table without one."""
        return self.choice(LOG_SYSTEM, LogSystem.NONE)

    @property
    def log_consistency(self) -> LogConsistency:
        """Visibility of changes in the log."""
        return self.choice(LOG_CONSISTENCY, LogConsistency.TRANSACTIONAL)

    @property
    def log_changelog_mode(self) -> LogChangelogMode:
        """Changes in the log; never `auto`, which is `all` of a transactional log and `upsert` of an eventual one."""
        mode = self.choice(LOG_CHANGELOG_MODE, LogChangelogMode.AUTO)
        if mode is not LogChangelogMode.AUTO:
            return mode
        eventual = self.log_consistency is LogConsistency.EVENTUAL
        return LogChangelogMode.UPSERT if eventual else LogChangelogMode.ALL

    @property
    def log_key_format(self) -> LogKeyFormat:
        """Format of the keys of messages."""
        return self.choice(LOG_KEY_FORMAT, LogKeyFormat.JSON)

    @property
    def log_format(self) -> LogFormat:
        """Format of the values of messages."""
        return self.choice(LOG_FORMAT, LogFormat.DEBEZIUM_JSON)

    @property
    def log_retention_millis(self) -> int | None:
        """Retention time of messages; None leaves it to the broker."""
        return self.optional_duration_millis(LOG_RETENTION)

    @property
    def reads_raw_log(self) -> bool:
        """Whether readers of an eventual log get the records as they were written."""
        return self.boolean(self.first(LOG_SCAN_REMOVE_NORMALIZE, "scan.remove-normalize"), False)

    @property
    def tracks_changes(self) -> bool:
        """Whether the table may be read as a stream."""
        return self.boolean(CHANGE_TRACKING, True)

    @property
    def kafka_servers(self) -> str:
        """Bootstrap servers of Kafka, empty when not set."""
        return self.text(KAFKA_SERVERS, "").strip()

    @property
    def kafka_topic(self) -> str:
        """Topic of the log, empty when it has none."""
        return self.text(KAFKA_TOPIC, "").strip()

    @property
    def kafka_settings(self) -> Mapping[str, str]:
        """Settings of librdkafka by its own names: the options that begin with `kafka.`, except the topic."""
        return {
            key.removeprefix(KAFKA): value
            for key, value in self.raw.items()
            if key.startswith(KAFKA) and key != KAFKA_TOPIC
        }
