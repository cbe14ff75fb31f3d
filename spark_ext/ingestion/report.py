"""What a task that decoded messages tells the driver, beside the rows that it gives to the tasks that write."""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from interbed.ingest.flow.changes import ChangesShape, EndedName
from interbed.ingest.flow.source_identity import SourceIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A message, and the reason why it can't be taken, or the table that it truncates."""

    topic: str
    partition: int
    offset: int
    about: str

    def __str__(self) -> str:
        return f"topic {self.topic}, partition {self.partition}, offset {self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """A table that is not there (`is_new`), or lacks the columns of the shape, or their types."""

    table: str
    is_new: bool
    shape: ChangesShape

    def to_json(self) -> Any:
        """The lack as what JSON has."""
        columns = b64encode(self.shape.columns.serialize().to_pybytes()).decode()
        return [self.table, self.is_new, columns, list(self.shape.key), self.shape.only_insertions]

    @staticmethod
    def from_json(value: Any) -> "Lack":
        """The lack of what to_json made."""
        table, is_new, columns, key, only = value
        schema = pa.ipc.read_schema(pa.py_buffer(b64decode(columns)))
        return Lack(
            table=table, is_new=is_new, shape=ChangesShape(columns=schema, key=tuple(key), only_insertions=only)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSeen:
    """A source table with a key that it declares, whose changes go to `table`, and the first message with that key."""

    table: str
    identity: SourceIdentity
    place: str

    def to_json(self) -> Any:
        """The same as what JSON has."""
        return [self.table, self.identity.to_json(), self.place]

    @staticmethod
    def from_json(value: Any) -> "SourceSeen":
        """The same of what to_json made."""
        table, identity, place = value
        return SourceSeen(table=table, identity=SourceIdentity.from_json(identity), place=place)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedSeen:
    """A message after which source tables of these names are others or none; `sources` counts those of the report that
    the task had seen before it.
    """

    place: Place
    names: Sequence[EndedName]
    sources: int

    def to_json(self) -> Any:
        """The same as what JSON has."""
        return [asdict(self.place), [asdict(name) for name in self.names], self.sources]

    @staticmethod
    def from_json(value: Any) -> "EndedSeen":
        """The same of what to_json made."""
        place, names, sources = value
        return EndedSeen(place=Place(**place), names=[EndedName(**name) for name in names], sources=sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReport:
    """What was found in the ranges of one task: `messages` and `bad` count them, `rows` are those by group.

    Of bad messages only the first ones are named. Where there are `lacks` or `truncations`, or when it was `too_much`,
    the rows are not all there, and the ranges have to be read again.
    """

    messages: int = 0
    bad: int = 0
    places: Sequence[Place] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    lacks: Sequence[Lack] = ()
    truncations: Sequence[Place] = ()
    sources: Sequence[SourceSeen] = ()
    ended: Sequence[EndedSeen] = ()
    too_much: bool = False

    def to_bytes(self) -> bytes:
        """The report for the driver."""
        return json.dumps(
            {
                "messages": self.messages,
                "bad": self.bad,
                "places": [asdict(place) for place in self.places],
                "rows": dict(self.rows),
                "lacks": [lack.to_json() for lack in self.lacks],
                "truncations": [asdict(place) for place in self.truncations],
                "sources": [seen.to_json() for seen in self.sources],
                "ended": [seen.to_json() for seen in self.ended],
                "too_much": self.too_much,
            }
        ).encode()

    @staticmethod
    def from_bytes(content: bytes) -> "ReadReport":
        """The report of bytes made by to_bytes."""
        value = json.loads(content)
        return ReadReport(
            **{
                **value,
                "places": [Place(**place) for place in value["places"]],
                "lacks": [Lack.from_json(lack) for lack in value["lacks"]],
                "truncations": [Place(**place) for place in value["truncations"]],
                "sources": [SourceSeen.from_json(seen) for seen in value["sources"]],
                "ended": [EndedSeen.from_json(seen) for seen in value["ended"]],
            }
        )
