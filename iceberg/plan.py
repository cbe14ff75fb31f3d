"""The plan of a read: tasks of data files, the deletes that apply to each file, and what was pruned.

A deletion vector replaces all position deletes of its file. Equality deletes apply to older rows; position deletes
apply also to rows of the same commit. Both apply to their own partition only, except equality deletes of an
unpartitioned spec, which apply to all partitions. Source: Iceberg's table specification, "Scan Planning".

Each delete file is read once for each task that needs it. So data files that share a delete file are in one task, up to
the size of a task. Only `plan_read` does I/O: it reads the manifests. For pruning, predicates become pyiceberg's
expressions: an expression is true wherever the predicate is, and often elsewhere.
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from functools import partial, reduce
from itertools import chain

import numpy as np
from pyiceberg import expressions
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
)
from pyiceberg.io import FileIO
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import VoidTransform

from interbed.iceberg.meta.live_files import FileContent, LiveFile, live_files
from interbed.iceberg.meta.table_metadata import readable_fields
from interbed.storage.base.errors import CorruptFileError
from interbed.storage.base.predicate import expr as ours
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.base.prefetch import longest_first
from interbed.storage.base.types.data_type import AtomicType, DataField, TypeRoot

TARGET_BYTES = 128 << 20
"""The target size of a task, if its files can be divided so."""


_OPEN_BYTES = 4 << 20
"""The minimal cost of a file: opening it takes as long as reading this number of bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDeletes:
    """The deletes of one data file; with a vector there are no `positions`."""

    vector: LiveFile | None = None
    positions: tuple[LiveFile, ...] = ()
    equality: tuple[LiveFile, ...] = ()

    @property
    def files(self) -> tuple[LiveFile, ...]:
        """All delete files of the data file."""
        return (*self.positions, *self.equality) if self.vector is None else (self.vector, *self.equality)


_Partition = tuple[int, tuple[object, ...]]


@dataclass(slots=True)
class _DeleteList:
    """Deletes in the order of their sequence numbers."""

    files: list[LiveFile] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    def since(self, number: int) -> list[LiveFile]:
        return self.files[bisect_left(self.numbers, number) :]


class DeleteIndex:
    """Index of the deletes of a snapshot, by the files and partitions that they apply to."""

    def __init__(self, deletes: Iterable[LiveFile], is_unpartitioned: Callable[[int], bool]) -> None:
        self._vectors: dict[str, LiveFile] = {}
        self._by_path: dict[str, _DeleteList] = {}
        self._by_partition: dict[_Partition, _DeleteList] = {}
        self._equality: dict[_Partition, _DeleteList] = {}
        self._everywhere = _DeleteList()
        for file in sorted(deletes, key=lambda file: (file.sequence_number, file.path)):
            if file.is_vector:
                self._add_vector(file)
            else:
                deletes_of = self._list_of(file, is_unpartitioned)
                deletes_of.files.append(file)
                deletes_of.numbers.append(file.sequence_number)

    def of(self, data: LiveFile) -> FileDeletes:
        """Return the deletes that may apply to a data file."""
        number, partition = data.sequence_number, (data.spec_id, data.partition)
        equality = [
            file
            for each in (self._everywhere, self._equality.get(partition))
            if each is not None
            for file in each.since(number + 1)
        ]
        vector = self._vectors.get(data.path)
        if vector is not None and vector.sequence_number >= number:
            return FileDeletes(vector=vector, equality=tuple(equality))
        lists = (self._by_path.get(data.path), self._by_partition.get(partition))
        positions = [file for each in lists if each is not None for file in each.since(number) if _may_name(file, data)]
        for file in positions:
            if (file.spec_id, file.partition) != partition:
                raise CorruptFileError(
                    f"The position deletes in {file.path} are of {data.path}, but of another partition; whether they "
                    "apply can't be known."
                )
        return FileDeletes(positions=tuple(positions), equality=tuple(equality))

    def _add_vector(self, file: LiveFile) -> None:
        assert file.referenced is not None
        other = self._vectors.setdefault(file.referenced, file)
        if other is not file:
            raise CorruptFileError(
                f"The data file {file.referenced} has two deletion vectors, in {other.path} and {file.path}; which one "
                "applies can't be known."
            )

    def _list_of(self, file: LiveFile, is_unpartitioned: Callable[[int], bool]) -> _DeleteList:
        if file.content is FileContent.EQUALITY_DELETES:
            if is_unpartitioned(file.spec_id):
                return self._everywhere
            return self._equality.setdefault((file.spec_id, file.partition), _DeleteList())
        path = file.only_path
        if path is not None:
            return self._by_path.setdefault(path, _DeleteList())
        return self._by_partition.setdefault((file.spec_id, file.partition), _DeleteList())


def _may_name(file: LiveFile, data: LiveFile) -> bool:
    if file.lower_path is None or file.upper_path is None:
        return True
    return file.lower_path <= data.path.encode("utf-8", "surrogateescape") <= file.upper_path


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTask:
    """One data file, and its deletes."""

    file: LiveFile
    deletes: FileDeletes

    @property
    def cost(self) -> int:
        """The cost of reading it without its deletes, in bytes."""
        return max(self.file.size, _OPEN_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReadTask:
    """Data files for one reader, the longest first."""

    files: tuple[DataTask, ...]

    @property
    def delete_files(self) -> tuple[LiveFile, ...]:
        """The deletes that it reads, each once."""
        return tuple({file.place: file for task in self.files for file in task.deletes.files}.values())

    @property
    def cost(self) -> int:
        """The cost of reading all of it, in bytes."""
        return sum(task.cost for task in self.files) + sum(file.cost for file in self.delete_files)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlan:
    """The tasks of a read, and the numbers of files and manifests before and after pruning."""

    snapshot_id: int | None
    tasks: tuple[FileReadTask, ...]
    manifests_total: int = 0
    manifests_read: int = 0
    files_total: int = 0

    @property
    def files(self) -> int:
        """The number of data files to read."""
        return sum(len(task.files) for task in self.tasks)

    @property
    def delete_file_reads(self) -> int:
        """The number of reads of delete files, of all tasks."""
        return sum(len(task.delete_files) for task in self.tasks)


def plan_read(
    metadata: TableMetadata,
    io: FileIO,
    snapshot: Snapshot | None,
    schema: Schema,
    predicate: Predicate | None,
    target: int = TARGET_BYTES,
) -> FilePlan:
    """Return the plan for the rows of a snapshot that may match a predicate, which is bound to the schema.

    Without a snapshot there is nothing to read. Raises as live_files does.
    """
    if snapshot is None:
        return FilePlan(snapshot_id=None, tasks=())
    found = live_files(metadata, io, snapshot, schema, to_expression(predicate, readable_fields(schema)))
    index = DeleteIndex(found.deletes, partial(is_unpartitioned, metadata.specs()))
    tasks = tasks_of([DataTask(file=file, deletes=index.of(file)) for file in found.data], target)
    return FilePlan(
        snapshot_id=snapshot.snapshot_id,
        tasks=tasks,
        manifests_total=found.manifests_total,
        manifests_read=found.manifests_read,
        files_total=found.data_total,
    )


def is_unpartitioned(specs: Mapping[int, PartitionSpec], number: int) -> bool:
    """Return whether the spec has no fields, or all of them were dropped: version 1 leaves dropped fields as void."""
    return all(isinstance(field.transform, VoidTransform) for field in specs[number].fields)


def tasks_of(files: Sequence[DataTask], target: int = TARGET_BYTES) -> tuple[FileReadTask, ...]:
    """Return tasks of about `target` bytes, the longest task first; the same files give the same tasks."""
    pieces = chain.from_iterable(_cut(group, target) for group in _groups(files))
    tasks = [FileReadTask(files=tuple(piece)) for piece in _packed(pieces, target)]
    return tuple(tasks[index] for index in longest_first([task.cost for task in tasks]))


def _groups(files: Sequence[DataTask]) -> list[list[DataTask]]:
    """Return groups of files that share deletes, directly or through others."""
    leader = list(range(len(files)))

    def find(number: int) -> int:
        while leader[number] != number:
            leader[number] = leader[leader[number]]
            number = leader[number]
        return number

    first_user: dict[tuple[str, int | None], int] = {}
    for number, task in enumerate(files):
        for file in task.deletes.files:
            leader[find(number)] = find(first_user.setdefault(file.place, number))
    groups: dict[int, list[DataTask]] = defaultdict(list)
    for number, task in enumerate(files):
        groups[find(number)].append(task)
    return list(groups.values())


def _cut(group: list[DataTask], target: int) -> Iterable[list[DataTask]]:
    """Split a group into pieces of at most `target` bytes of data, without splitting files."""
    piece: list[DataTask] = []
    size = 0
    for index in longest_first([task.cost for task in group]):
        task = group[index]
        if piece and size + task.cost > target:
            yield piece
            piece, size = [], 0
        piece.append(task)
        size += task.cost
    yield piece


def _packed(pieces: Iterable[list[DataTask]], target: int) -> list[list[DataTask]]:
    """Pack small pieces together, each into the first task with room for it."""
    found: list[list[DataTask]] = []
    room: list[int] = []
    for piece in sorted(pieces, key=lambda piece: -sum(task.cost for task in piece)):
        size = sum(task.cost for task in piece)
        place = next((number for number, left in enumerate(room) if size <= left), None)
        if place is None:
            found.append(list(piece))
            room.append(target - size)
        else:
            found[place] += piece
            room[place] -= size
    return found


_COMPARISONS: dict[ours.Op, Callable[..., BooleanExpression]] = {
    ours.Op.EQ: EqualTo,
    ours.Op.NE: NotEqualTo,
    ours.Op.LT: LessThan,
    ours.Op.LE: LessThanOrEqual,
    ours.Op.GT: GreaterThan,
    ours.Op.GE: GreaterThanOrEqual,
}
# Constructed with positional arguments, which pyiceberg's plugin for types does not know.
_TRUE: BooleanExpression = AlwaysTrue()
_FALSE: BooleanExpression = AlwaysFalse()
_AND: Callable[..., BooleanExpression] = expressions.And
_OR: Callable[..., BooleanExpression] = expressions.Or
_ONE_OF: Callable[..., BooleanExpression] = expressions.In
_NULL: Callable[..., BooleanExpression] = expressions.IsNull
_NOT_NULL: Callable[..., BooleanExpression] = expressions.NotNull
_NAN: Callable[..., BooleanExpression] = expressions.IsNaN
_PREFIX: Callable[..., BooleanExpression] = expressions.StartsWith
_LITERALS: Mapping[TypeRoot, type] = {
    TypeRoot.BOOLEAN: bool,
    TypeRoot.INT: int,
    TypeRoot.BIGINT: int,
    TypeRoot.FLOAT: float,
    TypeRoot.DOUBLE: float,
    TypeRoot.DECIMAL: Decimal,
    TypeRoot.VARCHAR: str,
    TypeRoot.VARBINARY: bytes,
    TypeRoot.DATE: date,
    TypeRoot.TIMESTAMP: datetime,
    TypeRoot.TIMESTAMP_LTZ: datetime,
}
"""The values that both libraries represent alike; filters on other types prune nothing."""
_MAX_CHOICES = 200
"""Evaluating a longer list costs more than its pruning saves."""


def to_expression(predicate: "ours.Predicate | None", fields: Sequence[DataField]) -> BooleanExpression:
    """Return the strongest known expression that is true wherever the bound predicate is."""
    if predicate is None:
        return _TRUE
    # pyiceberg takes a name with a dot for a path.
    columns = {f.name: f.type for f in fields if "." not in f.name and isinstance(f.type, AtomicType)}
    return _translated(ours.push_not(predicate), columns)


def _translated(predicate: "ours.Predicate", columns: Mapping[str, AtomicType]) -> BooleanExpression:
    match predicate:
        case ours.AlwaysFalse():
            return _FALSE
        case ours.And(children):
            return reduce(_AND, (_translated(child, columns) for child in children), _TRUE)
        case ours.Or(children):
            return reduce(_OR, (_translated(child, columns) for child in children), _FALSE)
        case ours.Comparison(op, str(name), value) if name in columns and _is_known(value, columns[name]):
            compared = _COMPARISONS[op](name, value)
            # Bounds do not include NaN, which is greater than every number.
            above = isinstance(value, float) and op in (ours.Op.NE, ours.Op.GT, ours.Op.GE)
            return _OR(compared, _NAN(name)) if above else compared
        case ours.In(str(name), values) if name in columns and len(values) <= _MAX_CHOICES:
            known = [value for value in values if value is not None]
            return _ONE_OF(name, known) if known and all(_is_known(v, columns[name]) for v in known) else _TRUE
        case ours.IsNull(str(name)) if name in columns:
            return _NULL(name)
        case ours.IsNotNull(str(name)) if name in columns:
            return _NOT_NULL(name)
        case ours.StartsWith(str(name), pattern) if name in columns and pattern:
            return _PREFIX(name, pattern)
    return _TRUE


def _is_known(value: object, kind: AtomicType) -> bool:
    if not isinstance(value, _LITERALS.get(kind.root, ())):
        return False
    if not isinstance(value, float):
        return True
    if kind.root is TypeRoot.DOUBLE:
        return not math.isnan(value)
    # Bounds are FLOATs as well; a number between two FLOATs would be rounded to one. pyiceberg takes an infinity for a
    # number beyond FLOAT, which equals nothing.
    return math.isfinite(value) and _as_float(value) == value


def _as_float(value: float) -> float:
    return float(np.float32(value))
