"""Rows that a writer is given: the conversion into rows of the table, with its columns, types, defaults, row kinds and
lengths, and the check for rows that the writer would refuse.

Row kinds follow the documentation pages `primary-key-table/sequence-rowkind` and `maintenance/configurations`
(`ignore-delete`, `ignore-update-before`).

New values longer than the declared length of CHAR, VARCHAR, BINARY and VARBINARY are refused, as in Spark. Lengths
count characters of texts and bytes of binary values. Values within ARRAY, MULTISET, MAP and ROW are checked, too.

A writer refuses a whole batch for one row: for a null that a column does not admit, a row kind that the merge engine
does not take, a text in `rowkind.field` that is not a row kind, or a partition whose directory no file system can have.
`RowCheck` finds such rows before they are written, so that the other rows can be written.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import array_of, one_array, one_nan, rows_taken, scalar_of, to_numpy
from interbed.storage.base.errors import InvalidInputError, SchemaMismatchError
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.row.python_values import shown_value
from interbed.storage.base.row.values import type_name
from interbed.storage.base.types.arrow import cast_to_schema
from interbed.storage.base.types.data_type import (
    BINARIES,
    MAX_LENGTH,
    STRINGS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
)
from interbed.storage.base.types.default_value import default_scalar
from interbed.storage.base.types.nested import parts_of
from interbed.storage.lsm.merge_function.row_rules import retract_refusal
from interbed.storage.lsm.write_buffer import Kinds
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.paths import TablePaths
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.write.bucket.route import distinct_partitions

Array = Any

_NEW = (RowKind.INSERT, RowKind.UPDATE_AFTER)

_ELEMENT, _KEY, _VALUE = "element", "key", "value"


KeptNulls: TypeAlias = bool | Mapping[str, "pa.BooleanArray"]
"""Whether null stays null in columns with a default; for some columns by row."""


class RowConverter:
    """Conversion of rows for one table; `table` is its name in errors."""

    def __init__(self, schema: TableSchema, table: str) -> None:
        self._schema = schema
        self._table = table
        self._limited = limited_values(schema)
        placing = {*schema.primary_keys, *schema.partition_keys, *(schema.core.bucket_key or ())}
        floats = (pa.float32(), pa.float64())
        self._float_keys = [n for n, f in enumerate(schema.arrow) if f.name in placing and f.type in floats]

    def batches(
        self, data: pa.Table | pa.RecordBatch, *, keeps_nulls: KeptNulls = False, keeps_nan: bool = False
    ) -> list[pa.RecordBatch]:
        """Return the rows with the columns of the table; all are checked before the first is returned.

        Columns are matched by name; absent nullable ones become null or their default. `keeps_nulls` says where null
        stays null although the column has a default: in rows of the table. NaN in keys, partitions and bucket keys
        becomes Java's, unless `keeps_nan`: rows of the table are found where their own bits placed them. Raises
        SchemaMismatchError and InvalidInputError.
        """
        if not isinstance(data, pa.Table | pa.RecordBatch):
            raise InvalidInputError(
                f"Rows are written as an Arrow table, batch or reader of batches, not as {type(data).__name__}; see "
                "pyarrow.Table.from_pylist, from_pydict and from_pandas."
            )
        # Chunks are cast one by one, which saves a copy of a table of several chunks.
        parts: Sequence[pa.Table | pa.RecordBatch] = [data]
        if isinstance(data, pa.Table):
            # A table without rows has no chunks, but its columns are checked, too.
            parts = data.to_batches() or parts
        target, defaults = (self._schema.arrow, {}) if keeps_nulls is True else self._target()
        batches: list[pa.RecordBatch] = []
        first_row = 0
        for part in parts:
            batches += cast_to_schema(part, target, what=self._table, first_row=first_row)
            first_row += part.num_rows
        for place in () if keeps_nan else self._float_keys:
            batches = [
                batch.set_column(place, batch.schema.field(place), one_nan(batch.column(place))) for batch in batches
            ]
        if not defaults:
            return batches
        masks = keeps_nulls if isinstance(keeps_nulls, Mapping) else {}
        filled = []
        first_row = 0
        for batch in batches:
            columns = list(batch.columns)
            for index, default in defaults.items():
                values = pc.fill_null(columns[index], default)
                mask = masks.get(self._schema.names[index])
                if mask is not None:
                    values = pc.if_else(mask.slice(first_row, batch.num_rows), columns[index], values)
                columns[index] = values
            first_row += batch.num_rows
            filled.append(pa.RecordBatch.from_arrays(columns, schema=self._schema.arrow))
        return filled

    def check_new_rows(self, batch: pa.RecordBatch, kinds: "Kinds | None", default_name: str, first_row: int) -> None:
        """Raise SchemaMismatchError for inserted or updated rows that the table must not contain.

        Deleted rows are not checked, because another system may have written them. `default_name` is the name of null
        partitions. Rows are counted from `first_row` on.
        """
        is_new = None if kinds is None else pc.is_in(kinds, array_of([int(kind) for kind in _NEW], pa.int8()))
        self.check_lengths(batch, is_new, first_row)
        self.check_partitions(batch, is_new, default_name, first_row)

    def check_lengths(self, batch: pa.RecordBatch, is_new: Any, first_row: int) -> None:
        """Raise SchemaMismatchError for a text or bytes longer than the declared length, as Spark does."""
        for values in self._limited:
            values.check(batch, is_new, self._table, first_row)

    def too_long(self, batch: pa.RecordBatch) -> dict[int, tuple[str, str]]:
        """Return the column and the reason for each row with a text or bytes longer than the declared length."""
        found: dict[int, tuple[str, str]] = {}
        for values in self._limited:
            for row, reason in values.refused(batch).items():
                found.setdefault(row, (values.column, reason))
        return found

    def check_partitions(self, batch: pa.RecordBatch, is_new: Any, default_name: str, first_row: int) -> None:
        """Raise SchemaMismatchError for a partition value that equals the name of the null partitions.

        In a list of partitions that text can't be distinguished from null.
        """
        for f in self._schema.partition_fields:
            if not isinstance(f.type, AtomicType) or f.type.root not in STRINGS:
                continue
            is_name: Any = pc.equal(batch.column(f.name), scalar_of(default_name, pa.string()))
            if is_new is not None:
                is_name = pc.and_(is_name, is_new)
            if pc.any(is_name).as_py():
                row = first_row + pc.index(is_name, True).as_py()
                raise SchemaMismatchError(
                    f"The partition column {f.name!r} of {self._table} has the text {default_name!r} in row {row} "
                    "(counted from 0), which is the name of the partition of nulls; write null or another text. The "
                    "option 'partition.default-name' of a new table gives that partition another name."
                )

    def kinds(self, given: "pa.Array[Any] | pa.ChunkedArray[Any]", rows: int) -> Kinds:
        """Return the row kinds as int8; raise InvalidInputError, also if the table takes insertions only."""
        array = given.combine_chunks() if isinstance(given, pa.ChunkedArray) else given
        if len(array) != rows:
            raise InvalidInputError(f"Row kinds are one for each row; got {len(array)} for {rows} rows.")
        kinds = kinds_of(array, source="The array of row kinds")
        inserted = scalar_of(int(RowKind.INSERT), pa.int8())
        if not self._schema.has_primary_key and pc.any(pc.not_equal(kinds, inserted)).as_py():
            raise InvalidInputError(
                f"The {self._table} has no primary key, so it takes insertions (+I) only; "
                "delete and change rows by a filter, in a DELETE, an UPDATE or a MERGE."
            )
        return kinds

    def _target(self) -> tuple[pa.Schema, dict[int, Any]]:
        """Return the schema to cast to, which admits nulls that a default replaces, and the defaults by column."""
        schema = self._schema.arrow
        defaults: dict[int, Any] = {}
        for index, f in enumerate(self._schema.fields):
            if f.default_value is not None:
                try:
                    defaults[index] = default_scalar(f.default_value, f.type, column=f.name)
                except InvalidInputError as error:
                    raise SchemaMismatchError(str(error)) from error
                schema = schema.set(index, schema.field(index).with_nullable(True))
        return schema, defaults


class RowKinds:
    """The rules of one table for the kinds of written rows."""

    def __init__(self, schema: TableSchema, options: CoreOptions) -> None:
        self._field = options.rowkind_field
        self._ignore_delete = options.ignore_delete
        self._ignore_update_before = options.ignore_update_before
        self._refusal = retract_refusal(schema, options)

    def apply(self, batch: pa.RecordBatch, kinds: "Kinds | None") -> "tuple[pa.RecordBatch, Kinds | None]":
        """Return the rows that are written, and their kinds (None when all are insertions).

        Raises InvalidInputError when the table takes no rows of such kinds, and for a text in the column
        `rowkind.field` that is not a row kind.
        """
        if self._field is not None:
            column = batch.column(self._field).cast(pa.string())
            kinds = kinds_of(column, source=f"The column {self._field!r} of option 'rowkind.field'")
        if kinds is None:
            return batch, None
        retracts = pc.equal(pc.bit_wise_and(kinds, scalar_of(1, pa.int8())), scalar_of(1, pa.int8()))
        if not pc.any(retracts).as_py():
            return batch, kinds
        ignored: Any = None
        if self._ignore_delete:
            ignored = retracts
        elif self._ignore_update_before:
            ignored = pc.equal(kinds, scalar_of(int(RowKind.UPDATE_BEFORE), pa.int8()))
        if ignored is not None:
            kept = pc.invert(ignored)
            batch, kinds = batch.filter(kept), kinds.filter(kept)
            retracts = retracts.filter(kept)
        if self._refusal is not None and pc.any(retracts).as_py():
            raise InvalidInputError(self._refusal)
        return batch, kinds


def kinds_of(column: "pa.Array[Any]", *, source: str) -> Kinds:
    """Return row kinds as int8, from their numbers 0 to 3 or their short texts; `source` names the column in errors.

    Raises InvalidInputError for other values, nulls included.
    """
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    if pa.types.is_integer(column.type):
        # Unsafe, but no unsigned number that wraps around becomes a number from 0 to 3.
        found = pc.index_in(column.cast(pa.int64(), safe=False), array_of([int(k) for k in RowKind], pa.int64()))
    elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        found = pc.index_in(column.cast(pa.string()), array_of([k.short for k in RowKind], pa.string()))
    else:
        raise InvalidInputError(f"{source} holds row kinds, 0 to 3 or +I, -U, +U and -D, not values of {column.type}.")
    if found.null_count:
        wrong = column.filter(pc.is_null(found))[0].as_py()
        raise InvalidInputError(f"{source} takes +I, -U, +U and -D, or their numbers 0 to 3, not {wrong!r}.")
    kinds: Kinds = found.cast(pa.int8())
    return kinds


@dataclass(frozen=True, slots=True)
class LimitedValues:
    """The values of a column that have a declared length, and the steps from the column to them."""

    column: str
    steps: tuple[str, ...]
    kind: AtomicType

    @property
    def name(self) -> str:
        """The column, or the path to the values within it, as in `tags.element`."""
        return ".".join((self.column, *self.steps))

    def check(self, batch: pa.RecordBatch, is_new: Array | None, table: str, first_row: int) -> None:
        """Raise SchemaMismatchError for the first value that is too long in a row for which `is_new` is true.

        `is_new` is None if all rows are new. Rows are counted from `first_row` on.
        """
        lengths, is_longer, rows = self._longer(batch)
        if is_new is not None:
            is_longer = pc.and_(is_longer, is_new if rows is None else pc.take(is_new, rows))
        if not pc.any(is_longer).as_py():
            return
        at = pc.index(is_longer, True).as_py()
        row = first_row + (at if rows is None else rows[at].as_py())
        raise SchemaMismatchError(
            f"The column {self.name!r} of {table} is {type_name(self.kind)}, and row {row} (counted from 0) has "
            f"{self._size(lengths, at)}. Give the column a longer type, or shorten the value."
        )

    def refused(self, batch: pa.RecordBatch) -> dict[int, str]:
        """Return the reason for each row with a value that is too long, by row number."""
        lengths, is_longer, rows = self._longer(batch)
        reasons: dict[int, str] = {}
        # A loop over values that are too long.
        places: Array = pc.indices_nonzero(is_longer)
        for at in places.to_pylist():
            row = at if rows is None else rows[at].as_py()
            inside = f" in {self.name}" if self.steps else ""
            reasons.setdefault(row, f"it has {self._size(lengths, at)}{inside}, too many for {type_name(self.kind)}")
        return reasons

    def _longer(self, batch: pa.RecordBatch) -> tuple[Array, Array, Array | None]:
        """Return the length of each value, whether it is too long, and the rows of values within others."""
        values: Array = batch.column(self.column)
        rows: Array | None = None
        for step in self.steps:
            values, rows = _inner(values, step, rows)
        lengths: Array = (pc.utf8_length if self.kind.root in STRINGS else pc.binary_length)(values)
        return lengths, pc.greater(lengths, scalar_of(self.kind.length, lengths.type)), rows

    def _size(self, lengths: Array, at: int) -> str:
        return f"{lengths[at].as_py()} {'characters' if self.kind.root in STRINGS else 'bytes'}"


def limited_values(schema: TableSchema) -> list[LimitedValues]:
    """Return all values of the schema's columns that have a declared length."""
    return [
        LimitedValues(field.name, steps, kind) for field in schema.fields for steps, kind in _limited(field.type, ())
    ]


def _limited(kind: DataType, steps: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], AtomicType]]:
    match kind:
        case AtomicType():
            if kind.root in STRINGS | BINARIES and kind.length != MAX_LENGTH:
                yield steps, kind
        case ArrayType():
            yield from _limited(kind.element, (*steps, _ELEMENT))
        case MultisetType():
            yield from _limited(kind.element, (*steps, _KEY))
        case MapType():
            yield from _limited(kind.key, (*steps, _KEY))
            yield from _limited(kind.value, (*steps, _VALUE))
        case RowType():
            for field in kind.fields:
                yield from _limited(field.type, (*steps, field.name))
        case _:
            pass


def _inner(values: Array, step: str, rows: Array | None) -> tuple[Array, Array | None]:
    """Return the values that a step leads to, and the row of each; `rows` has those of `values`, if they differ."""
    inside, slots = next((part, slots) for name, part, slots in parts_of(values) if name == step)
    return inside, rows if slots is None else slots if rows is None else rows.take(slots)


PATH_PART_BYTES_MAX = 255
"""The longest name of a directory in the file systems of Linux and in HDFS."""
_KNOWN_PARTITIONS_MAX = 10_000
_MISFITS = (ValueError, TypeError, NotImplementedError, ArithmeticError)


class RowCheck:
    """The rules of a table at one schema; `name` is its name in errors."""

    def __init__(self, name: str, schema: TableSchema, options: CoreOptions, paths: TablePaths) -> None:
        self._name = name
        self._paths = paths
        self.schema = schema
        self._kind_field = options.rowkind_field
        self._ignores_before = options.ignore_update_before
        self._refusal = retract_refusal(schema, options)
        self._partitions: set[bytes] = set()
        """Partitions that were checked and can be written."""

    def refused(self, rows: pa.Table, kinds: npt.NDArray[np.int8], written: Mask) -> dict[int, str]:
        """Return the reason for each row, by number, that is to be `written` and can't be; the rows have the types of
        the table.
        """
        reasons: dict[int, str] = {}
        self._check_kinds(rows, kinds, written, reasons)
        for field in self.schema.fields:
            if field.type.nullable or field.default_value is not None:
                continue
            is_given = field.name in rows.column_names
            absent = ~_valid(one_array(rows.column(field.name))) if is_given else np.ones(len(kinds), bool)
            if (absent & written).any():
                part = "the primary key" if field.name in self.schema.primary_keys else "a column that is NOT NULL"
                reason = f"its column {field.name!r} is {'null' if is_given else 'missing'}, {part} of {self._name}"
                _note(reasons, absent & written, reason)
        self._check_partitions(rows, written, reasons)
        return reasons

    def _check_kinds(self, rows: pa.Table, kinds: npt.NDArray[np.int8], written: Mask, reasons: dict[int, str]) -> None:
        if self._kind_field is not None:
            texts: Any = pa.nulls(len(kinds), pa.string())
            if self._kind_field in rows.column_names:
                texts = one_array(rows.column(self._kind_field)).cast(pa.string())
            found: Any = pc.index_in(texts, value_set=pa.array([kind.short for kind in RowKind], pa.string()))
            for i in np.flatnonzero(~_valid(found) & written):
                reasons[int(i)] = (
                    f"its column {self._kind_field!r} (rowkind.field) has {shown_value(texts, int(i))}, which is none "
                    "of +I, -U, +U and -D"
                )
            kinds = found.fill_null(0).to_numpy().astype(np.int8)
        if self._refusal is None:
            return
        retracts = (kinds == RowKind.DELETE) | ((kinds == RowKind.UPDATE_BEFORE) & (not self._ignores_before))
        _note(reasons, retracts & written, f"it takes a row back. {self._refusal.rstrip('.')}")

    def _check_partitions(self, rows: pa.Table, written: Mask, reasons: dict[int, str]) -> None:
        keys = self.schema.partition_keys
        if not keys or not set(keys) <= set(rows.column_names) or not written.any():
            return
        places = np.flatnonzero(written)
        [whole] = rows.select(list(keys)).combine_chunks().to_batches()
        batch = rows_taken(whole, places)
        partitions, codes = distinct_partitions(batch, self.schema)
        # A loop over the different partitions, which are few.
        for number, partition in enumerate(partitions):
            if partition in self._partitions:
                continue
            if (reason := self._problem(partition)) is None:
                if len(self._partitions) >= _KNOWN_PARTITIONS_MAX:
                    self._partitions.clear()
                self._partitions.add(partition)
                continue
            of_it = places[codes == number]
            given = ", ".join(f"{n} = {shown_value(one_array(rows.column(n)), int(of_it[0]))}" for n in keys)
            for i in of_it.tolist():
                reasons.setdefault(i, f"its partition ({given}) can't be written: {reason}")

    def _problem(self, partition: bytes) -> str | None:
        try:
            directory = self._paths.partition_directory(partition)
        except _MISFITS as error:
            return str(error)
        longest = max(len(part.encode()) for part in directory.split("/"))
        if longest > PATH_PART_BYTES_MAX:
            return f"the name of its directory has {longest} bytes, and at most {PATH_PART_BYTES_MAX} are possible"
        return None


def _valid(array: Any) -> Mask:
    return to_numpy(array.is_valid())


def _note(reasons: dict[int, str], where: Mask, reason: str) -> None:
    for i in np.flatnonzero(where).tolist():
        reasons.setdefault(i, reason)
