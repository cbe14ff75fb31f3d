"""The topics of a source as Kafka has them now, and checks that they are still those that were read.

Topics are chosen by their names, or by a pattern that the whole name matches. A gap are messages that were to be read
and are missing, so that they will never be read. A topic that was deleted and recreated under its name has another id,
and other messages at the same offsets; a consumer does not notice that, and continues at its offset if that exists.

Brokers have given topics ids since Kafka 2.8; see
https://cwiki.apache.org/confluence/display/KAFKA/KIP-516%3A+Topic+Identifiers. Ids are written as Kafka's tools do.
"""

import difflib
import logging
import re
import struct
from base64 import urlsafe_b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from interbed.ingest.flow.messages import Positions, SourceGapError, SourceUnavailableError
from interbed.ingest.sources.kafka.client import KafkaClient, Partition
from interbed.storage.base.errors import InvalidOptionError, load_extra
from interbed.storage.base.shown_text import secrets_of, shown_error

_TOPICS_BY_NAME_MAX = 10
"""With more topics than this, one request asks for all topics of the cluster."""


_WAY_OUT = (
    "Fill the table again from the origin of the messages and start at new positions; or accept that these messages "
    "are lost, and start at the earliest available one."
)


BEGINNING, END = -2, -1
"""The beginning and the end of partitions, as times in Kafka's protocol."""


class TopicChoice:
    """The topics to read. Raises InvalidOptionError.

    With `only`, topics with the numbers of partitions, no other partitions are read.
    """

    def __init__(
        self, topics: Sequence[str] = (), pattern: str | None = None, only: Collection[Partition] | None = None
    ) -> None:
        if isinstance(topics, str) or not (topics or pattern is not None):
            raise InvalidOptionError("A Kafka source needs the names of its topics, in a list, or a pattern of names.")
        self.topics = tuple(dict.fromkeys(topics))
        self.pattern = None if pattern is None else _pattern_of(pattern)
        self.only = only

    def __str__(self) -> str:
        return ", ".join([*self.topics, *([] if self.pattern is None else [f"like {self.pattern.pattern!r}"])])

    def has(self, topic: str) -> bool:
        """Return whether a topic is read."""
        # Names of Kafka's internal topics begin with two underscores.
        is_matching = self.pattern is not None and not topic.startswith("__") and self.pattern.fullmatch(topic)
        return topic in self.topics or bool(is_matching)


class KafkaTopics:
    """Asks a client about the chosen topics."""

    def __init__(self, client: KafkaClient, choice: TopicChoice) -> None:
        self._client = client
        self._kafka = client.kafka
        self._choice = choice

    def partitions(self) -> list[Partition]:
        """Return all partitions of the topics. Raises SourceUnavailableError if a named topic does not exist."""
        found = self._metadata()
        missing = self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
        only = self._choice.only
        partitions: list[Partition] = []
        for topic, about in sorted(found.items()):
            if about.error is not None and about.error.code() != missing:
                raise self._client.unavailable(f"Topic {topic} can't be read", about.error)
            there = [(topic, partition) for partition in sorted(about.partitions)]
            partitions += [place for place in there if only is None or place in only]
        known = {topic for topic, _ in partitions}
        for topic in self._choice.topics:
            if topic not in known:
                raise self._missing(topic)
        return partitions

    def offsets(self, partitions: Iterable[Partition], when: int) -> dict[Partition, int]:
        """Return the offset of each partition at a time: milliseconds since 1970, BEGINNING or END.

        The offset is END if all messages are older. There is one request for each broker; requests for watermarks would
        be one after the other.
        """
        asked = [self._kafka.TopicPartition(topic, partition, when) for topic, partition in partitions]
        if not asked:
            return {}
        try:
            answers = self._client.consumer.offsets_for_times(asked, timeout=self._client.request_seconds)
        except self._kafka.KafkaException as error:
            raise self._client.unavailable("Offsets can't be asked for", error) from error
        for answer in answers:
            if answer.error is not None:
                place = f"topic {answer.topic}, partition {answer.partition}"
                raise self._client.unavailable(f"Offsets of {place} can't be asked for", answer.error)
        return {(answer.topic, answer.partition): answer.offset for answer in answers}

    def starts(
        self, millis: int, lows: Mapping[Partition, int], highs: Mapping[Partition, int]
    ) -> Mapping[Partition, int]:
        """Return the first offset of each partition for a start at a time; `lows` and `highs` are the bounds of the
        partitions.
        """
        if millis == BEGINNING:
            return lows
        if millis == END:
            return highs
        found = self.offsets(lows, millis)
        return {place: highs[place] if offset < 0 else offset for place, offset in found.items()}

    def _metadata(self) -> dict[str, Any]:
        """Return Kafka's metadata of those of the topics that exist."""
        choice = self._choice
        if choice.pattern is None and len(choice.topics) <= _TOPICS_BY_NAME_MAX:
            return {topic: about for name in choice.topics for topic, about in self._listed(name).items()}
        return {topic: about for topic, about in self._listed().items() if choice.has(topic)}

    def _listed(self, *topics: str) -> dict[str, Any]:
        try:
            listed: dict[str, Any] = self._client.consumer.list_topics(
                *topics, timeout=self._client.request_seconds
            ).topics
        except self._kafka.KafkaException as error:
            raise self._client.unavailable("Topics can't be listed", error) from error
        return listed

    def _missing(self, topic: str) -> SourceUnavailableError:
        names = sorted(name for name in self._listed() if not name.startswith("__"))
        near = difflib.get_close_matches(topic, names) or names[:10]
        hint = f"there are {len(names)} topics, among them {', '.join(near)}" if near else "there are no topics"
        return SourceUnavailableError(
            f"There is no topic {topic} in Kafka at {self._client.servers}; {hint}. Correct the name, or create the "
            "topic."
        )


def start_millis(start: str) -> int:
    """Return the start as a time in Kafka's protocol. Raises InvalidOptionError."""
    if start in ("earliest", "latest"):
        return BEGINNING if start == "earliest" else END
    kind, _, millis = start.partition(":")
    if kind != "timestamp" or not millis.isascii() or not millis.isdigit():
        raise InvalidOptionError(
            f'A start is "earliest", "latest" or "timestamp:<milliseconds since 1970>", not {start!r}.'
        )
    return int(millis)


def _pattern_of(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidOptionError(f"The pattern of topics {text!r} is no regular expression: {error}.") from error


_log = logging.getLogger(__name__)


class KafkaTopicIds:
    """Asks the brokers at `servers` for the ids of topics; `settings` are librdkafka's. The first request connects."""

    def __init__(self, servers: str, settings: Mapping[str, str], *, request_seconds: float) -> None:
        """Raise MissingExtraError without confluent-kafka."""
        self._servers = servers
        self._settings = settings
        self._request_seconds = request_seconds
        self._kafka: Any = load_extra("confluent_kafka", needed_by="A Kafka source")
        self._admin: Any = None
        self._refusal: Any = None

    def of(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the ids by topic; missing topics, and topics of brokers without ids, have none.

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
            # The reason for a failed connection is passed to a callback.
            self._admin.poll(0)
            shown = shown_error(self._kafka, self._refusal or error, secrets_of(self._settings))
            raise SourceUnavailableError(
                f"The ids of topics can't be asked for: {shown} (Kafka at {self._servers}). Try again when Kafka "
                "answers."
            ) from error
        return {topic: id_ for topic, id_ in answers.items() if id_ is not None}

    def check(self, known: Mapping[str, Positions]) -> None:
        """Check the ids as check_same does. Raises SourceUnavailableError as well."""
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
            # The client would warn about settings of consumers.
            settings = {"log_level": "3", **self._settings, "bootstrap.servers": self._servers}
            admin: Any = load_extra("confluent_kafka.admin", needed_by="A Kafka source")
            self._admin = admin.AdminClient({**settings, "error_cb": self._on_error}, logger=_log)
        return self._admin

    def _on_error(self, error: Any) -> None:
        if error.code() == self._kafka.KafkaError._AUTHENTICATION:
            self._refusal = error


def check_same(servers: str, known: Mapping[str, Positions], now: Mapping[str, str]) -> None:
    """Raise SourceGapError unless the topics have the ids `now` that they had when they were read.

    `known` are the positions by table; the empty name stands for positions whose tables are not known.
    """
    for table, positions in known.items():
        for topic, id_ in positions.ids.items():
            if now.get(topic, id_) != id_:
                reader = f"the table {table} was filled from it" if table else "it was read"
                raise SourceGapError(
                    f"Topic {topic} in Kafka at {servers} was recreated since {reader}: its id was {id_}, and is "
                    f"{now[topic]} now. Other messages are at its offsets, so no more of it is read. Read "
                    "it as another group (--group), which begins at the earliest message, or where --start says; rows "
                    "that are in the table stay there unless it is dropped. This group can go on without the topic."
                )


def check_no_gap(servers: str, place: Partition, wanted: int, low: int, high: int) -> None:
    """Raise SourceGapError if the next wanted offset is before the lowest, or beyond the end."""
    if wanted < low:
        raise SourceGapError(
            f"Messages of topic {place[0]}, partition {place[1]} were deleted from Kafka at {servers} before they "
            f"were read: offset {wanted} was to be read next, and the earliest is {low}. {_WAY_OUT}"
        )
    if wanted > high:
        raise recreated_partition_error(servers, place, wanted, f"it ends at offset {high}, and the earliest is {low}")


def recreated_partition_error(servers: str, place: Partition, wanted: int, why: str) -> SourceGapError:
    """Return the error of a partition that was recreated or truncated."""
    return SourceGapError(
        f"Topic {place[0]}, partition {place[1]} in Kafka at {servers} is not the one that was read: offset "
        f"{wanted} was to be read next, but {why}. The topic was recreated, or lost messages. {_WAY_OUT}"
    )
