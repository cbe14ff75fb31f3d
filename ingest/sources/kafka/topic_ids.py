"""The ids of topics. A topic that is deleted and made anew under its name has another id, and other messages at the
same offsets; a consumer does not notice it, and goes on at its offset where that is there.

Brokers have given topics ids since Kafka 2.8; see
https://cwiki.apache.org/confluence/display/KAFKA/KIP-516%3A+Topic+Identifiers. They are written as Kafka's tools do.
"""

import logging
import struct
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from interbed.ingest.errors import SourceGapError, SourceUnavailableError
from interbed.ingest.flow.messages import Positions
from interbed.storage.base.errors import load_extra
from interbed.storage.base.shown_text import secrets_of, shown_error

_log = logging.getLogger(__name__)


class KafkaTopicIds:
    """Asks the brokers at `servers`, which are connected to with the first question; `settings` are librdkafka's."""

    def __init__(self, servers: str, settings: Mapping[str, str], *, request_seconds: float) -> None:
        """Raises MissingExtraError without confluent-kafka."""
        self._servers = servers
        self._settings = settings
        self._request_seconds = request_seconds
        self._kafka: Any = load_extra("confluent_kafka", needed_by="A Kafka source")
        self._admin: Any = None
        self._refusal: Any = None

    def of(self, topics: Iterable[str]) -> dict[str, str]:
        """The ids by topic; topics that are not there, and those of brokers without ids, have none.

        Raises SourceUnavailableError.
        """
        names = sorted(set(topics))
        if not names:
            return {}
        try:
            asked: Mapping[str, Future[Any]] = self._connected().describe_topics(
                self._kafka.TopicCollection(names), request_timeout=self._request_seconds
            )
            answers = {topic: self._id_of(answer) for topic, answer in asked.items()}
        except self._kafka.KafkaException as error:
            # Why there is no connection is told to a callback.
            self._admin.poll(0)
            shown = shown_error(self._kafka, self._refusal or error, secrets_of(self._settings))
            raise SourceUnavailableError(
                f"The ids of topics can't be asked for: {shown} (Kafka at {self._servers}). Try again when Kafka "
                "answers."
            ) from error
        return {topic: id_ for topic, id_ in answers.items() if id_ is not None}

    def check(self, known: Mapping[str, Positions]) -> None:
        """See check_same; raises SourceUnavailableError as well."""
        check_same(self._servers, known, self.of(topic for positions in known.values() for topic in positions.ids))

    def _id_of(self, answer: "Future[Any]") -> str | None:
        try:
            id_: Any = answer.result().topic_id
        except self._kafka.KafkaException as error:
            if error.args[0].code() == self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise
        bits = (id_.get_most_significant_bits(), id_.get_least_significant_bits())
        return urlsafe_b64encode(struct.pack(">qq", *bits)).decode().rstrip("=") if any(bits) else None

    def _connected(self) -> Any:
        if self._admin is None:
            # Settings of consumers alone would be warned of.
            settings = {"log_level": "3", **self._settings, "bootstrap.servers": self._servers}
            admin: Any = load_extra("confluent_kafka.admin", needed_by="A Kafka source")
            self._admin = admin.AdminClient({**settings, "error_cb": self._on_error}, logger=_log)
        return self._admin

    def _on_error(self, error: Any) -> None:
        if error.code() == self._kafka.KafkaError._AUTHENTICATION:
            self._refusal = error


def check_same(servers: str, known: Mapping[str, Positions], now: Mapping[str, str]) -> None:
    """Raises SourceGapError unless the topics have the ids `now` that they had when they were read. `known` are the
    positions by table, or by nothing where it is not known which tables they are of.
    """
    for table, positions in known.items():
        for topic, id_ in positions.ids.items():
            if now.get(topic, id_) != id_:
                reader = f"the table {table} was filled from it" if table else "it was read"
                raise SourceGapError(
                    f"Topic {topic} in Kafka at {servers} was made anew since {reader}: its id was {id_}, and is "
                    f"{now[topic]} now. Other messages stand at its offsets, so that nothing more of it is taken. Read "
                    "it as another group (--group), which begins at the earliest message, or where --start says; rows "
                    "that are in the table stay there unless it is dropped. This group can go on without the topic."
                )
