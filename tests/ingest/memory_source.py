"""Source in memory, for tests without Kafka: topics are lists, and polls return any number of messages."""

import json
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from interbed.ingest.flow.messages import Messages, Positions
from interbed.ingest.sources.source import LagUnit

Value = object
"""Bytes as they are, None for none, everything else as JSON."""


def encoded(value: Value) -> bytes | None:
    """Encode a key or a value of a message."""
    if value is None or isinstance(value, bytes):
        return value
    return json.dumps(value, separators=(",", ":")).encode()


def messages_of(
    values: Sequence[Value],
    keys: Sequence[Value] | None = None,
    *,
    topic: str = "t",
    partition: int = 0,
    first: int = 0,
) -> Messages:
    """Return messages of one partition, with offsets from `first` on."""
    count = len(values)
    return Messages(
        topic=topic,
        partitions=np.full(count, partition, np.int32),
        offsets=np.arange(first, first + count, dtype=np.int64),
        keys=pa.array([encoded(k) for k in keys or [None] * count], pa.binary()),
        values=pa.array([encoded(v) for v in values], pa.binary()),
    )


class MemorySource:
    """Topics with partitions as lists of (key, value).

    Polls return `sizes` messages of a partition, in rotation, so that some partitions are ahead of others.
    """

    lag_unit = LagUnit.MESSAGES

    def __init__(self, topics: dict[str, list[list[tuple[Value, Value]]]], sizes: Sequence[int] = (1000,)) -> None:
        self.topics = topics
        self.noted = Positions()
        self.ids: dict[str, str] = {}
        self.checked: Mapping[str, Positions] = {}
        self._sizes = list(sizes)
        self._polls = 0
        self._at: dict[tuple[str, int], int] = {}
        self._paused: set[tuple[str, int]] = set()

    @property
    def name(self) -> str:
        return "memory"

    def pause(self, partitions: Iterable[tuple[str, int]]) -> None:
        self._paused |= set(partitions)

    def resume(self, partitions: Iterable[tuple[str, int]]) -> None:
        self._paused -= set(partitions)

    def check(self, known: Mapping[str, Positions]) -> None:
        self.checked = known

    def seek(self, positions: Positions) -> None:
        self._paused.clear()
        self._at = {(t, p): positions.get(t, p) or 0 for t, parts in self.topics.items() for p in range(len(parts))}

    def poll(self, *, timeout_seconds: float, most: int) -> list[Messages]:
        self._polls += 1
        found = []
        partitions_seen = 0
        for topic, partitions in self.topics.items():
            for partition, content in enumerate(partitions):
                at = self._at.setdefault((topic, partition), 0)
                # Each partition has every size in turn.
                size = self._sizes[(self._polls + partitions_seen) % len(self._sizes)]
                partitions_seen += 1
                part = [] if (topic, partition) in self._paused else content[at : at + min(size, most)]
                if part:
                    self._at[topic, partition] = at + len(part)
                    values, keys = [v for _, v in part], [k for k, _ in part]
                    found.append(messages_of(values, keys, topic=topic, partition=partition, first=at))
        return found

    def ends(self) -> Positions:
        return Positions({t: {p: len(c) for p, c in enumerate(parts)} for t, parts in self.topics.items()})

    def positions(self) -> Positions:
        found: dict[str, dict[int, int]] = {}
        for (topic, partition), offset in self._at.items():
            found.setdefault(topic, {})[partition] = offset
        return Positions(found, self.ids)

    def has_reached(self, ends: Positions) -> bool:
        return self.positions().has_reached(ends)

    @property
    def is_transactional(self) -> bool:
        return False

    def is_whole(self, *, wanted: bool = False) -> bool:
        return True

    def note(self, positions: Positions) -> None:
        self.noted = positions

    def close(self) -> None:
        pass
