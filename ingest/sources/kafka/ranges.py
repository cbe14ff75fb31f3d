"""Ranges of offsets of Kafka's partitions: one process plans them, and other processes read one each.

A range ends at an offset, not after a number of messages: ends of transactions have offsets as well, and so have
messages that were aborted or compacted away.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from interbed.ingest.errors import SourceUnavailableError
from interbed.ingest.flow.messages import Messages, Positions
from interbed.ingest.sources.kafka.source import KafkaSource

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
