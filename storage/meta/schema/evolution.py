"""Reader of files of older schemas: columns are matched by field id, then cast to the types of the read.

A column that the file's schema lacks is null (a default value is applied when a row is written, not here); a renamed
one is found under its old name; a dropped one is not read, even when a new column has its name. ROWs are matched field
by field in the same way, inside ARRAY and MAP, too. Between other types Paimon's casts apply: see
`storage.base.types.casting`. `is_widening` compares the value ranges of types.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from interbed.storage.base.errors import InterbedError, NotSupportedError, SchemaMismatchError
from interbed.storage.base.predicate.expr import Predicate, rename_columns, restrict_to
from interbed.storage.base.types.arrow import fields_to_schema, type_to_arrow
from interbed.storage.base.types.casting.rules import has_cast
from interbed.storage.base.types.data_type import (
    BINARIES,
    INTEGERS,
    STRINGS,
    TIMESTAMPS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    is_atomic,
)


@dataclass(frozen=True)
class FileMapping:
    """Mapping from files of one schema to the columns of a read.

    `file_fields` are the columns to read from a file, under the file's names; `sources` holds, for each column of the
    read, its column in the file or None.
    """

    read_fields: tuple[DataField, ...]
    sources: tuple[DataField | None, ...]
    schema: pa.Schema

    @property
    def file_fields(self) -> tuple[DataField, ...]:
        """Columns that are read from a file."""
        return tuple(f for f in self.sources if f is not None)

    @cached_property
    def _unchanged(self) -> frozenset[str]:
        pairs = zip(self.read_fields, self.sources, strict=True)
        return frozenset(t.name for t, s in pairs if s is not None and _same_values(s.type, t.type))

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a file's batch as a batch of exactly the read's schema; columns that the batch lacks are null."""
        columns: list[pa.Array[Any]] = []
        for target, source, field in zip(self.read_fields, self.sources, self.schema, strict=True):
            index = -1 if source is None else batch.schema.get_field_index(source.name)
            if source is None or index < 0:
                columns.append(_nulls(batch.num_rows, field.type))
                continue
            column = batch.column(index)
            if target.name in self._unchanged and column.type.equals(field.type):
                columns.append(column)
            else:
                columns.append(conform(column, source.type, target.type, column=target.name))
        if not columns:
            return batch.select([])
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def file_predicate(self, predicate: Predicate | None) -> Predicate | None:
        """Return a predicate over the file's columns that holds wherever the given one does.

        It serves to skip parts of the file. Columns that the file lacks or that are cast do not restrict it.
        """
        if predicate is None:
            return None
        return rename_columns(restrict_to(predicate, self._file_names), self._file_names)

    @cached_property
    def _file_names(self) -> dict[str, str]:
        return {
            target.name: source.name
            for target, source in zip(self.read_fields, self.sources, strict=True)
            if source is not None and source.type.with_nullable(True) == target.type.with_nullable(True)
        }


def map_fields(read_fields: Sequence[DataField], file_fields: Sequence[DataField]) -> FileMapping:
    """Return the mapping of a file's columns (those of its schema) to the columns of a read."""
    by_id = {f.id: f for f in file_fields}
    read = tuple(read_fields)
    return FileMapping(read_fields=read, sources=tuple(by_id.get(f.id) for f in read), schema=fields_to_schema(read))


def conform(array: "pa.Array[Any]", source: DataType, target: DataType, *, column: str) -> "pa.Array[Any]":
    """Convert values of the logical type `source`, in any Arrow type of a format, to values of `target`.

    Raises NotSupportedError naming the column when there is no such cast, SchemaMismatchError naming a value that can't
    be cast (a text that is no number, for example).
    """
    arrow = type_to_arrow(target)
    if array.type.equals(arrow) and _same_values(source, target):
        return array
    match source, target:
        case RowType(), RowType():
            return _conform_row(array, source, target, column)
        case ArrayType(element=old), ArrayType(element=new):
            return _conform_list(array, old, new, arrow, column)
        case MapType() | MultisetType(), MapType() | MultisetType():
            return _conform_map(array, source, target, arrow, column)
        case AtomicType(), AtomicType():
            stored = type_to_arrow(source)
            if not array.type.equals(stored):
                array = _from_format(array, stored, column)
            return array if _same_values(source, target) else _cast(array, source, target, column)
        case ((ArrayType() | MapType() | RowType()), AtomicType()):
            # Convert it first to the form of its type in memory, whatever the format returned.
            return _cast(conform(array, source, source, column=column), source, target, column)
        case _:
            raise NotSupportedError(f"The column {column!r} can't be read as {target}: its files hold {source}.")


def _same_values(source: DataType, target: DataType) -> bool:
    """Return whether the types are equal except for nullability and for names and descriptions of nested fields."""
    match source, target:
        case RowType(fields=old), RowType(fields=new):
            return len(old) == len(new) and all(
                a.id == b.id and _same_values(a.type, b.type) for a, b in zip(old, new, strict=True)
            )
        case (ArrayType(), ArrayType()) | (MapType(), MapType()) | (MultisetType(), MultisetType()):
            return all(_same_values(a, b) for a, b in zip(source.children(), target.children(), strict=True))
        case _:
            return source.with_nullable(True) == target.with_nullable(True)


def _nulls(count: int, arrow: Any) -> "pa.Array[Any]":
    nulls: pa.Array[Any] = pa.nulls(count, arrow)
    return nulls


def _conform_row(array: Any, source: RowType, target: RowType, column: str) -> "pa.Array[Any]":
    by_id = {f.id: f for f in source.fields}
    children: list[pa.Array[Any]] = []
    arrow: Any = type_to_arrow(target)
    for field in target.fields:
        old = by_id.get(field.id)
        index = -1 if old is None else array.type.get_field_index(old.name)
        if old is None or index < 0:
            children.append(_nulls(len(array), type_to_arrow(field.type)))
        else:
            # field() returns the children of this slice only.
            children.append(conform(array.field(index), old.type, field.type, column=f"{column}.{field.name}"))
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(arrow), mask=mask)


def _conform_list(array: Any, old: DataType, new: DataType, arrow: pa.DataType, column: str) -> "pa.Array[Any]":
    values = conform(array.values, old, new, column=column)
    validity, offsets = array.buffers()[:2]
    result: pa.Array[Any] = pa.ListArray.from_buffers(
        arrow, len(array), [validity, offsets], array.null_count, array.offset, children=[values]
    )
    return result


def _conform_map(array: Any, source: DataType, target: DataType, arrow: Any, column: str) -> "pa.Array[Any]":
    if not pa.types.is_map(array.type):
        raise NotSupportedError(f"The column {column!r} can't be read as {target}: its files hold {array.type}.")
    count = AtomicType(TypeRoot.INT, nullable=False)
    old_key, old_item = (*source.children(), count)[:2]
    new_key, new_item = (*target.children(), count)[:2]
    keys = conform(array.keys, old_key, new_key, column=f"{column}.key")
    items = conform(array.items, old_item, new_item, column=f"{column}.value")
    entries = pa.StructArray.from_arrays([keys, items], fields=[arrow.key_field, arrow.item_field])
    validity, offsets = array.buffers()[:2]
    result: pa.Array[Any] = pa.MapArray.from_buffers(
        arrow, len(array), [validity, offsets], array.null_count, array.offset, children=[entries]
    )
    return result


def _from_format(array: "pa.Array[Any]", stored: pa.DataType, column: str) -> "pa.Array[Any]":
    """Return the same values in the Arrow type of their logical type, whatever type the format returned."""
    kind = array.type
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(stored):
        # The zone does not affect the value: instants are kept in UTC, and local times without a zone.
        array = array.cast(pa.timestamp(stored.unit), safe=False) if kind.tz is None else array
        return array.cast(pa.timestamp(stored.unit, kind.tz), safe=False).view(pa.int64()).view(stored)
    try:
        result: pa.Array[Any] = array.cast(stored)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise NotSupportedError(f"The column {column!r} is {stored}, but a file holds {kind}: {error}") from error
    return result


def _cast(array: "pa.Array[Any]", source: DataType, target: AtomicType, column: str) -> "pa.Array[Any]":
    from interbed.storage.base.types.casting.cast import cast_values

    if is_atomic(source, TypeRoot.TIME) and target.root is TypeRoot.TIME:
        # Both are milliseconds, whatever precision is declared.
        return array
    if not has_cast(source, target):
        raise NotSupportedError(f"The column {column!r} can't be read as {target}: its files hold {source}.")
    try:
        result = cast_values(array, source, target)
        if not target.nullable and result.null_count > array.null_count:
            raise ValueError("a number has too many digits, and the column admits no nulls")
        return result
    except InterbedError:
        # The value is valid, but not the time zone.
        raise
    except ValueError as error:
        raise SchemaMismatchError(
            f"The column {column!r} can't be read as {target}: its type was {source}, and in a file {error}. Give the "
            "column its old type back, mend the values, and change the type again."
        ) from error


_INTEGER_DIGITS = {TypeRoot.TINYINT: 3, TypeRoot.SMALLINT: 5, TypeRoot.INT: 10, TypeRoot.BIGINT: 19}


def keeps_values(source: DataType, target: DataType) -> bool:
    """Return whether values of `source` can be read as `target` without loss, apart from nested fields it lacks."""
    match source, target:
        case RowType(), RowType():
            by_id = {f.id: f.type for f in source.fields}
            return all(f.id not in by_id or keeps_values(by_id[f.id], f.type) for f in target.fields)
        case (ArrayType(), ArrayType()) | (MapType(), MapType()) | (MultisetType(), MultisetType()):
            return all(keeps_values(a, b) for a, b in zip(source.children(), target.children(), strict=True))
        case _:
            return source.with_nullable(True) == target.with_nullable(True) or is_widening(source, target)


def is_widening(old: DataType, new: DataType) -> bool:
    """Return whether every value of the old atomic type has the same value in the new one."""
    if not isinstance(old, AtomicType) or not isinstance(new, AtomicType):
        return old.with_nullable(True) == new.with_nullable(True)
    if old.root in INTEGERS:
        digits = _INTEGER_DIGITS[old.root]
        if new.root in INTEGERS:
            return _INTEGER_DIGITS[new.root] >= digits
        if new.root is TypeRoot.DECIMAL:
            return (new.precision or 0) - (new.scale or 0) >= digits
        return new.root is TypeRoot.DOUBLE and digits <= 10
    if old.root in STRINGS:
        return new.root is TypeRoot.VARCHAR and (new.length or 0) >= (old.length or 0)
    if old.root in BINARIES:
        return new.root is TypeRoot.VARBINARY and (new.length or 0) >= (old.length or 0)
    if old.root is TypeRoot.DECIMAL and new.root is TypeRoot.DECIMAL:
        old_scale, new_scale = old.scale or 0, new.scale or 0
        return new_scale >= old_scale and (new.precision or 0) - new_scale >= (old.precision or 0) - old_scale
    if old.root is TypeRoot.FLOAT:
        return new.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE)
    if old.root in TIMESTAMPS:
        return new.root is old.root and (new.precision or 0) >= (old.precision or 0)
    if old.root is TypeRoot.TIME:
        # Paimon has no cast between TIMEs.
        return new.root is old.root and new.precision == old.precision
    return old.root is new.root
