"""Log of a table as its publishers and readers see it: rows as records, in groups that each end with the marker of a
snapshot.

`kafka_log` implements `LogWriter` and `LogReader`. A `LogMarker` is a record in every partition, without key and value;
readers of Flink's formats skip it. Its header `interbed` has, among other members of `LogMarker.to_json`:

    {"from": 7, "to": 8, "uuid": "…", "line": 0, "table": 1718000000000, "records": 3, "schemaId": 0}

The records between the previous marker and this one are the changes of snapshots `from` to `to`; of these only `from`
may have changes. `records` counts the records in the marker's own partition: when retention has deleted some of them,
readers notice that the rest is incomplete. A flag marks snapshots whose changes are not in the log: readers have to
read the table's files for them.

`GroupAssembler` combines the records of one snapshot from all partitions.

A record has as its key the JSON of the primary key (none without one). Its value is the row in Flink's format
`debezium-json`, so that Flink's readers can read it:

    {"before": null, "after": {"id": 1, "name": "a"}, "op": "c"}        an added row: +I, +U
    {"before": {"id": 1, "name": "a"}, "after": null, "op": "d"}        a removed row: -U, -D

This does not distinguish +U from +I, nor -U from -D. The header `kind` does, with one of the digits 1 (-U) and 2 (+U);
records without it are +I and -D. In a log with `log.changelog-mode` = upsert a record without a value means that its
key was deleted.
"""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrow_values import from_numpy, scalar_of
from interbed.storage.base.decoding import read_object
from interbed.storage.base.errors import CorruptFileError
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.types.arrow import fields_to_schema
from interbed.storage.log.json_text import ObjectReader, object_texts
from interbed.storage.meta.schema.table_schema import TableSchema

Kinds = npt.NDArray[np.int8]

_BEFORE = ('{"before":null,"after":', '{"before":')
_AFTER = (',"op":"c"}', ',"after":null,"op":"d"}')
_IS_REMOVAL = np.array([False, True, False, True])
"""Whether a row of each kind is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecords:
    """Records of one partition of a log, in order. `keys` and `values` are bytes, None where there is none."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    kinds: Kinds

    def __len__(self) -> int:
        return len(self.kinds)


class RecordCodec:
    """Encoder and decoder of the records of a table's log by one of the table's schemas."""

    def __init__(self, schema: TableSchema) -> None:
        self._schema = schema
        self._keys = schema.fields_named(schema.primary_keys)
        self._values = ObjectReader({"before": schema.fields, "after": schema.fields}, ["op"])

    def encoded(self, rows: pa.RecordBatch, kinds: Kinds) -> LogRecords:
        """Return the records of rows with all columns of the schema."""
        is_removed = _IS_REMOVAL[kinds]
        before, after = (_one_of(texts, is_removed) for texts in (_BEFORE, _AFTER))
        columns = [rows.column(name) for name in self._schema.names]
        values = pc.binary_join_element_wise(before, object_texts(columns, self._schema.fields), after, "")
        return LogRecords(keys=self.keys(rows), values=values.cast(pa.binary()).to_pylist(), kinds=kinds)

    def upserts(self, rows: pa.RecordBatch, kinds: "pa.Array[Any] | None") -> LogRecords:
        """Return the records of rows in a log with `log.changelog-mode` = upsert.

        Rows before updates are left out, and a deleted key has no value. Without kinds all rows are insertions.
        """
        if kinds is not None:
            is_visible = pc.not_equal(kinds, scalar_of(int(RowKind.UPDATE_BEFORE), pa.int8()))
            rows, kinds = rows.filter(is_visible), kinds.filter(is_visible)
        inserted = np.zeros(rows.num_rows, np.int8)
        records = self.encoded(rows, inserted)
        if kinds is None:
            return records
        is_removed = pc.equal(kinds, scalar_of(int(RowKind.DELETE), pa.int8())).to_pylist()
        values = [None if went else value for value, went in zip(records.values, is_removed, strict=True)]
        return LogRecords(keys=records.keys, values=values, kinds=inserted)

    def key_rows(self, keys: Sequence[bytes], *, place: str) -> pa.RecordBatch:
        """Return the primary keys of records, with a column for each key column.

        Raises CorruptFileError naming `place`.
        """
        try:
            found = ObjectReader({"key": self._keys}, []).read([b'{"key":%b}' % key for key in keys])["key"]
        except ValueError as error:
            raise CorruptFileError(
                f"A record of {place} has no key of this table: {error}. Another program writes to the topic."
            ) from error
        return pa.RecordBatch.from_arrays(list(found.flatten()), schema=fields_to_schema(self._keys))

    def keys(self, rows: pa.RecordBatch) -> Sequence[bytes | None]:
        """Return the keys of the records of rows."""
        if not self._keys:
            return [None] * rows.num_rows
        columns = [rows.column(f.name) for f in self._keys]
        keys: Sequence[bytes | None] = object_texts(columns, self._keys).cast(pa.binary()).to_pylist()
        return keys

    def decoded(self, records: LogRecords, *, place: str) -> tuple[pa.RecordBatch, Kinds]:
        """Return the rows and their kinds; raises CorruptFileError naming `place` for an invalid value."""
        values = [b"" if value is None else value for value in records.values]
        try:
            found = self._values.read(values)
        except ValueError as error:
            raise CorruptFileError(
                f"A record of {place} is not one of this table's: {error}. Another program writes to the topic, or the "
                "table's columns were changed in a way that is not known here."
            ) from error
        after, before = found["after"], found["before"]
        is_added = after.is_valid().to_numpy(zero_copy_only=False)
        if is_added.all():
            rows = after
        elif not is_added.any():
            rows = before
        else:
            number = np.arange(len(is_added))
            rows = pa.concat_arrays([after, before]).take(
                from_numpy(np.where(is_added, number, number + len(is_added)))
            )
        if rows.null_count:
            raise CorruptFileError(f"A record of {place} has neither a row before nor one after.")
        kinds = np.where(records.kinds >= 0, records.kinds, np.where(is_added, RowKind.INSERT, RowKind.DELETE))
        return _batch(rows, self._schema), kinds.astype(np.int8)


def kind_header(kind: int) -> bytes | None:
    """Return the header `kind` of a record, None if it needs none."""
    return b"%d" % kind if kind in (RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER) else None


def _one_of(texts: tuple[str, str], second: npt.NDArray[np.bool_]) -> Any:
    """Return the first text where `second` is false, the second one where it is true."""
    return pa.array(texts, pa.string()).take(from_numpy(second.astype(np.int8)))


def _batch(rows: Any, schema: TableSchema) -> pa.RecordBatch:
    columns: Sequence[Any] = rows.flatten()
    return pa.RecordBatch.from_arrays(list(columns), schema=schema.arrow)


MARKER_HEADER = "interbed"
_MEMBERS = {
    "from": int,
    "to": int,
    "uuid": str,
    "line": int,
    "table": int,
    "records": int,
    "schemaId": int,
    "told": bool,
    "replaces": bool,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMarker:
    """End of the changes of snapshots `first` to `last` in one partition. The uuid is that of `last`.

    `line` counts how often the table was rolled back to an earlier snapshot after later ones had been published.
    `table` identifies the table: the creation time of its first schema, in milliseconds since the epoch. With
    `replaces` rows were replaced by an overwrite whose changes are not in the stream of the table.
    """

    first: int
    last: int
    uuid: str | None
    line: int
    table: int
    schema_id: int
    records: int = 0
    told: bool = True
    replaces: bool = False

    @property
    def order(self) -> tuple[int, int]:
        """Sort key of the markers of one log."""
        return self.line, self.last

    def with_records(self, records: int) -> "LogMarker":
        """Return the marker of a partition with this number of records."""
        return replace(self, records=records)

    def to_json(self) -> bytes:
        """Return the content of the marker's header."""
        value: dict[str, Any] = {
            "from": self.first,
            "to": self.last,
            "uuid": self.uuid,
            "line": self.line,
            "table": self.table,
            "records": self.records,
            "schemaId": self.schema_id,
            "told": self.told,
            "replaces": self.replaces,
        }
        return json.dumps(value, separators=(",", ":")).encode()

    @staticmethod
    def from_json(content: bytes, *, place: str) -> "LogMarker":
        """Read a marker from a header; raises CorruptFileError naming the place."""
        what = "a marker of a table's log"
        value = read_object(content, _MEMBERS, source=f"The header of a record of {place}", what=what)
        try:
            return LogMarker(
                first=value["from"],
                last=value["to"],
                uuid=value.get("uuid"),
                line=value["line"],
                table=value["table"],
                schema_id=value["schemaId"],
                records=value["records"],
                told=value["told"],
                replaces=value.get("replaces", False),
            )
        except KeyError as error:
            raise CorruptFileError(f"The header of a record of {place} is not {what}: it lacks {error}.") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class LogGroup:
    """Changes of the snapshots of a marker, by partition; `offsets` are those after the marker.

    `is_whole` is false when some of them are missing: retention deleted them, or the publisher skipped them.
    """

    marker: LogMarker
    records: Mapping[int, LogRecords]
    offsets: Mapping[int, int]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class _Part:
    marker: LogMarker
    records: LogRecords
    offset: int


class GroupAssembler:
    """Combination of the parts of groups, which arrive in order from each partition of a log."""

    def __init__(self, partitions: int) -> None:
        self._parts: list[deque[_Part]] = [deque() for _ in range(partitions)]

    def add(self, partition: int, marker: LogMarker, records: LogRecords, offset: int) -> None:
        """Add the records of a partition before a marker; `offset` follows the marker."""
        self._parts[partition].append(_Part(marker, records, offset))

    def complete(self) -> Iterator[LogGroup]:
        """Yield the groups of which every partition has its part by now, in order.

        A publisher writes the parts in one transaction. A part that only some partitions have was deleted in the
        others, so it is left out.
        """
        while all(self._parts):
            newest = max(parts[0].marker.order for parts in self._parts)
            outdated = [parts for parts in self._parts if parts[0].marker.order < newest]
            if outdated:
                for parts in outdated:
                    parts.popleft()
                continue
            heads = [parts.popleft() for parts in self._parts]
            yield LogGroup(
                marker=heads[0].marker,
                records={p: part.records for p, part in enumerate(heads) if len(part.records)},
                offsets={p: part.offset for p, part in enumerate(heads)},
                is_whole=all(part.marker.told and part.marker.records == len(part.records) for part in heads),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedMarker:
    """Last marker in a log, and the offsets after it by partition."""

    marker: LogMarker
    offsets: Mapping[int, int]


class LogTakenOverError(Exception):
    """Error of a publisher whose log another publisher has taken over; nothing was appended."""


class LogWriter(Protocol):
    """Writer of a log; only the writer that took the log over last can append. Not thread-safe."""

    @property
    def partitions(self) -> int:
        """Number of partitions of the log."""
        ...

    def published(self) -> PublishedMarker | None:
        """Return the last marker of the log, or None. Raises LogUnavailableError."""
        ...

    def append(
        self, marker: LogMarker, records: Iterable[tuple[int, LogRecords]], time_millis: int
    ) -> Mapping[int, int]:
        """Append records (each with its partition) and after them the marker to all partitions, all or nothing.

        Return the offsets after it. Raises LogTakenOverError, LogUnavailableError.
        """
        ...

    def close(self) -> None:
        """Close the connections of this object."""
        ...


class LogReader(Protocol):
    """Reader of a log. Not thread-safe."""

    def open(self, offsets: Mapping[int, int]) -> bool:
        """Read from these offsets. Return False for a log that does not exist yet.

        A partition without an offset, or whose offset is no longer valid, is read from its beginning. Raises
        LogUnavailableError.
        """
        ...

    def poll(self, timeout_seconds: float) -> Sequence[LogGroup]:
        """Return the groups since the last call, waiting at most for the timeout for the first of them.

        After LogUnavailableError the log has to be opened again.
        """
        ...

    def close(self) -> None:
        """Close the connections of this object."""
        ...
