"""Rows of a table as the records of its log, and back.

A record has as its key the JSON of the primary key (none without one). Its value is the row in Flink's format
`debezium-json`, so that Flink's readers can read it:

    {"before": null, "after": {"id": 1, "name": "a"}, "op": "c"}        an added row: +I, +U
    {"before": {"id": 1, "name": "a"}, "after": null, "op": "d"}        a removed row: -U, -D

This does not distinguish +U from +I, nor -U from -D. The header `kind` does, with one of the digits 1 (-U) and 2 (+U);
records without it are +I and -D. In a log with `log.changelog-mode` = upsert a record without a value means that its
key was deleted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrow_values import from_numpy, scalar_of
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
