"""Audit log and binlog: the kind of each row as a column, and in the binlog an update's two rows as one.

Audit log: `rowkind` (+I, -U, +U, -D), then the table's columns. Binlog: the same with arrays of one value, or of the
value before and the one after of an update. With `table-read.sequence-number.enabled` both have `_SEQUENCE_NUMBER`
after `rowkind`. Source: documentation page `concepts/system-tables`, paimon-core's AuditLogTable and BinlogTable.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrow_values import array_of, from_numpy, to_numpy
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.predicate.evaluate import mask
from interbed.storage.base.predicate.expr import Predicate, bind, columns_of, restrict_to
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.types.arrow import fields_to_schema
from interbed.storage.base.types.column_names import check_asked_once
from interbed.storage.base.types.data_type import MAX_LENGTH, ArrayType, AtomicType, DataField, TypeRoot
from interbed.storage.meta.schema.table_schema import SEQUENCE_NUMBER
from interbed.storage.meta.store import TableStore
from interbed.storage.read.change_read import ROW_KIND, ChangeRead
from interbed.storage.scan.split import Split

ROWKIND = "rowkind"
_ROWKIND_FIELD = DataField(id=2**31 - 5, name=ROWKIND, type=AtomicType(root=TypeRoot.VARCHAR, length=MAX_LENGTH))
_SEQUENCE_FIELD = DataField(id=2**31 - 2, name=SEQUENCE_NUMBER, type=AtomicType(root=TypeRoot.BIGINT, nullable=False))
_KIND_TEXTS = array_of([k.short for k in RowKind], pa.string())


def audit_fields(store: TableStore, *, packed: bool) -> tuple[DataField, ...]:
    """The columns of the audit log, or with `packed` of the binlog."""
    system = [_ROWKIND_FIELD]
    if store.options.reads_sequence_numbers and store.schema.has_primary_key:
        system.append(_SEQUENCE_FIELD)
    fields = store.schema.fields
    if packed:
        fields = tuple(replace(f, type=ArrayType(element=f.type.with_nullable(True))) for f in fields)
    return (*system, *fields)


class AuditRead:
    """Reads splits as rows of the audit log, or with `packed` of the binlog; all columns when `columns` is None.

    `predicate` may be about `rowkind`, and in the audit log about any column. Raises InvalidInputError for an unknown
    column, FilterError for a predicate that does not fit, NotSupportedError for one about the binlog's arrays.
    """

    def __init__(
        self,
        store: TableStore,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
        *,
        packed: bool = False,
    ) -> None:
        fields = {f.name: f for f in audit_fields(store, packed=packed)}
        check_asked_once(columns)
        self._names = tuple(fields) if columns is None else tuple(columns)
        for name in self._names:
            if name not in fields:
                raise InvalidInputError(f"There is no column {name!r}; there are {', '.join(fields)}.")
        self._predicate = None if predicate is None else bind(predicate, list(fields.values()))
        filtered = frozenset[str]() if self._predicate is None else columns_of(self._predicate)
        arrays = sorted(filtered & set(store.schema.names)) if packed else []
        if arrays:
            raise NotSupportedError(f"The binlog can't be filtered by {arrays[0]!r}, which it has as arrays.")
        self._fields = fields
        self._packed = packed
        data = [n for n in dict.fromkeys((*self._names, *sorted(filtered))) if n in store.schema.by_name]
        inner = None if self._predicate is None else restrict_to(self._predicate, store.schema.names)
        self._read = ChangeRead(store, data, inner, keep_deletes=True, with_sequence=SEQUENCE_NUMBER in fields)
        # The columns that are made, those of the filter included.
        self._made = [ROWKIND, *([SEQUENCE_NUMBER] if SEQUENCE_NUMBER in fields else []), *data]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return fields_to_schema([self._fields[n] for n in self._names])

    def to_reader(self, splits: Sequence[Split]) -> pa.RecordBatchReader:
        """The rows of the splits, one split after the other."""
        batches = (batch for split in splits for batch in self.to_batches(split))
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    def to_batches(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of a split; raises as ChangeRead.to_batches does."""
        return self.of_changes(self._read.to_batches(split), pairs=split.streaming)

    @property
    def data_columns(self) -> tuple[str, ...]:
        """The table's columns that are read, those of the filter included."""
        return tuple(name for name in self._made if name not in (ROWKIND, SEQUENCE_NUMBER))

    def of_changes(self, rows: Iterator[pa.RecordBatch], *, pairs: bool) -> Iterator[pa.RecordBatch]:
        """The rows of changes, which have `data_columns` and ROW_KIND; with `pairs` updates have both of theirs."""
        for batch in self._packs(rows, pairs=pairs) if self._packed else map(self._audited, rows):
            kept = batch if self._predicate is None else batch.filter(mask(self._predicate, batch))
            if kept.num_rows:
                yield kept.select(list(self._names))

    def _audited(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return self._with_kinds([rows.column(n) for n in self._made[1:]], rows.column(ROW_KIND))

    def _with_kinds(self, columns: "Sequence[pa.Array[Any]]", kinds: "pa.Array[Any]") -> pa.RecordBatch:
        schema = fields_to_schema([self._fields[n] for n in self._made])
        return pa.RecordBatch.from_arrays([_KIND_TEXTS.take(kinds), *columns], schema=schema)

    def _packs(self, batches: Iterator[pa.RecordBatch], *, pairs: bool) -> Iterator[pa.RecordBatch]:
        """Rows as arrays; with `pairs` a row that says what was before shares them with the row after it."""
        waiting: pa.RecordBatch | None = None
        for batch in batches:
            rows: pa.RecordBatch = batch
            if waiting is not None:
                rows = pa.concat_batches([waiting, batch])  # type: ignore[attr-defined]  # The stubs lack it.
            waiting = None
            firsts = _firsts(to_numpy(rows.column(ROW_KIND)), pairs=pairs)
            last_kind = rows.column(ROW_KIND)[rows.num_rows - 1].as_py()
            if pairs and last_kind == RowKind.UPDATE_BEFORE and firsts[-1] == rows.num_rows - 1:
                # Its row after comes with the next batch.
                waiting = rows.slice(rows.num_rows - 1)
                rows, firsts = rows.slice(0, rows.num_rows - 1), firsts[:-1]
            if rows.num_rows:
                yield self._packed_rows(rows, firsts)
        if waiting is not None:
            yield self._packed_rows(waiting, np.zeros(1, np.int64))

    def _packed_rows(self, rows: pa.RecordBatch, firsts: "npt.NDArray[np.int64]") -> pa.RecordBatch:
        ends = np.append(firsts[1:], rows.num_rows)
        offsets: Any = from_numpy(np.append(firsts, rows.num_rows).astype(np.int32))
        first_rows: Any = from_numpy(firsts)
        last_rows: Any = from_numpy(ends - 1)
        columns: list[pa.Array[Any]] = []
        for name in self._made[1:]:
            column = rows.column(name)
            if name == SEQUENCE_NUMBER:
                columns.append(column.take(first_rows))
            else:
                kind = fields_to_schema([self._fields[name]]).field(0).type
                columns.append(pa.ListArray.from_arrays(offsets, column, type=kind))
        return self._with_kinds(columns, rows.column(ROW_KIND).take(last_rows))


def _firsts(kinds: "npt.NDArray[np.int8]", *, pairs: bool) -> "npt.NDArray[np.int64]":
    """Where each packed row begins: everywhere but at rows that belong to one before them, which they replaced."""
    if not pairs:
        return np.arange(len(kinds))
    before = kinds == RowKind.UPDATE_BEFORE
    # In a run of such rows the first one takes the second one with it, the third the fourth, and so on.
    numbers = np.arange(len(kinds))
    starts = np.maximum.accumulate(np.where(before & ~np.append(False, before[:-1]), numbers, 0))
    takes_next = before & ((numbers - starts) % 2 == 0)
    return np.flatnonzero(~np.append(False, takes_next[:-1]))
