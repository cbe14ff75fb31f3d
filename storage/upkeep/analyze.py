"""ANALYZE: row count and column statistics of a table, in `statistics/stat-…`, which a snapshot names.

The file is JSON as paimon-core's Statistics writes it: the number of rows after merging and their size, and for each
column its number of distinct values, its least and greatest value as text, its nulls and its lengths. Later snapshots
of the same schema inherit it.
"""

import json
import uuid
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.errors import CommitStateUnknownError, InterbedError, InvalidInputError, NotSupportedError
from interbed.storage.base.row.python_values import python_value
from interbed.storage.base.row.values import java_float_text, order_key
from interbed.storage.base.types.data_type import AtomicType, DataField, TypeRoot, is_atomic
from interbed.storage.base.types.far_times import FarDate, FarTimestamp, timestamp_text
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.files.file_index.bloom_filter import hash_values
from interbed.storage.files.file_index.values import ValueForm
from interbed.storage.files.format.stats import float_bounds
from interbed.storage.meta.file_store import FileStore
from interbed.storage.read.query import Scan
from interbed.storage.scan.scan import TableScan
from interbed.storage.scan.summary.estimate import TableColumnStatistics, TableStatistics

_EPOCH = date(1970, 1, 1)
_REGISTER_BITS = 14
_STRINGS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_BINARIES = (TypeRoot.BINARY, TypeRoot.VARBINARY)
_BYTES = {
    TypeRoot.BOOLEAN: 1,
    TypeRoot.TINYINT: 1,
    TypeRoot.SMALLINT: 2,
    TypeRoot.INT: 4,
    TypeRoot.FLOAT: 4,
    TypeRoot.DATE: 4,
    TypeRoot.TIME: 4,
}


def analyze_table(store: FileStore, columns: Sequence[str]) -> TableStatistics | None:
    """Gather the statistics and commit them; None for a table without snapshots.

    Reads the columns once, in bounded memory. Raises InvalidInputError for an unknown column, NotSupportedError for a
    nested one, and as a commit does.
    """
    fields = [_checked(store, name) for name in columns]
    snapshot = store.newest_snapshot()
    if snapshot is None:
        return None
    gathered = [_ColumnGatherer(field) for field in fields]
    # Without columns, read any column for the number of rows.
    names = tuple(columns) or (store.schema.names[0],)
    rows = 0
    for batch in Scan(store, names, None, None, snapshot.id).to_arrow_batch_reader():
        rows += batch.num_rows
        for column in gathered:
            column.add(batch.column(column.field.name))
    files = TableScan(store, snapshot_id=snapshot.id).entries()
    stored_rows = sum(entry.file.row_count for entry in files)
    stored_bytes = sum(entry.file.file_size for entry in files)
    statistics = TableStatistics(
        snapshot_id=snapshot.id,
        schema_id=snapshot.schema_id,
        row_count=rows,
        byte_size=int(stored_bytes * rows / stored_rows) if stored_rows else 0,
        columns={column.field.name: column.finished() for column in gathered},
    )
    name = f"stat-{uuid.uuid4()}-0"
    path = store.paths.statistics(name)
    store.file_io.create_exclusive(path, _to_json(statistics, fields).encode())
    try:
        FileStoreCommit(store, str(uuid.uuid4()), new_user=True).commit_statistics(name)
    except CommitStateUnknownError:
        raise
    except (InterbedError, OSError):
        store.file_io.delete_quietly([path])
        raise
    return statistics


def _checked(store: FileStore, name: str) -> DataField:
    field = store.schema.by_name.get(name)
    if field is None:
        raise InvalidInputError(
            f"The table at {store.location} has no column {name!r}; it has {', '.join(store.schema.names)}."
        )
    if not isinstance(field.type, AtomicType):
        raise NotSupportedError(f"The column {name!r} is nested, and statistics are of plain columns only.")
    return field


class _ColumnGatherer:
    """Statistics of one column under construction: a HyperLogLog of 16384 registers, and a few numbers."""

    def __init__(self, field: DataField) -> None:
        self.field = field
        form = ValueForm.of(field.type)
        assert form is not None
        assert isinstance(field.type, AtomicType)
        self._form = form
        self._root = field.type.root
        self._registers = np.zeros(1 << _REGISTER_BITS, np.uint8)
        self._values = self._nulls = self._length = self._longest = 0
        self._least: Any = None
        self._greatest: Any = None

    def add(self, values: "pa.Array[Any]") -> None:
        """Add the column of a batch."""
        self._nulls += values.null_count
        present: Any = values.drop_null()
        if not len(present):
            return
        self._values += len(present)
        _observe(self._registers, hash_values(values, self._form))
        if self._root in _STRINGS or self._root in _BINARIES:
            lengths: Any = pc.utf8_length(present) if self._root in _STRINGS else pc.binary_length(present)
            self._length += pc.sum(lengths).as_py()
            self._longest = max(self._longest, pc.max(lengths).as_py())
            return
        least, greatest = _extremes(present)
        ends = [least, greatest, *([] if self._least is None else [self._least, self._greatest])]
        self._least = min(ends, key=lambda value: order_key(value, self.field.type))
        self._greatest = max(ends, key=lambda value: order_key(value, self.field.type))

    def finished(self) -> TableColumnStatistics:
        """Return the statistics of the added values."""
        average, longest = self._length / max(self._values, 1), self._longest
        if self._root not in _STRINGS and self._root not in _BINARIES:
            average = longest = _width(self.field.type)
        return TableColumnStatistics(
            column_id=self.field.id,
            distinct=min(_estimate(self._registers), self._values),
            nulls=self._nulls,
            least=self._least,
            greatest=self._greatest,
            average_length=int(np.ceil(average)),
            maximal_length=longest,
        )


def _extremes(present: "pa.Array[Any]") -> tuple[Any, Any]:
    if pa.types.is_floating(present.type):
        found = float_bounds(present)
        assert found is not None
        return found
    bounds = pc.min_max(present)
    return python_value(bounds["min"]), python_value(bounds["max"])


def _width(data_type: Any) -> int:
    if data_type.root is TypeRoot.DECIMAL:
        return 8 if data_type.precision <= 18 else 16
    return _BYTES.get(data_type.root, 8)


def _observe(registers: npt.NDArray[np.uint8], hashes: npt.NDArray[np.uint64]) -> None:
    # Mix the hashes again: those of small integers differ little in their upper bits.
    with np.errstate(over="ignore"):
        mixed = hashes * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
        mixed *= np.uint64(0xD6E8FEB86659FD93)
        mixed ^= mixed >> np.uint64(32)
    place = (mixed >> np.uint64(64 - _REGISTER_BITS)).astype(np.int64)
    rest = (mixed & np.uint64((1 << (53 - 1)) - 1)) | np.uint64(1 << 52)
    # The lowest set bit as a power of two is exact as a float, so that its logarithm counts the zeros below it.
    lowest = (rest & (~rest + np.uint64(1))).astype(np.float64)
    rank = (np.log2(lowest) + 1).astype(np.uint8)
    np.maximum.at(registers, place, rank)


def _estimate(registers: npt.NDArray[np.uint8]) -> int:
    count = len(registers)
    raw = 0.7213 / (1 + 1.079 / count) * count**2 / float(np.sum(np.exp2(-registers.astype(np.float64))))
    empty = int(np.count_nonzero(registers == 0))
    if raw <= 2.5 * count and empty:
        raw = count * float(np.log(count / empty))
    return round(raw)


def _to_json(statistics: TableStatistics, fields: Sequence[DataField]) -> str:
    columns = {}
    for field in fields:
        column = statistics.columns[field.name]
        value: dict[str, object] = {"colId": column.column_id, "distinctCount": column.distinct}
        if column.least is not None:
            value |= {"min": _text(column.least, field), "max": _text(column.greatest, field)}
        value |= {
            "nullCount": column.nulls,
            "avgLen": column.average_length,
            "maxLen": column.maximal_length,
        }
        columns[field.name] = value
    return json.dumps(
        {
            "snapshotId": statistics.snapshot_id,
            "schemaId": statistics.schema_id,
            "mergedRecordCount": statistics.row_count,
            "mergedRecordSize": statistics.byte_size,
            "colStats": columns,
        },
        indent=2,
    )


def _text(value: Any, field: DataField) -> str:
    """Return a value as text that Java's serializers read."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, FarTimestamp):
        return timestamp_text(int(value), value.unit, max(6, getattr(field.type, "precision", 6) or 0))
    if isinstance(value, FarDate):
        return str(int(value))
    if isinstance(value, datetime):
        fraction = f"{value.microsecond:06d}000"[: max(6, getattr(field.type, "precision", 6) or 0)]
        return f"{value.replace(tzinfo=None):%Y-%m-%d %H:%M:%S}.{fraction}"
    if isinstance(value, date):
        return str((value - _EPOCH).days)
    if isinstance(value, float):
        return java_float_text(value, single=is_atomic(field.type, TypeRoot.FLOAT))
    return f"{value:f}" if hasattr(value, "as_tuple") else str(value)
