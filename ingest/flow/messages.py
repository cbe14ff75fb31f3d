"""Messages as they were received, by column, their transactions, positions of a reader in their topics, and errors.

A position is the offset of the next message to be read, as in Kafka's consumer groups.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.errors import CorruptFileError, InterbedError, InvalidInputError

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """Messages of one topic; those of a partition are in the order of their offsets.

    `keys` and `values` are binary arrays; a null value is a tombstone. All columns have the same length.
    """

    has_topics: ClassVar[bool] = True
    """Whether a message that can't be taken may be put into another topic."""

    topic: str
    partitions: npt.NDArray[np.int32]
    offsets: Offsets
    keys: "pa.Array[Any]"
    values: "pa.Array[Any]"
    rekeyed: "npt.NDArray[np.bool_] | None" = None
    """Messages that insert a row under its new key after an update of the key; None if there are none."""

    def __len__(self) -> int:
        return len(self.offsets)

    def place(self, index: int) -> str:
        """Return topic, partition and offset of a message, for people."""
        return f"topic {self.topic}, partition {self.partitions[index]}, offset {self.offsets[index]}"

    def slice(self, start: int, end: int) -> "Messages":
        """Return the messages from the index `start` to before `end`."""
        return type(self)(
            topic=self.topic,
            partitions=self.partitions[start:end],
            offsets=self.offsets[start:end],
            keys=self.keys.slice(start, end - start),
            values=self.values.slice(start, end - start),
            rekeyed=None if self.rekeyed is None else self.rekeyed[start:end],
        )

    def where(self, chosen: "npt.NDArray[np.bool_]") -> "Messages":
        """Return the chosen messages."""
        return self if chosen.all() else self.take(np.flatnonzero(chosen))

    def take(self, chosen: "npt.NDArray[np.int64]") -> "Messages":
        """Return the messages with these indices."""
        indices = pa.array(chosen, pa.int64())
        return type(self)(
            topic=self.topic,
            partitions=self.partitions[chosen],
            offsets=self.offsets[chosen],
            keys=self.keys.take(indices),
            values=self.values.take(indices),
            rekeyed=None if self.rekeyed is None else self.rekeyed[chosen],
        )

    def followed_by(self, other: "Messages") -> "Messages":
        """Return these messages and others of the same topic after them."""
        has_rekeyed = self.rekeyed is not None or other.rekeyed is not None
        return type(self)(
            topic=self.topic,
            partitions=np.concatenate([self.partitions, other.partitions]),
            offsets=np.concatenate([self.offsets, other.offsets]),
            keys=pa.concat_arrays([self.keys, other.keys]),
            values=pa.concat_arrays([self.values, other.values]),
            rekeyed=np.concatenate([self.rekeyed_mask(), other.rekeyed_mask()]) if has_rekeyed else None,
        )

    def rekeyed_mask(self) -> "npt.NDArray[np.bool_]":
        """Return `rekeyed` with an entry for each message."""
        return np.zeros(len(self), bool) if self.rekeyed is None else self.rekeyed


@dataclass(frozen=True, slots=True)
class Positions:
    """The next offset of each partition of each topic. Partitions that are not named are read from their beginning."""

    of: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The ids of topics, as far as they are known. A topic of the same name with another id has other messages at these
    offsets; see sources.kafka.topics.
    """

    def __bool__(self) -> bool:
        return any(self.of.values())

    def __iter__(self) -> Iterator[tuple[str, int, int]]:
        """Yield topic, partition and offset of each named partition."""
        return ((t, p, offset) for t, partitions in self.of.items() for p, offset in partitions.items())

    def get(self, topic: str, partition: int) -> int | None:
        """Return the next offset of a partition; None if it is read from its beginning."""
        return self.of.get(topic, {}).get(partition)

    def after(self, messages: Messages) -> "Positions":
        """Return the positions after these messages were read as well."""
        known = dict(self.of.get(messages.topic, {}))
        for partition in np.unique(messages.partitions):
            last = int(messages.offsets[messages.partitions == partition].max())
            known[int(partition)] = max(known.get(int(partition), 0), last + 1)
        return Positions({**self.of, messages.topic: known}, self.ids)

    def beyond(self, other: "Positions | None") -> "Positions":
        """Return the greater of both offsets of each partition. Where both have the id of a topic, this one counts."""
        found = {topic: dict(partitions) for topic, partitions in self.of.items()}
        for topic, partition, offset in other or ():
            known = found.setdefault(topic, {})
            known[partition] = max(offset, known.get(partition, 0))
        return Positions(found, self.ids if other is None else {**other.ids, **self.ids})

    def new_in(self, messages: Messages) -> "npt.NDArray[np.bool_]":
        """Return which of the messages have not been read at these positions."""
        found = np.ones(len(messages), bool)
        for partition, offset in self.of.get(messages.topic, {}).items():
            found &= (messages.partitions != partition) | (messages.offsets >= offset)
        return found

    def of_partitions(self, places: "Iterable[tuple[str, int]]") -> "Positions":
        """Return the positions of these partitions only."""
        found: dict[str, dict[int, int]] = {}
        for topic, partition in places:
            offset = self.get(topic, partition)
            if offset is not None:
                found.setdefault(topic, {})[partition] = offset
        return Positions(found, self.ids)

    def has_reached(self, ends: "Positions") -> bool:
        """Return whether everything before the other positions has been read."""
        return all((self.get(topic, partition) or 0) >= end for topic, partition, end in ends)

    def lag_behind(self, ends: "Positions") -> int:
        """Return the distance from these positions to the others, summed over all partitions."""
        return sum(max(0, end - (self.get(topic, partition) or 0)) for topic, partition, end in ends)

    def to_json(self) -> str:
        """Return the positions as text: {"topic": {"0": 17}}."""
        return json.dumps(
            {t: {str(p): o for p, o in sorted(partitions.items())} for t, partitions in sorted(self.of.items())}
        )

    @staticmethod
    def from_json(text: str, source: str, ids: str | None = None) -> "Positions":
        """Decode positions made by to_json, with the ids of topics as {"topic": "yZQJ_7CtSxGOFW324gQ7iQ"}.

        Raises CorruptFileError naming the source.
        """
        try:
            return Positions(
                {str(t): {int(p): int(o) for p, o in partitions.items()} for t, partitions in json.loads(text).items()},
                {} if ids is None else {str(t): str(i) for t, i in json.loads(ids).items()},
            )
        except (ValueError, TypeError, AttributeError) as error:
            raise CorruptFileError(f"{source} holds no positions in topics: {error}: {text[:200]!r}") from error


def least_of(all_positions: Iterable[Positions]) -> Positions:
    """Return the least offset of each partition: everything after one of the positions is after it.

    A partition that one of the positions does not name is read from its beginning.
    """
    given = list(all_positions)
    if not given:
        return Positions()
    found: dict[str, dict[int, int]] = {}
    for topic, partition, _ in given[0]:
        offsets = [each.get(topic, partition) for each in given]
        known = [offset for offset in offsets if offset is not None]
        if len(known) == len(offsets):
            found.setdefault(topic, {})[partition] = min(known)
    return Positions(found, {topic: id_ for each in given for topic, id_ in each.ids.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTransaction:
    """A finished transaction: the offset of its end message, and the number of its events by collection. A collection
    is a table as its source names it.
    """

    id: str
    offset: int
    events: Mapping[str, int]


class TransactionReader(Protocol):
    """Decoder of the transaction metadata of a format. Not for use by several threads."""

    def ids(self, messages: Messages) -> "pa.Array[Any]":
        """Return the transaction (string) of each message; null if it belongs to none, as rows of an initial snapshot.

        Raises InvalidInputError for changes without a transaction.
        """
        ...

    def ended(self, messages: Messages) -> Sequence[EndedTransaction]:
        """Return the ends among messages of the topic of transactions, in order. Raises InvalidInputError for other
        messages.
        """
        ...


class BadMessageError(InvalidInputError):
    """A message cannot be decoded, or does not fit its table. None of it was written."""

    @classmethod
    def at(cls, place: str, reason: str, *, has_topics: bool = True) -> "BadMessageError":
        """Return the error of the message at a place, with advice on what to do; `has_topics` as Kafka has."""
        ways = "skip them, or have them put into another topic" if has_topics else "skip them"
        return cls(
            f"{refusal_text(place, reason)} Nothing of it was written. Mend it at the source, or go on without such "
            f"messages: {ways}."
        )


def refusal_text(place: str, reason: str) -> str:
    """Return a sentence that names the message and the reason why it is refused."""
    return f"The message at {place} can't be taken: {reason.removesuffix('.')}."


class SourceUnavailableError(InterbedError, ConnectionError):
    """Messages cannot be read at this time. The read may be retried."""

    retryable = True


class SourceGapError(InterbedError):
    """Messages are missing at the source that were not read. The table will never get their changes."""


class SourceChangedError(InterbedError):
    """A source table has another key, or is another table than the one that a table of the lake was filled from."""


class SchemaRegistryError(InterbedError):
    """A schema registry refuses to return schemas, or the server is no registry. A retry does not help."""


class UnknownSchemaError(InvalidInputError):
    """A schema registry has no Avro schema with the requested id."""
