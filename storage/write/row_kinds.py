"""What each row that is written says of its key, by the table's options.

Source: documentation pages `primary-key-table/sequence-rowkind` and `maintenance/configurations` (`ignore-delete`,
`ignore-update-before`).
"""

from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrow_values import array_of, scalar_of
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.row.kind import RowKind
from interbed.storage.lsm.merge_function.row_rules import retract_refusal
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.table_schema import TableSchema

Kinds: TypeAlias = "pa.Array[Any]"


class RowKinds:
    """The rules of one table."""

    def __init__(self, schema: TableSchema, options: CoreOptions) -> None:
        self._field = options.rowkind_field
        self._ignore_delete = options.ignore_delete
        self._ignore_update_before = options.ignore_update_before
        self._refusal = retract_refusal(schema, options)

    def apply(self, batch: pa.RecordBatch, kinds: "Kinds | None") -> "tuple[pa.RecordBatch, Kinds | None]":
        """The rows that are written, and their kinds (None when all are insertions).

        Raises InvalidInputError when the table takes no rows of such kinds, and for a text in the column
        `rowkind.field` that is no kind.
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
    """Row kinds as int8 of their numbers 0 to 3 or of their short texts; `source` names the column in errors.

    Raises InvalidInputError for anything else, nulls included.
    """
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    if pa.types.is_integer(column.type):
        # Unsafe: no unsigned number that wraps around comes to lie between 0 and 3.
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
