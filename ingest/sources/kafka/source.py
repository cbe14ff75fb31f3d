"""Topics of Apache Kafka as a source.

The tables keep the positions, not Kafka. The source assigns all partitions to itself, and no other reader gets any. The
consumer group only has the positions that were committed to the tables, for Kafka's own tools. New partitions and, with
a pattern, new topics are looked for while messages are read.

Kafka's protocol numbers more than messages: the end of a transaction has an offset of its own, and messages of an
aborted transaction keep theirs. Readers of committed messages see neither, so the last message that they get may be
well before the end of its partition. `KafkaSource.positions` includes the skipped offsets.

See https://kafka.apache.org/documentation/#design.

Where several processes read, one plans ranges of offsets, and the others read one each. A range ends at an offset, not
after a number of messages: ends of transactions have offsets as well, and so have messages that were aborted or
compacted away.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from interbed.ingest.flow.messages import Messages, Positions, SourceUnavailableError
from interbed.ingest.sources.kafka.client import KafkaClient, KafkaMessages, Partition
from interbed.ingest.sources.kafka.topics import (
    BEGINNING,
    END,
    KafkaTopicIds,
    KafkaTopics,
    TopicChoice,
    check_no_gap,
    check_same,
    recreated_partition_error,
    start_millis,
)
from interbed.ingest.sources.source import LagUnit
from interbed.storage.base.errors import InterbedError

_log = logging.getLogger(__name__)

LOOK_SECONDS = 30.0
"""The interval at which new partitions and topics are looked for."""

REQUEST_SECONDS = 10.0
"""The timeout of a request about topics and offsets."""

LINGER_SECONDS = 0.05
"""How long more messages are waited for if there are some: a batch costs more than a message."""

_MESSAGES_AT_ONCE = 1_000
_BYTES_MAX = 64 << 20
"""A poll ends when its messages have this number of bytes."""


class KafkaSource:
    """Messages of some topics of a Kafka cluster: named topics, and those whose whole name matches a pattern.

    `start` is the position if no positions are known at all: "earliest", "latest" or "timestamp:<millis>", milliseconds
    since 1970 in UTC. Partitions that are found later are read from their beginning.

    `settings` are librdkafka's, for connections, security and sizes; settings of positions are refused. Secrets in them
    are in no name, error or log line. Up to `queued.max.messages.kbytes` (64 MB) are prefetched. With `only`, topics
    with the numbers of partitions, no other partitions are read. Without `fetches` no messages are requested, because
    requests for offsets would wait behind them; such a source returns ends, and is not polled. `look_seconds` is the
    interval at which new partitions are looked for, `request_seconds` the timeout of a request, `linger_seconds` how
    long more messages are waited for if there are some; `clock` counts seconds.

    Raises MissingExtraError without confluent-kafka, and InvalidOptionError. The first request connects.
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
        fetches: bool = True,
        look_seconds: float = LOOK_SECONDS,
        request_seconds: float = REQUEST_SECONDS,
        linger_seconds: float = LINGER_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._choice = TopicChoice(topics, topic_pattern, only)
        self._fetches = fetches
        self._start_millis = start_millis(start)
        self._look_seconds = look_seconds
        self._linger_seconds = linger_seconds
        self._clock = clock
        self._name = f"Kafka topics {self._choice} at {bootstrap_servers}"
        self._client = KafkaClient(
            bootstrap_servers, group, settings or {}, name=self._name, request_seconds=request_seconds
        )
        self._topics = KafkaTopics(self._client, self._choice)
        self._topic_ids = KafkaTopicIds(bootstrap_servers, settings or {}, request_seconds=request_seconds)
        self._ids: dict[str, str] = {}
        self._tables: Mapping[str, Positions] = {}
        self._positions: dict[Partition, int] = {}
        self._gone: frozenset[str] = frozenset()
        self._paused: set[Partition] = set()
        self._largest_message = 1
        self._next_look = 0.0
        self._look_failed = False
        # Whether the consumer is at `_positions`. After an error it may be further.
        self._is_placed = False
        self._is_closed = False

    @property
    def name(self) -> str:
        """The topics and the servers."""
        return self._name

    def positions(self) -> Positions:
        """Return the positions of the source itself, for every partition that it reads.

        They are after all messages that `poll` has returned, and after offsets that readers do not see: ends of
        transactions, and aborted messages. Once everything was polled, `positions().has_reached(ends())` is true;
        positions computed from messages only may never reach the ends. Partitions without messages have the offset at
        which reading begins: after a start at "latest", these positions must be kept. Empty before the first seek or
        poll.
        """
        found: dict[str, dict[int, int]] = {}
        for (topic, partition), offset in self._positions.items():
            found.setdefault(topic, {})[partition] = offset
        return Positions(found, self._ids)

    @property
    def lag_unit(self) -> LagUnit:
        """The unit of offsets: messages."""
        return LagUnit.MESSAGES

    def check(self, known: Mapping[str, Positions]) -> None:
        """Check the ids of the topics; see MessageSource. A recreated topic has another id.

        Topics whose id is not known, because the positions are older or the broker has no ids, are skipped, and so are
        missing topics. Raises SourceUnavailableError as well.
        """
        self._tables = {
            table: Positions(positions.of, {t: id_ for t, id_ in positions.ids.items() if self._choice.has(t)})
            for table, positions in known.items()
        }
        self._topic_ids.check(self._tables)

    def seek(self, positions: Positions) -> None:
        """Read from these positions on; partitions that are not named from their beginning.

        Without any position, all begin where `start` says. Topics that are not of this source are ignored. Raises
        SourceGapError if a position is before the first available message, or after the last one, or in a topic that
        had another id; SourceUnavailableError if a topic does not exist, or Kafka does not answer. A poll retries the
        same seek.
        """
        self._is_placed = False
        self._client.failure = None
        self.resume(set(self._paused))
        self._positions = {(topic, p): offset for topic, p, offset in positions if self._choice.has(topic)}
        try:
            there = self._topics.partitions()
        except SourceUnavailableError:
            # The reason for a failed connection is passed to a callback, which runs while the client waits for
            # messages.
            self._client.consume(1, 0.0)
            self._raise_failure()
            raise
        topics = {topic for topic, _ in there}
        kept = {topic: id_ for topic, id_ in positions.ids.items() if self._choice.has(topic)}
        # Before the offsets: if a topic is recreated between the two requests, the next check finds it.
        ids = {} if self._choice.only is not None else self._topic_ids.of(topics)
        check_same(self._client.servers, {"": Positions({}, kept)}, ids)
        lows, highs = self._topics.offsets(there, BEGINNING), self._topics.offsets(there, END)
        begins = dict(lows if positions else self._topics.starts(self._start_millis, lows, highs))
        for topic, partition, wanted in positions:
            place = (topic, partition)
            if place in lows:
                check_no_gap(self._client.servers, place, wanted, lows[place], highs[place])
                begins[place] = wanted
            elif topic in topics:
                count = sum(t == topic for t, _ in there)
                raise recreated_partition_error(
                    self._client.servers, place, wanted, f"the topic has {count} partitions"
                )
            elif self._choice.has(topic):
                # A topic that is recreated under its old name is read from here, which is reported as a gap.
                _log.warning("Topic %s does not exist in Kafka any more; it was read up to offset %d", topic, wanted)
                begins[place] = wanted
        if self._fetches:
            self._client.assign(begins)
        self._positions, self._ids = begins, {**kept, **ids}
        self._gone = frozenset(topic for topic, _ in begins if topic not in topics)
        self._next_look = self._clock() + self._look_seconds
        self._look_failed = False
        self._is_placed = True
        if not begins:
            _log.warning("%s: no such topics exist yet; they are looked for every %g s", self.name, self._look_seconds)

    def poll(self, *, timeout_seconds: float, most: int) -> Sequence[Messages]:
        """Return the next messages, at most `most`, and not much more than 64 MB. At most one element for each topic.

        The result is empty if none came in time, and if only an end was reached. Begins at `start` if there was no
        seek. Takes up to `request_seconds` longer when it looks for new partitions. Raises SourceGapError if the next
        messages are missing, and SourceUnavailableError: then the next call continues after the last messages that were
        returned.
        """
        self._raise_failure()
        if not self._is_placed:
            self.seek(self.positions())
        self._discover_when_due()
        # After an exception the next call seeks back to the returned messages.
        self._is_placed = False
        received = self._receive(timeout_seconds, most)
        self._is_placed = True
        if not received:
            self._raise_failure()
        return received

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Return no messages of these partitions until they are resumed, or until a seek."""
        self._apply(self._client.consumer.pause, set(partitions) - self._paused)
        self._paused |= set(partitions)

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Return messages of these partitions again."""
        self._apply(self._client.consumer.resume, set(partitions) & self._paused)
        self._paused -= set(partitions)

    def _apply(self, what: Callable[[list[Any]], None], partitions: Iterable[Partition]) -> None:
        named = [self._client.kafka.TopicPartition(topic, partition) for topic, partition in sorted(partitions)]
        if named:
            what(named)

    def ends(self) -> Positions:
        """Return the positions after the last message of each partition at this time.

        An unfinished transaction is beyond the end. New partitions are looked for first. Raises SourceUnavailableError.
        """
        if not self._is_placed:
            self.seek(self.positions())
        self._discover()
        partitions = [place for place in self._positions if place[0] not in self._gone]
        found: dict[str, dict[int, int]] = {}
        for (topic, partition), end in self._topics.offsets(partitions, END).items():
            found.setdefault(topic, {})[partition] = end
        return Positions(found)

    def has_reached(self, ends: Positions) -> bool:
        """Return whether the ends are reached; see MessageSource."""
        return self.positions().has_reached(ends)

    @property
    def is_transactional(self) -> bool:
        """False: only the format of messages knows transactions of the source."""
        return False

    def is_whole(self, *, wanted: bool = False) -> bool:
        """Return true; see MessageSource."""
        return True

    def note(self, positions: Positions) -> None:
        """Commit the positions as the offsets of the group, without waiting: Kafka's tools show the lag.

        Failures are only logged, and those of Kafka itself at a later poll.
        """
        offsets = [self._client.kafka.TopicPartition(*position) for position in positions]
        if offsets:
            self._client.note(offsets)

    def close(self) -> None:
        """Close the connections, after reported offsets were sent or `request_seconds` are over. May be called
        again.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._client.close()

    # Discovery of partitions

    def _discover_when_due(self) -> None:
        if self._clock() < self._next_look:
            return
        try:
            self._discover()
        except SourceUnavailableError as error:
            # A broker that restarts is no error, unless it is still missing at the next check.
            if self._look_failed:
                raise
            self._look_failed = True
            _log.warning("Could not look for new partitions: %s", error)

    def _discover(self) -> None:
        """Begin to read new partitions, from their beginning."""
        self._next_look = self._clock() + self._look_seconds
        there = self._topics.partitions()
        new = self._topics.offsets([place for place in there if place not in self._positions], BEGINNING)
        gone = frozenset({topic for topic, _ in self._positions} - {topic for topic, _ in there})
        if gone - self._gone:
            _log.warning("Topics do not exist in Kafka any more: %s", ", ".join(sorted(gone - self._gone)))
        self._gone = gone
        if new:
            _log.info("Reading new partitions: %s", ", ".join(f"{topic}-{partition}" for topic, partition in new))
            # Known ids of recreated topics are kept, so that the check finds the new id.
            self._ids = {**self._topic_ids.of({topic for topic, _ in new} - set(self._ids)), **self._ids}
            if self._fetches:
                self._client.assign(new, also=True)
            self._positions |= new
        self._look_failed = False

    # Receiving

    def _receive(self, timeout_seconds: float, most: int) -> list[Messages]:
        """Return messages, as soon as there are some and no more follow at once.

        The positions are after them then, and after ends that were reached. An error is stored, to be raised after the
        messages.
        """
        deadline = self._clock() + timeout_seconds
        found = KafkaMessages()
        count = 0
        failed: Any = None
        # Take available messages before waiting.
        received = self._client.consume(self._step(most), 0.0) or self._client.consume(1, timeout_seconds)
        while received:
            count += len(received)
            messages, ends, failed = self._client.split_events(received)
            found.add(messages)
            for end in ends:
                found.reached(end.topic(), end.partition(), end.offset())
            self._largest_message = max(self._largest_message, found.largest)
            if count >= most or found.bytes >= _BYTES_MAX or failed is not None or self._client.failure is not None:
                break
            left = max(0.0, deadline - self._clock())
            received = self._client.consume(self._step(most - count), min(self._linger_seconds, left))
        columns = found.by_topic()
        for place, position in found.positions.items():
            self._positions[place] = max(self._positions.get(place, 0), position)
        if failed is not None:
            self._client.failure = self._failure_of(failed)
        return columns

    def _step(self, most: int) -> int:
        """Return the number of messages to ask for, so that a step exceeds the bytes of a poll only a little."""
        return max(1, min(most, _MESSAGES_AT_ONCE, _BYTES_MAX // self._largest_message))

    def _failure_of(self, event: Any) -> InterbedError:
        """Return the meaning of an error of a partition; `positions` are those of the messages before it."""
        codes, error, place = self._client.kafka.KafkaError, event.error(), (event.topic(), event.partition())
        if error.code() not in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE, codes._LOG_TRUNCATION):
            return self._client.unavailable(f"Topic {place[0]}, partition {place[1]} can't be read", error)
        wanted, servers = self._positions.get(place, 0), self._client.servers
        try:
            self._topic_ids.check({**self._tables, "": self.positions()})
            low, high = (self._topics.offsets([place], when)[place] for when in (BEGINNING, END))
            check_no_gap(servers, place, wanted, low, high)
        except InterbedError as found:
            return found
        # The offset exists now, with another message: the log was truncated and has grown again.
        return recreated_partition_error(
            servers, place, wanted, f"{self._client.shown(error)}, and the earliest is {low}"
        )

    def _raise_failure(self) -> None:
        failure, self._client.failure = self._client.failure, None
        if failure is not None:
            self._is_placed = False
            raise failure


POLL_SECONDS = 0.5
POLL_MESSAGES = 20_000
STANDSTILL_SECONDS = 60.0
"""How long a range that is not at its end may return nothing."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class KafkaRange:
    """The messages of a partition from one offset to before another."""

    topic: str
    partition: int
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


def ranges_between(begins: Positions, ends: Positions, *, most: int) -> list[KafkaRange]:
    """Return the ranges between the positions. If they have more than `most` messages, each partition gets the same
    share.
    """
    whole = [
        KafkaRange(topic=topic, partition=partition, start=begin, end=end)
        for topic, partition, end in ends
        if (begin := begins.get(topic, partition) or 0) < end
    ]
    share = _share([len(r) for r in whole], most)
    return [
        KafkaRange(topic=r.topic, partition=r.partition, start=r.start, end=min(r.end, r.start + share))
        for r in sorted(whole)
    ]


def packed(ranges: Sequence[KafkaRange], size: int) -> list[list[KafkaRange]]:
    """Return the ranges by task, in their order. Each task has `size` messages, the last one possibly less."""
    tasks: list[list[KafkaRange]] = []
    room = 0
    for each in ranges:
        start = each.start
        while start < each.end:
            if not room:
                tasks.append([])
                room = size
            end = min(each.end, start + room)
            tasks[-1].append(KafkaRange(topic=each.topic, partition=each.partition, start=start, end=end))
            room -= end - start
            start = end
    return tasks


def read_ranges(
    servers: str,
    ranges: Sequence[KafkaRange],
    *,
    group: str,
    settings: Mapping[str, str],
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Messages]:
    """Yield the messages of the ranges, at most one range for a partition; those of each partition in order.

    Raises SourceGapError if messages are missing, and SourceUnavailableError, also if nothing comes for a minute.
    """
    begins, ends = _positions({r: r.start for r in ranges}), _positions({r: r.end for r in ranges})
    topics = list(dict.fromkeys(r.topic for r in ranges))
    only = {(r.topic, r.partition) for r in ranges}
    source = KafkaSource(servers, topics, group=group, settings=settings, only=only)
    try:
        source.seek(begins)
        progress, since = source.positions(), clock()
        while not source.has_reached(ends):
            for messages in source.poll(timeout_seconds=POLL_SECONDS, most=POLL_MESSAGES):
                within = messages.where(~ends.new_in(messages))
                if len(within):
                    yield within
            if source.positions() != progress:
                progress, since = source.positions(), clock()
            elif clock() - since > STANDSTILL_SECONDS:
                raise SourceUnavailableError(
                    f"Nothing came of {source.name} for {STANDSTILL_SECONDS:g} s, though there are more messages up to "
                    f"{ends.to_json()}. Try again when Kafka answers."
                )
    finally:
        source.close()


def _positions(offsets: Mapping[KafkaRange, int]) -> Positions:
    found: dict[str, dict[int, int]] = {}
    for each, offset in offsets.items():
        found.setdefault(each.topic, {})[each.partition] = offset
    return Positions(found)


def _share(sizes: Sequence[int], most: int) -> int:
    """Return the size to which the largest sizes must be cut so that the sum is at most `most`; at least 1."""
    left = most
    ordered = np.sort(np.array(sizes, np.int64))
    for i, size in enumerate(ordered.tolist()):
        share = left // (len(ordered) - i)
        if size > share:
            return max(1, share)
        left -= size
    return max(1, *sizes) if sizes else 1
