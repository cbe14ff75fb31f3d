"""Messages of Kafka's client as columns, by topic.

A poll brings many thousands of messages, each an object of the client. They become columns a step at a time, and the
objects go: Python's garbage collector would look at all of those that stay, again and again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.ingest.flow.messages import Messages
from interbed.ingest.formats.arrays import Array, buffer_of

_OLD_KEY = "__debezium.oldkey"
"""Debezium writes an update of a primary key as a deletion and an insertion; the insertion has this header."""

Partition = tuple[str, int]
"""A topic, and the number of a partition."""


@dataclass(frozen=True, slots=True)
class _Columns:
    """The messages of a topic."""

    partitions: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    rekeyed: list[bool] = field(default_factory=list)


class KafkaMessages:
    """Messages that were received so far, and the positions after them."""

    def __init__(self) -> None:
        self._of_topics: dict[str, _Columns] = {}
        self.positions: dict[Partition, int] = {}
        """The offset after the last message, or after an end that was reached."""
        self.bytes = 0
        """Of all values."""
        self.largest = 0
        """The bytes of the largest value."""

    def add(self, messages: Sequence[Any]) -> None:
        """Take objects of the client that are messages, and no errors."""
        topics = [message.topic() for message in messages]
        if len(set(topics)) == 1:
            self._add(topics[0], messages)
        else:
            # Several topics are told apart by a loop over messages: they come as objects, and not as columns.
            by_topic: dict[str, list[Any]] = {}
            for topic, message in zip(topics, messages, strict=True):
                by_topic.setdefault(topic, []).append(message)
            for topic, group in by_topic.items():
                self._add(topic, group)

    def reached(self, topic: str, partition: int, end: int) -> None:
        """Note the end of a partition: the offset after whatever it holds, be it to be seen or not."""
        self.positions[topic, partition] = max(self.positions.get((topic, partition), 0), end)

    def by_topic(self) -> list[Messages]:
        """All messages, as columns."""
        return [
            Messages(
                topic=topic,
                partitions=np.array(columns.partitions, np.int32),
                offsets=np.array(columns.offsets, np.int64),
                keys=_binary(columns.keys),
                values=_binary(columns.values),
                rekeyed=np.array(columns.rekeyed, bool) if any(columns.rekeyed) else None,
            )
            for topic, columns in self._of_topics.items()
        ]

    def _add(self, topic: str, messages: Sequence[Any]) -> None:
        columns = self._of_topics.setdefault(topic, _Columns())
        partitions = [message.partition() for message in messages]
        offsets = [message.offset() for message in messages]
        values = [message.value() for message in messages]
        columns.partitions.extend(partitions)
        columns.offsets.extend(offsets)
        columns.keys.extend([message.key() for message in messages])
        columns.values.extend(values)
        columns.rekeyed.extend([_is_rekeyed(message.headers()) for message in messages])
        # Of the offsets of a partition the last one stays in the dictionary.
        last: Mapping[int, int] = dict(zip(partitions, offsets, strict=True))
        self.positions |= {(topic, partition): offset + 1 for partition, offset in last.items()}
        sizes = [len(value) for value in values if value is not None]
        self.bytes += sum(sizes)
        self.largest = max([self.largest, *sizes])


def _is_rekeyed(headers: Sequence[tuple[str, bytes | None]] | None) -> bool:
    """Whether Debezium names the key that the inserted row had before."""
    return headers is not None and any(name == _OLD_KEY for name, _ in headers)


def _binary(values: Sequence[bytes | None]) -> Array:
    """The values as an array, which takes half the time of having Arrow append one after the other."""
    present = [value for value in values if value is not None]
    if len(present) < len(values):
        return pa.array(values, pa.binary())
    ends = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(value) for value in present], out=ends[1:])
    # A poll has some hundred megabytes at most, far from the two gigabytes that these offsets can count.
    buffers = [None, buffer_of(ends.astype(np.int32)), pa.py_buffer(b"".join(present))]
    found: Array = pa.Array.from_buffers(pa.binary(), len(values), buffers)
    return found
