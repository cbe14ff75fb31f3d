"""Check for rows that the writer of a table would refuse, before they are written, so that the other rows can be
written.

A writer refuses a whole batch for one row: for a null that a column does not admit, a row kind that the merge engine
does not take, a text in `rowkind.field` that is not a row kind, or a partition whose directory no file system can have.
"""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import one_array, rows_taken, to_numpy
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.row.python_values import shown_value
from interbed.storage.lsm.merge_function.row_rules import retract_refusal
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.paths import TablePaths
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.write.bucket.choose import distinct_partitions

Array: TypeAlias = "pa.Array[Any]"

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
