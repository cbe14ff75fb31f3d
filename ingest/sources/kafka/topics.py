"""The topics of a source: those that are named, and those whose whole name matches a pattern, as Kafka has them now."""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from interbed.ingest.errors import SourceUnavailableError
from interbed.ingest.sources.kafka.client import KafkaClient
from interbed.ingest.sources.kafka.messages import Partition
from interbed.storage.base.errors import InvalidOptionError

_TOPICS_BY_NAME_MAX = 10
"""Above so many topics, all topics of the cluster are asked for in one request."""

BEGINNING, END = -2, -1
"""Where partitions begin and end, as times in Kafka's protocol."""


class TopicChoice:
    """Which topics are read; raises InvalidOptionError. With `only`, topics with the numbers of partitions, no others
    are.
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
        """Whether a topic is one of them."""
        # Two underscores begin the topics in which Kafka keeps its own state.
        is_matching = self.pattern is not None and not topic.startswith("__") and self.pattern.fullmatch(topic)
        return topic in self.topics or bool(is_matching)


class KafkaTopics:
    """Asks a client about the topics that were chosen."""

    def __init__(self, client: KafkaClient, choice: TopicChoice) -> None:
        self._client = client
        self._kafka = client.kafka
        self._choice = choice

    def partitions(self) -> list[Partition]:
        """All partitions of the topics. Raises SourceUnavailableError when a topic that is named does not exist."""
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
        """The offset of each partition that belongs to a time: milliseconds since 1970, BEGINNING or END.

        One request for each broker; watermarks would be asked for one partition after the other. END where all messages
        are older.
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
        """Where each partition begins for one who starts at a time; `lows` and `highs` are their bounds."""
        if millis == BEGINNING:
            return lows
        if millis == END:
            return highs
        found = self.offsets(lows, millis)
        return {place: highs[place] if offset < 0 else offset for place, offset in found.items()}

    def _metadata(self) -> dict[str, Any]:
        """What Kafka says about those of the topics that it knows."""
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
    """Where to begin as a time in Kafka's protocol; raises InvalidOptionError."""
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
