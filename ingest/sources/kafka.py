"""Topics of Apache Kafka as a source.

Positions come from the tables, and not from Kafka: the partitions are assigned by the source itself, all of them, and
nobody else is given any. A consumer group only bears what was committed to the tables, for Kafka's own tools. New
partitions and, with a pattern, new topics are looked for while messages are read.

Kafka's protocol numbers more than messages: the end of a transaction has an offset of its own, and messages of a
transaction that was aborted keep theirs. Readers of committed messages see neither, so that the last message that they
get may stand well before the end of its partition. `KafkaSource.positions` counts what was passed over.

See https://kafka.apache.org/documentation/#design and the settings of librdkafka, whose names `settings` takes:
https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md
"""

import difflib
import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from interbed.ingest.errors import SourceGapError, SourceUnavailableError
from interbed.ingest.flow.messages import Messages, Positions
from interbed.ingest.sources.kafka_messages import KafkaMessages, Partition
from interbed.storage.base.errors import InterbedError, InvalidOptionError
from interbed.storage.base.extras import load_extra
from interbed.storage.base.kafka_errors import secrets_of, shown_error

_log = logging.getLogger(__name__)

LOOK_SECONDS = 30.0
"""How often new partitions and topics are looked for."""

REQUEST_SECONDS = 10.0
"""How long the answer to one question about topics and offsets is waited for."""

LINGER_SECONDS = 0.05
"""How long more messages are waited for when there are some: a batch costs more than a message."""

_MESSAGES_AT_ONCE = 1_000
_BYTES_MAX = 64 << 20
"""A poll ends when its messages have so many bytes."""

_TOPICS_BY_NAME_MAX = 10
"""Above so many topics, all topics of the cluster are asked for in one request."""

_DEFAULTS: Mapping[str, str] = {
    "isolation.level": "read_committed",
    # A full queue of messages pauses the reader for a second otherwise, even when it is empty again at once.
    "fetch.queue.backoff.ms": "20",
}

_OWNED: Mapping[str, str] = {
    # What was read is known to the tables; Kafka learns it by `note` alone.
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    # An offset that is not there is a gap. Going on somewhere else would hide it.
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
    "allow.auto.create.topics": "false",
}

_PASSING = """
    _ALL_BROKERS_DOWN _RESOLVE _TIMED_OUT _TRANSPORT _UNKNOWN_PARTITION _UNKNOWN_TOPIC COORDINATOR_NOT_AVAILABLE
    LEADER_NOT_AVAILABLE NOT_COORDINATOR NOT_LEADER_FOR_PARTITION THROTTLING_QUOTA_EXCEEDED UNKNOWN_TOPIC_OR_PART
"""
"""Errors after which a consumer tries again by itself; topics that are gone are noticed in the next look."""

_WAY_OUT = (
    "Fill the table anew from where the messages come from and start at new positions; or accept that these messages "
    "are lost, and start at the earliest that is there."
)


class KafkaSource:
    """Messages of some topics of a Kafka cluster: those that are named, and those whose whole name matches a pattern.

    `start` says where reading begins when no positions are known at all: "earliest", "latest" or "timestamp:<millis>",
    milliseconds since 1970 in UTC. Partitions that are found later are read from their beginning.

    `settings` are librdkafka's, for connections, security and sizes; those that decide about positions are refused.
    Their secrets are in no name, error or line of the log. Up to `queued.max.messages.kbytes` (64 MB) are read ahead.
    With `only`, topics with the numbers of partitions, no others are read.
    `look_seconds` is how often new partitions are looked for, `request_seconds` how long an answer is waited for,
    `linger_seconds` how long more messages are waited for when there are some; `clock` counts seconds.

    Raises MissingExtraError without confluent-kafka, and InvalidOptionError; nothing is connected to yet.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topics: Sequence[str] = (),
        topic_pattern: str | None = None,
        *,
        group: str,
        start: str = "earliest",
        settings: Mapping[str, str] | None = None,
        only: Collection[Partition] | None = None,
        look_seconds: float = LOOK_SECONDS,
        request_seconds: float = REQUEST_SECONDS,
        linger_seconds: float = LINGER_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if isinstance(topics, str) or not (topics or topic_pattern is not None):
            raise InvalidOptionError("A Kafka source needs the names of its topics, in a list, or a pattern of names.")
        self._servers = bootstrap_servers
        self._topics = tuple(dict.fromkeys(topics))
        self._pattern = None if topic_pattern is None else _pattern_of(topic_pattern)
        self._start_millis = _start_millis(start)
        self._only = only
        self._look_seconds = look_seconds
        self._request_seconds = request_seconds
        self._linger_seconds = linger_seconds
        self._clock = clock
        self._secrets = secrets_of(settings or {})
        self._kafka: Any = load_extra("confluent_kafka", needed_by="A Kafka source")
        self._passing_codes = [getattr(self._kafka.KafkaError, name) for name in _PASSING.split()]
        self._consumer: Any = self._new_consumer(group, dict(settings or {}))
        self._positions: dict[Partition, int] = {}
        self._gone: frozenset[str] = frozenset()
        self._paused: set[Partition] = set()
        self._largest_message = 1
        self._next_look = 0.0
        self._look_failed = False
        # What happened when messages had been received already: they are returned first, and this is raised after them.
        self._failure: InterbedError | None = None
        # Whether the consumer stands where `_positions` says. After an error it may have gone further.
        self._is_placed = False
        self._is_closed = False

    @property
    def name(self) -> str:
        """The topics, and where they are."""
        named = [*self._topics, *([] if self._pattern is None else [f"like {self._pattern.pattern!r}"])]
        return f"Kafka topics {', '.join(named)} at {self._servers}"

    def positions(self) -> Positions:
        """How far the source itself has come, for every partition that it reads.

        It is past all messages that `poll` has returned, and past what readers do not see: ends of transactions, and
        messages that were aborted. Once everything was polled `positions().has_reached(ends())` holds, which positions
        made of messages alone may never do. Partitions without messages are named as well, at the offset where reading
        begins: after a start at "latest", these are the positions to keep. Empty before the first seek or poll.
        """
        found: dict[str, dict[int, int]] = {}
        for (topic, partition), offset in self._positions.items():
            found.setdefault(topic, {})[partition] = offset
        return Positions(found)

    def seek(self, positions: Positions) -> None:
        """Read from these positions on; partitions that are not named from their beginning.

        Without any position, all begin where `start` says. Topics that are not of this source are left out of account.
        Raises SourceGapError when a position is before the first message that is still there, or after the last one,
        and SourceUnavailableError when a topic does not exist, or Kafka does not answer; a poll tries the same again.
        """
        self._is_placed = False
        self._failure = None
        self.resume(set(self._paused))
        self._positions = {(topic, p): offset for topic, p, offset in positions if self._is_mine(topic)}
        there = self._find_partitions()
        lows = self._offsets_of(there, self._kafka.OFFSET_BEGINNING)
        highs = self._offsets_of(there, self._kafka.OFFSET_END)
        begins = dict(lows) if positions else self._starts(lows, highs)
        topics = {topic for topic, _ in there}
        for topic, partition, wanted in positions:
            place = (topic, partition)
            if place in lows:
                self._check_no_gap(place, wanted, lows[place], highs[place])
                begins[place] = wanted
            elif topic in topics:
                raise self._made_anew(place, wanted, f"the topic has {sum(t == topic for t, _ in there)} partitions")
            elif self._is_mine(topic):
                # A topic that comes back under its old name is read from here, which makes a gap of it.
                _log.warning("Topic %s is not in Kafka any more; it was read up to offset %d", topic, wanted)
                begins[place] = wanted
        try:
            self._consumer.assign([self._kafka.TopicPartition(t, p, offset) for (t, p), offset in begins.items()])
        except self._kafka.KafkaException as error:
            raise self._unavailable("Partitions can't be assigned", error) from error
        self._positions = dict(begins)
        self._gone = frozenset(topic for topic, _ in begins if topic not in topics)
        self._next_look = self._clock() + self._look_seconds
        self._look_failed = False
        self._is_placed = True
        if not begins:
            _log.warning("%s: there are none yet; they are looked for every %g s", self.name, self._look_seconds)

    def poll(self, *, timeout_seconds: float, most: int) -> Sequence[Messages]:
        """The next messages, at most so many, and not many more than 64 MB; empty when none came in time, and when all
        that came is that an end was reached. At most one for each topic.

        Begins at `start` without a seek before. Takes up to `request_seconds` longer when it looks for new partitions.
        Raises SourceGapError when the next messages are gone, and SourceUnavailableError: then the next call goes on
        after the last messages that were returned.
        """
        self._raise_failure()
        if not self._is_placed:
            self.seek(self.positions())
        self._look_when_due()
        # Until all is accounted for, an exception has the next call go back to what was returned.
        self._is_placed = False
        received = self._receive(timeout_seconds, most)
        self._is_placed = True
        if not received:
            self._raise_failure()
        return received

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Bring no messages of these partitions until they are resumed; a seek forgets about it."""
        self._let(self._consumer.pause, set(partitions) - self._paused)
        self._paused |= set(partitions)

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Bring messages of these partitions again."""
        self._let(self._consumer.resume, set(partitions) & self._paused)
        self._paused -= set(partitions)

    def _let(self, what: Callable[[list[Any]], None], partitions: Iterable[Partition]) -> None:
        named = [self._kafka.TopicPartition(topic, partition) for topic, partition in sorted(partitions)]
        if named:
            what(named)

    def ends(self) -> Positions:
        """The positions after the last message of each partition at this time; a transaction that is not finished is
        beyond the end.

        New partitions are looked for first. Raises SourceUnavailableError.
        """
        if not self._is_placed:
            self.seek(self.positions())
        self._look()
        partitions = [place for place in self._positions if place[0] not in self._gone]
        found: dict[str, dict[int, int]] = {}
        for (topic, partition), end in self._offsets_of(partitions, self._kafka.OFFSET_END).items():
            found.setdefault(topic, {})[partition] = end
        return Positions(found)

    def has_reached(self, ends: Positions) -> bool:
        """See MessageSource."""
        return self.positions().has_reached(ends)

    @property
    def is_transactional(self) -> bool:
        """False: what transactions a message belongs to is known to its format alone."""
        return False

    def is_whole(self, *, wanted: bool = False) -> bool:
        """True, see MessageSource."""
        return True

    def note(self, positions: Positions) -> None:
        """Commit the positions as the offsets of the group, without waiting: Kafka's tools show what is still to be
        read. Failures are only logged, and those of Kafka itself at a later poll.
        """
        offsets = [self._kafka.TopicPartition(*position) for position in positions]
        if not offsets:
            return
        try:
            self._consumer.commit(offsets=offsets, asynchronous=True)
        except (self._kafka.KafkaException, RuntimeError) as error:
            _log.warning("The offsets of %s were not committed: %s", self.name, self._shown(error))

    def close(self) -> None:
        """Let go of connections, when offsets that were noted are with Kafka or `request_seconds` are over; may be
        called again.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._consumer.close()
        except self._kafka.KafkaException as error:
            _log.warning("The consumer of %s was not closed: %s", self.name, self._shown(error))

    def _new_consumer(self, group: str, settings: dict[str, str]) -> Any:
        owned = {**_OWNED, "bootstrap.servers": self._servers, "group.id": group}
        # A member of a group would be missed after so long. This one is none: it is only how long offsets that were
        # noted wait for a broker that takes them, and `close` with them.
        waits = {"session.timeout.ms": str(max(1, int(self._request_seconds * 1000)))}
        for name in settings:
            if name in owned:
                raise InvalidOptionError(f"The setting {name} of a Kafka source is its own; leave it out.")
        callbacks = {"error_cb": self._on_error, "on_commit": self._on_commit}
        try:
            return self._kafka.Consumer({**_DEFAULTS, **waits, **settings, **owned, **callbacks}, logger=_log)
        except (self._kafka.KafkaException, TypeError, ValueError) as error:
            # The cause is left out: it may quote a secret.
            raise InvalidOptionError(f"Kafka does not take these settings: {self._shown(error)}") from None

    # What is there

    def _find_partitions(self) -> list[Partition]:
        """All partitions of the topics. Raises SourceUnavailableError when a topic that is named does not exist."""
        found = self._metadata()
        missing = self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
        partitions: list[Partition] = []
        for topic, about in sorted(found.items()):
            if about.error is not None and about.error.code() != missing:
                raise self._unavailable(f"Topic {topic} can't be read", about.error)
            there = [(topic, partition) for partition in sorted(about.partitions)]
            partitions += [place for place in there if self._only is None or place in self._only]
        known = {topic for topic, _ in partitions}
        for topic in self._topics:
            if topic not in known:
                raise self._missing(topic)
        return partitions

    def _metadata(self) -> dict[str, Any]:
        """What Kafka says about those of the topics that it knows."""
        if self._pattern is None and len(self._topics) <= _TOPICS_BY_NAME_MAX:
            return {topic: about for name in self._topics for topic, about in self._listed(name).items()}
        return {topic: about for topic, about in self._listed().items() if self._is_mine(topic)}

    def _listed(self, *topics: str) -> dict[str, Any]:
        try:
            listed: dict[str, Any] = self._consumer.list_topics(*topics, timeout=self._request_seconds).topics
        except self._kafka.KafkaException as error:
            if not self._is_placed:
                # Why there is no connection is told to a callback, which is called while messages are waited for.
                self._consume(1, 0.0)
                self._raise_failure()
            raise self._unavailable("Topics can't be listed", error) from error
        return listed

    def _is_mine(self, topic: str) -> bool:
        # Two underscores begin the topics in which Kafka keeps its own state.
        is_matching = self._pattern is not None and not topic.startswith("__") and self._pattern.fullmatch(topic)
        return topic in self._topics or bool(is_matching)

    def _missing(self, topic: str) -> SourceUnavailableError:
        names = sorted(name for name in self._listed() if not name.startswith("__"))
        near = difflib.get_close_matches(topic, names) or names[:10]
        hint = f"there are {len(names)} topics, among them {', '.join(near)}" if near else "there are no topics"
        return SourceUnavailableError(
            f"There is no topic {topic} in Kafka at {self._servers}; {hint}. Correct the name, or create the topic."
        )

    def _offsets_of(self, partitions: Iterable[Partition], when: int) -> dict[Partition, int]:
        """The offset of each partition that belongs to a time: milliseconds since 1970, OFFSET_BEGINNING or OFFSET_END.

        One request for each broker; watermarks would be asked for one partition after the other. OFFSET_END where
        all messages are older.
        """
        asked = [self._kafka.TopicPartition(topic, partition, when) for topic, partition in partitions]
        if not asked:
            return {}
        try:
            answers = self._consumer.offsets_for_times(asked, timeout=self._request_seconds)
        except self._kafka.KafkaException as error:
            raise self._unavailable("Offsets can't be asked for", error) from error
        for answer in answers:
            if answer.error is not None:
                place = f"topic {answer.topic}, partition {answer.partition}"
                raise self._unavailable(f"Offsets of {place} can't be asked for", answer.error)
        return {(answer.topic, answer.partition): answer.offset for answer in answers}

    def _starts(self, lows: dict[Partition, int], highs: dict[Partition, int]) -> dict[Partition, int]:
        if self._start_millis == self._kafka.OFFSET_BEGINNING:
            return lows
        if self._start_millis == self._kafka.OFFSET_END:
            return highs
        found = self._offsets_of(lows, self._start_millis)
        return {place: highs[place] if offset < 0 else offset for place, offset in found.items()}

    def _look_when_due(self) -> None:
        if self._clock() < self._next_look:
            return
        try:
            self._look()
        except SourceUnavailableError as error:
            # A broker that starts again is not worth an error; one that is still not there at the next look is.
            if self._look_failed:
                raise
            self._look_failed = True
            _log.warning("New partitions were not looked for: %s", error)

    def _look(self) -> None:
        """Begin to read partitions that are new, from their beginning."""
        self._next_look = self._clock() + self._look_seconds
        there = self._find_partitions()
        new = self._offsets_of([place for place in there if place not in self._positions], self._kafka.OFFSET_BEGINNING)
        gone = frozenset({topic for topic, _ in self._positions} - {topic for topic, _ in there})
        if gone - self._gone:
            _log.warning("Topics are not in Kafka any more: %s", ", ".join(sorted(gone - self._gone)))
        self._gone = gone
        if new:
            _log.info("Reading new partitions: %s", ", ".join(f"{topic}-{partition}" for topic, partition in new))
            assigned = [self._kafka.TopicPartition(t, p, offset) for (t, p), offset in new.items()]
            try:
                self._consumer.incremental_assign(assigned)
            except self._kafka.KafkaException as error:
                raise self._unavailable("Partitions can't be assigned", error) from error
            self._positions |= new
        self._look_failed = False

    # What is received

    def _receive(self, timeout_seconds: float, most: int) -> list[Messages]:
        """Messages, as soon as there are some and no more follow at once. The positions are after them then, and after
        ends that were reached; an error is kept to be raised after the messages.
        """
        deadline = self._clock() + timeout_seconds
        found = KafkaMessages()
        count = 0
        failed: Any = None
        # What is there already is taken before anything is waited for.
        received = self._consume(self._step(most), 0.0) or self._consume(1, timeout_seconds)
        while received:
            count += len(received)
            failed = self._take(received, found)
            self._largest_message = max(self._largest_message, found.largest)
            if count >= most or found.bytes >= _BYTES_MAX or failed is not None or self._failure is not None:
                break
            left = max(0.0, deadline - self._clock())
            received = self._consume(self._step(most - count), min(self._linger_seconds, left))
        columns = found.by_topic()
        for place, position in found.positions.items():
            self._positions[place] = max(self._positions.get(place, 0), position)
        if failed is not None:
            self._failure = self._failure_of(failed)
        return columns

    def _step(self, most: int) -> int:
        """How many messages to ask for, so that a step has not many more bytes than a poll may have."""
        return max(1, min(most, _MESSAGES_AT_ONCE, _BYTES_MAX // self._largest_message))

    def _consume(self, most: int, timeout_seconds: float) -> list[Any]:
        try:
            events: list[Any] = self._consumer.consume(most, timeout_seconds)
        except self._kafka.KafkaException as error:
            self._failure = self._unavailable("Messages can't be read", error)
            return []
        return events

    def _take(self, received: list[Any], found: KafkaMessages) -> Any:
        """Add what was received to what was found. The event before which it ends, because a partition can't be read
        there; None without one.
        """
        if not [event for event in received if event.error() is not None]:
            found.add(received)
            return None
        messages: list[Any] = []
        ends: list[Any] = []
        failed: Any = None
        for event in received:
            error = event.error()
            if error is None:
                messages.append(event)
            elif error.code() == self._kafka.KafkaError._PARTITION_EOF:
                ends.append(event)
            elif error.retriable() or error.code() in self._passing_codes:
                _log.warning("Reading %s goes on after an error: %s", self.name, self._shown(error))
            else:
                # What follows may be beyond what could not be read; the consumer goes back to it.
                failed = event
                break
        found.add(messages)
        for event in ends:
            found.reached(event.topic(), event.partition(), event.offset())
        return failed

    def _failure_of(self, event: Any) -> InterbedError:
        """What an error of a partition means; `positions` are as far as messages were read before it."""
        codes, error, place = self._kafka.KafkaError, event.error(), (event.topic(), event.partition())
        if error.code() not in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE, codes._LOG_TRUNCATION):
            return self._unavailable(f"Topic {place[0]}, partition {place[1]} can't be read", error)
        wanted = self._positions.get(place, 0)
        try:
            low = self._offsets_of([place], self._kafka.OFFSET_BEGINNING)[place]
            high = self._offsets_of([place], self._kafka.OFFSET_END)[place]
            self._check_no_gap(place, wanted, low, high)
        except InterbedError as found:
            return found
        # The offset is there by now, with another message: the log was cut off and has grown again.
        return self._made_anew(place, wanted, f"{self._shown(error)}, and the earliest is {low}")

    def _on_error(self, error: Any) -> None:
        """Called while messages are waited for, with errors that concern connections."""
        if error.fatal() or error.code() == self._kafka.KafkaError._AUTHENTICATION:
            self._failure = self._unavailable("Kafka can't be read", error)
        else:
            _log.warning("%s: %s", self.name, self._shown(error))

    def _on_commit(self, error: Any, partitions: Sequence[Any]) -> None:
        """Called while messages are waited for, with the outcome of what was noted."""
        for failed in [error, *(partition.error for partition in partitions)]:
            if failed is not None:
                _log.warning("The offsets of %s were not committed: %s", self.name, self._shown(failed))
                return

    # Errors

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            self._is_placed = False
            raise failure

    def _check_no_gap(self, place: Partition, wanted: int, low: int, high: int) -> None:
        if wanted < low:
            raise self._gap(place, wanted, low)
        if wanted > high:
            raise self._made_anew(place, wanted, f"it ends at offset {high}, and the earliest is {low}")

    def _gap(self, place: Partition, wanted: int, low: int) -> SourceGapError:
        return SourceGapError(
            f"Messages of topic {place[0]}, partition {place[1]} are gone from Kafka at {self._servers} before they "
            f"were read: offset {wanted} was to be read next, and the earliest is {low}. {_WAY_OUT}"
        )

    def _made_anew(self, place: Partition, wanted: int, why: str) -> SourceGapError:
        return SourceGapError(
            f"Topic {place[0]}, partition {place[1]} in Kafka at {self._servers} is not the one that was read: offset "
            f"{wanted} was to be read next, but {why}. The topic was made anew, or lost messages. {_WAY_OUT}"
        )

    def _unavailable(self, what: str, error: Any) -> SourceUnavailableError:
        return SourceUnavailableError(f"{what}: {self._shown(error)} ({self.name}). Try again when Kafka answers.")

    def _shown(self, error: Any) -> str:
        """The text of an error without secrets; Kafka's own errors by what they say."""
        return shown_error(self._kafka, error, self._secrets)


def _pattern_of(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidOptionError(f"The pattern of topics {text!r} is no regular expression: {error}.") from error


def _start_millis(start: str) -> int:
    """Where to begin as a time in Kafka's protocol, which writes the beginning as -2 and the end as -1."""
    if start in ("earliest", "latest"):
        return -2 if start == "earliest" else -1
    kind, _, millis = start.partition(":")
    if kind != "timestamp" or not millis.isascii() or not millis.isdigit():
        raise InvalidOptionError(
            f'A start is "earliest", "latest" or "timestamp:<milliseconds since 1970>", not {start!r}.'
        )
    return int(millis)
