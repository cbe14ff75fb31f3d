"""Task that reads ranges of topics: it decodes messages into rows of their tables, in groups for the writing tasks.

    payload  {"task": 3, "ranges": [["orders", 0, 1200, 1700], …]}
    blocks   Arrow streams of a table's rows, whose first column, without a name, has their kinds

A task may run again, and then reads the same messages. It never changes a table: it reports missing columns of tables
to the driver, beside the rows for the tasks that write.
"""

import json
from base64 import b64decode, b64encode
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.ingest.flow.changes import (
    BadMessage,
    ChangesShape,
    EndedName,
    EndedTables,
    RowChanges,
    SourceIdentity,
    TableTruncation,
    identity_of,
)
from interbed.ingest.flow.messages import Messages, Positions
from interbed.ingest.formats.arrays import taken
from interbed.ingest.formats.format import decoder_of
from interbed.ingest.run_settings import BadMessages
from interbed.ingest.sources.kafka.client import KafkaDeadLetters
from interbed.ingest.sources.kafka.source import KafkaRange, read_ranges
from interbed.ingest.sources.schema_registry import SchemaRegistry
from interbed.ingest.tables.change_fit import ChangeFit
from interbed.ingest.tables.computed_columns import with_computed
from interbed.ingest.tables.new_columns import as_one_by_one
from interbed.ingest.tables.source_tables import check_refused
from interbed.ingest.tables.table_sink import KnownColumns, for_new_table
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.ingestion.settings import ReadPlan, TargetTable
from interbed.spark_ext.ingestion.writing import TaskGroups
from interbed.storage.write.row_converter import RowConverter


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePlace:
    """Position of a message, with the reason why it is bad, or the table that it truncates (`about`)."""

    topic: str
    partition: int
    offset: int
    about: str

    def __str__(self) -> str:
        return f"topic {self.topic}, partition {self.partition}, offset {self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaGap:
    """A missing table (`is_new`), or a table without the columns of the shape, or their types."""

    table: str
    is_new: bool
    shape: ChangesShape

    def to_json(self) -> Any:
        """Return the gap as a JSON value."""
        columns = b64encode(self.shape.columns.serialize().to_pybytes()).decode()
        return [self.table, self.is_new, columns, list(self.shape.key), self.shape.only_insertions]

    @staticmethod
    def from_json(value: Any) -> "SchemaGap":
        """Return the gap of a JSON value of to_json."""
        table, is_new, columns, key, only = value
        schema = pa.ipc.read_schema(pa.py_buffer(b64decode(columns)))
        return SchemaGap(
            table=table, is_new=is_new, shape=ChangesShape(columns=schema, key=tuple(key), only_insertions=only)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSeen:
    """A source table of `table` with its declared key, and the first message with that key."""

    table: str
    identity: SourceIdentity
    place: str

    def to_json(self) -> Any:
        """Return the fields as a JSON value."""
        return [self.table, self.identity.to_json(), self.place]

    @staticmethod
    def from_json(value: Any) -> "SourceSeen":
        """Return the value of a JSON value of to_json."""
        table, identity, place = value
        return SourceSeen(table=table, identity=SourceIdentity.from_json(identity), place=place)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedSeen:
    """A message that ends source tables of these names, which are other tables afterwards, or do not exist.

    `sources` counts the sources of the report that the task had read before this message.
    """

    place: MessagePlace
    names: Sequence[EndedName]
    sources: int

    def to_json(self) -> Any:
        """Return the fields as a JSON value."""
        return [asdict(self.place), [asdict(name) for name in self.names], self.sources]

    @staticmethod
    def from_json(value: Any) -> "EndedSeen":
        """Return the value of a JSON value of to_json."""
        place, names, sources = value
        return EndedSeen(place=MessagePlace(**place), names=[EndedName(**name) for name in names], sources=sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReport:
    """Report on the ranges of one task: `messages` and `bad` are counts of messages, `rows` counts of rows by group.

    `places` has the first bad messages only. With `lacks` or `truncations`, or when it was `too_much`, rows are
    missing, and the ranges have to be read again.
    """

    messages: int = 0
    bad: int = 0
    places: Sequence[MessagePlace] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    lacks: Sequence[SchemaGap] = ()
    truncations: Sequence[MessagePlace] = ()
    sources: Sequence[SourceSeen] = ()
    ended: Sequence[EndedSeen] = ()
    too_much: bool = False

    def to_bytes(self) -> bytes:
        """Encode the report for the driver."""
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
        """Decode the report of to_bytes."""
        value = json.loads(content)
        return ReadReport(
            **{
                **value,
                "places": [MessagePlace(**place) for place in value["places"]],
                "lacks": [SchemaGap.from_json(lack) for lack in value["lacks"]],
                "truncations": [MessagePlace(**place) for place in value["truncations"]],
                "sources": [SourceSeen.from_json(seen) for seen in value["sources"]],
                "ended": [EndedSeen.from_json(seen) for seen in value["ended"]],
            }
        )


_NAMED_BAD_MESSAGES = 20
_FIRST_MESSAGES = 100
_BLOCK_BYTES = 32 << 20
"""Bytes of buffered rows of which blocks are made."""
_GIVEN_BYTES = 512 << 20
"""Bytes of blocks of a task, at most: the memory of its process and the length of a Java array are bounded."""
_QUEUE_KBYTES = "16384"
"""Prefetch of messages. It is small, since messages beyond the end of a range are fetched in vain."""


def payload_of(task: int, ranges: Sequence[KafkaRange]) -> bytes:
    """Return the payload of the task of that number."""
    return json.dumps({"task": task, "ranges": [[r.topic, r.partition, r.start, r.end] for r in ranges]}).encode()


def read(shared: bytes, payload: bytes) -> tuple[ReadReport, list[tuple[str, bytes]]]:
    """Carry out a task; return its report to the driver, and blocks of rows with the names of their groups."""
    plan, value = ReadPlan.from_bytes(shared), json.loads(payload)
    ranges = [KafkaRange(topic=t, partition=p, start=start, end=end) for t, p, start, end in value["ranges"]]
    kafka = plan.settings.kafka
    settings = {"queued.max.messages.kbytes": _QUEUE_KBYTES, **kafka.client}
    task = _ReadTask(plan, value["task"])
    for messages in read_ranges(kafka.servers, ranges, group=kafka.group, settings=settings):
        task.take(messages)
        if task.is_too_much:
            break
    return task.finish()


class _OpenTarget:
    """A table for which rows are read."""

    def __init__(self, number: int, target: TargetTable, task: int) -> None:
        table = TableHandle.from_bytes(target.handle.encode()).open()
        self.positions = Positions.from_json(target.positions, f"the plan for {target.name}")
        self.columns = table.schema.names
        self.known = KnownColumns.of(table.schema)
        self.fit = ChangeFit(table)
        self.groups = TaskGroups(table, number, target.unit, task)
        self.incoming = RowConverter(table.schema, f"table {target.name}")


class _ReadTask:
    """State of one task: the results of its messages."""

    def __init__(self, plan: ReadPlan, task: int) -> None:
        self._settings = plan.settings
        self._known = {target.name: (number, target) for number, target in enumerate(plan.targets)}
        self._task = task
        registry = plan.settings.schema_registry
        schemas = None if registry is None else SchemaRegistry(registry, plan.settings.schema_registry_conf)
        self._decoder = decoder_of(plan.settings.form, schemas, plan.settings.unavailable_value)
        self._open: dict[str, _OpenTarget] = {}
        self._lacks: dict[str, SchemaGap] = {}
        self._truncations: dict[tuple[str, int], MessagePlace] = {}
        self._sources: dict[tuple[str, SourceIdentity], SourceSeen] = {}
        self._ended: list[EndedSeen] = []
        self._met: set[str] = set()
        self._messages = 0
        self._bad: list[MessagePlace] = []
        self._bad_count = 0
        self._letters: list[tuple[Messages, BadMessage]] = []
        self._rows: Counter[str] = Counter()
        self._waiting: defaultdict[str, list[pa.RecordBatch]] = defaultdict(list)
        self._waiting_bytes = 0
        self._blocks: list[tuple[str, bytes]] = []
        self._given = 0

    @property
    def is_too_much(self) -> bool:
        """Whether the blocks exceed the limit of a task."""
        return self._given > _GIVEN_BYTES

    @property
    def _is_for_nothing(self) -> bool:
        """Whether all ranges have to be read again."""
        return bool(self._lacks or self._truncations)

    def take(self, messages: Messages) -> None:
        """Decode the next messages, and buffer their rows."""
        self._messages += len(messages)
        if messages.topic not in self._met:
            # Decoders infer shapes message by message; shapes inferred from a few are known for the others.
            self._met.add(messages.topic)
            few = min(_FIRST_MESSAGES, len(messages))
            self._take(messages.slice(0, few))
            messages = messages.slice(few, len(messages))
        if len(messages):
            self._take(messages)

    def _take(self, messages: Messages) -> None:
        for topic, partition in self._truncations:
            if topic == messages.topic:
                messages = messages.where(messages.partitions != partition)
        while True:
            decoded = self._decoder.decode(messages)
            check_refused(decoded.refused, self._settings.names.of)
            bad = [*decoded.bad, *(each for changes in decoded.changes for each in self._route(changes, messages))]
            self._note(messages, bad)
            match decoded.last:
                case TableTruncation() as truncation:
                    messages = self._after(truncation, messages)
                case EndedTables() as ended:
                    messages = self._after_ended(ended, messages)
                case None:
                    return

    def finish(self) -> tuple[ReadReport, list[tuple[str, bytes]]]:
        """Send bad messages to their topic, and return the report and the blocks."""
        self._flush()
        if self._letters and not self._is_for_nothing and not self.is_too_much:
            self._send_letters()
        report = ReadReport(
            messages=self._messages,
            bad=self._bad_count,
            places=self._bad,
            rows=self._rows,
            lacks=list(self._lacks.values()),
            truncations=list(self._truncations.values()),
            sources=list(self._sources.values()),
            ended=self._ended,
            too_much=self.is_too_much,
        )
        return report, self._blocks

    def _route(self, changes: RowChanges, messages: Messages) -> Sequence[BadMessage]:
        """Buffer the rows of changes, and return the messages that do not fit their table."""
        name = self._settings.names.of(changes.source)
        if name is None:
            return ()
        target = self._target(name)
        if target is not None:
            new = target.positions.new_in(messages)[changes.messages]
            if not new.any():
                return ()
            changes = changes if new.all() else changes.where(new)
        self._see(name, changes, messages)
        tables = self._settings.tables
        changes, bad = with_computed(changes, tables.computed, () if target is None else target.columns)
        if target is None:
            changes, refused = for_new_table(name, changes, tables)
            bad = [*bad, *refused]
        known = KnownColumns.of_new_table(tables, changes) if target is None else target.known
        changes, refused = as_one_by_one(changes, known.types, known.fixed)
        bad = [*bad, *refused]
        if target is None:
            if len(changes.kinds):
                self._lack(name, changes.shape, is_new=True)
            return bad
        if lacking := target.fit.lacking(changes):
            self._lack(name, replace(changes.shape, columns=pa.schema(lacking)), is_new=False)
            return ()
        if self._is_for_nothing:
            return ()
        fit = target.fit.fit(changes)
        if len(fit.kinds):
            self._part(target, fit.rows, fit.kinds)
        return [*bad, *fit.bad]

    def _see(self, name: str, changes: RowChanges, messages: Messages) -> None:
        """Record the source table of changes; the driver compares it with the earlier one."""
        if not len(changes.messages):
            return
        identity = identity_of(changes)
        if (name, identity) not in self._sources:
            place = messages.place(int(changes.messages[0]))
            self._sources[name, identity] = SourceSeen(table=name, identity=identity, place=place)

    def _target(self, name: str) -> _OpenTarget | None:
        if name not in self._open and name in self._known:
            number, target = self._known[name]
            self._open[name] = _OpenTarget(number, target, self._task)
        return self._open.get(name)

    def _lack(self, name: str, shape: ChangesShape, *, is_new: bool) -> None:
        key = f"{name} {shape}"
        self._lacks.setdefault(key, SchemaGap(table=name, is_new=is_new, shape=shape))

    def _part(self, target: _OpenTarget, rows: pa.Table, kinds: "np.ndarray[tuple[int], np.dtype[np.int8]]") -> None:
        start = 0
        for batch in target.incoming.batches(rows):
            array = pa.array(kinds[start : start + batch.num_rows], pa.int8())
            start += batch.num_rows
            if not batch.num_rows:
                continue
            fields = [pa.field("", pa.int8()), *batch.schema]
            whole = pa.RecordBatch.from_arrays([array, *batch.columns], schema=pa.schema(fields))
            for group, numbers in target.groups.parted(batch):
                part = whole if len(numbers) == whole.num_rows else taken(whole, numbers)
                self._waiting[group].append(part)
                self._rows[group] += part.num_rows
            self._waiting_bytes += batch.nbytes
        if self._waiting_bytes > _BLOCK_BYTES:
            self._flush()

    def _flush(self) -> None:
        """Make blocks of the buffered rows."""
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        for group, batches in self._waiting.items():
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
                writer.write_table(pa.Table.from_batches(batches).combine_chunks())
            block = sink.getvalue().to_pybytes()
            self._given += len(block)
            self._blocks.append((group, block))
        self._waiting.clear()
        self._waiting_bytes = 0

    def _note(self, messages: Messages, bad: Sequence[BadMessage]) -> None:
        for each in sorted(bad, key=lambda b: b.index):
            self._bad_count += 1
            if len(self._bad) < _NAMED_BAD_MESSAGES:
                self._bad.append(_place(messages, each.index, each.reason))
            if self._settings.bad_messages is BadMessages.DEAD_LETTER:
                self._letters.append((messages, each))

    def _send_letters(self) -> None:
        assert self._settings.dead_letter_topic is not None
        kafka = self._settings.kafka
        letters = KafkaDeadLetters(kafka.servers, self._settings.dead_letter_topic, settings=kafka.client)
        with closing(letters):
            for messages, bad in self._letters:
                letters.put(messages, bad.index, bad.reason)
            letters.flush()

    def _after(self, truncation: TableTruncation, messages: Messages) -> Messages:
        """Return the messages after a truncation; without those of its partition unless the table has had it."""
        at = truncation.index
        name = self._settings.names.of(truncation.source)
        target = None if name is None else self._target(name)
        rest = messages.slice(at + 1, len(messages))
        if name is None or target is None or not target.positions.new_in(messages.slice(at, at + 1)).all():
            return rest
        place = _place(messages, at, name)
        self._truncations[place.topic, place.partition] = place
        return rest.where(rest.partitions != place.partition)

    def _after_ended(self, ended: EndedTables, messages: Messages) -> Messages:
        """Record a message that ends source tables for the driver's check, and return the messages after it."""
        place = _place(messages, ended.index, "")
        self._ended.append(EndedSeen(place=place, names=ended.names, sources=len(self._sources)))
        return messages.slice(ended.index + 1, len(messages))


def _place(messages: Messages, index: int, about: str) -> MessagePlace:
    return MessagePlace(
        topic=messages.topic,
        partition=int(messages.partitions[index]),
        offset=int(messages.offsets[index]),
        about=about,
    )
