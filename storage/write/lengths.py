"""Declared lengths of CHAR, VARCHAR, BINARY and VARBINARY: new values that are longer are refused, as in Spark.

Lengths count characters of texts and bytes of binary values. Values within ARRAY, MULTISET, MAP and ROW are checked,
too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrow_values import scalar_of
from interbed.storage.base.errors import SchemaMismatchError
from interbed.storage.base.row.values import type_name
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
from interbed.storage.base.types.nested import parts_of
from interbed.storage.meta.schema.table_schema import TableSchema

Array = Any
_ELEMENT, _KEY, _VALUE = "element", "key", "value"


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

        `is_new` is None where all rows are new. Rows are counted from `first_row` on.
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
        """Return why rows have a value that is too long, by their number."""
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
