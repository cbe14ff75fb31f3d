"""Comparison of a table of the lake with its source table: counts and checksums of key ranges, then rows.

A range holds the keys whose hash has one remainder. Both tables are read once for the checksums of all ranges, and
again for the rows of the ranges that differ. A row that changes at the source meanwhile differs as well, so the rows
are read twice, and a difference counts if it is the same both times.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import RowChanges
from interbed.ingest.flow.messages import BadMessageError
from interbed.ingest.formats.arrays import Array, taken
from interbed.ingest.tables.change_fit import ChangeFit
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.row.python_values import python_rows, python_values
from interbed.storage.table.table import Table

RANGES = 65_536
ROWS_MOST = 500_000
"""The number of rows of differing ranges that are in memory at a time."""
SHOWN_MOST = 20

Row = Mapping[str, Any]
SourceRows = Callable[[], Iterable[RowChanges]]
_Counts = Counter[tuple[bytes, bytes]]
"""The number of occurrences of each row; a row is the bytes of its key and all its bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDifference:
    """A row that differs between the tables; None if one of them lacks it."""

    lake: Row | None
    source: Row | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableComparison:
    """The result of a comparison.

    `columns` were compared; `source_only` are columns that the table of the lake lacks. `ranges` is the number of
    ranges whose checksums differ. `missing` rows are only at the source, `left_over` rows only in the lake, and
    `different` rows have one key and other values. `differences` are the first of these rows.
    """

    rows: int
    source_rows: int
    columns: Sequence[str]
    source_only: Sequence[str]
    ranges: int
    missing: int
    left_over: int
    different: int
    differences: Sequence[RowDifference]

    @property
    def is_equal(self) -> bool:
        """Whether no row differs."""
        return not (self.missing or self.left_over or self.different)


class _Sums:
    """The number of rows of each range, and the sum of their hashes."""

    def __init__(self) -> None:
        self.counts = np.zeros(RANGES, np.int64)
        self.hashes = np.zeros(RANGES, np.uint64)

    def add(self, block: "_Block") -> None:
        """Add rows to the sums of their ranges."""
        ranges = block.ranges()
        self.counts += np.bincount(ranges, minlength=RANGES)
        np.add.at(self.hashes, ranges, _hashes(block.rows))


@dataclass(frozen=True, slots=True)
class _Block:
    """Rows with their keys and their values as bytes."""

    keys: Array
    rows: Array
    batch: pa.RecordBatch

    def ranges(self) -> npt.NDArray[np.int64]:
        """Return the range of each row."""
        return (_hashes(self.keys) % np.uint64(RANGES)).astype(np.int64)


class RowComparison:
    """Compares a table of the lake with the rows of a source table."""

    def __init__(self, table: Table, source: SourceRows) -> None:
        """`source` reads the rows of the source table as of the time of the call."""
        self._table = table
        self._source = source
        self._columns: Sequence[str] = ()
        self._keys: Sequence[str] = ()

    def run(self, wait: Callable[[], None] = lambda: None) -> TableComparison:
        """Compare the newest rows of both; `wait` is called before differences are read again.

        Raises InvalidInputError if the tables share no column, or the source lacks one of the key, and BadMessageError
        for a row of the source that the table cannot have.
        """
        source_only = self._choose_columns()
        ours, theirs = _Sums(), _Sums()
        for block in self._lake():
            ours.add(block)
        for block in self._rows_of_source():
            theirs.add(block)
        apart = np.flatnonzero((ours.counts != theirs.counts) | (ours.hashes != theirs.hashes))
        missing = left_over = different = 0
        shown: list[RowDifference] = []
        for ranges in _portions(apart, ours.counts + theirs.counts):
            lake, source = self._look_twice(ranges, wait)
            of_lake, of_source = _by_key(lake), _by_key(source)
            for key in [*of_lake, *(key for key in of_source if key not in of_lake)]:
                here, there = of_lake.get(key, []), of_source.get(key, [])
                pairs = min(len(here), len(there))
                different += pairs
                left_over += len(here) - pairs
                missing += len(there) - pairs
                if len(shown) < SHOWN_MOST:
                    shown.append(RowDifference(lake=here[0] if here else None, source=there[0] if there else None))
        return TableComparison(
            rows=int(ours.counts.sum()),
            source_rows=int(theirs.counts.sum()),
            columns=self._columns,
            source_only=source_only,
            ranges=len(apart),
            missing=missing,
            left_over=left_over,
            different=different,
            differences=shown,
        )

    def _choose_columns(self) -> list[str]:
        """Choose the compared columns, and return the columns that only the source has."""
        names = next(iter(self._source())).rows.schema.names
        schema = self._table.schema
        self._columns = [name for name in schema.names if name in names]
        # A partition column may be computed from another column.
        lacking = [n for n in schema.primary_keys if n not in names and n not in schema.partition_keys]
        if lacking or not self._columns:
            why = f"the source lacks the column {lacking[0]!r} of its key" if lacking else "they share no column"
            raise InvalidInputError(f"{self._table.name} can't be compared with the source table: {why}.")
        self._keys = [name for name in schema.primary_keys if name in names] or self._columns
        return [name for name in names if name not in schema.names]

    def _lake(self) -> Iterator[_Block]:
        with self._table.scan(columns=self._columns).to_arrow_batch_reader() as reader:
            for batch in reader:
                yield self._block(batch)

    def _rows_of_source(self) -> Iterator[_Block]:
        fit = ChangeFit(self._table)
        for changes in self._source():
            fitted = fit.fit(changes)
            if fitted.bad:
                raise BadMessageError.at("the source table", fitted.bad[0].reason)
            for batch in fitted.rows.select(self._columns).to_batches():
                yield self._block(batch)

    def _block(self, batch: pa.RecordBatch) -> _Block:
        rows = row_bytes(batch, self._columns)
        return _Block(rows if self._keys == self._columns else row_bytes(batch, self._keys), rows, batch)

    def _look_twice(self, ranges: npt.NDArray[np.int64], wait: Callable[[], None]) -> "tuple[_RowsApart, _RowsApart]":
        """Return the rows of the ranges that only the lake has, and that only the source has, both times."""
        first = self._apart(ranges)
        if not (first[0].counts or first[1].counts):
            return first
        wait()
        again = self._apart(ranges)
        return again[0].also_in(first[0]), again[1].also_in(first[1])

    def _apart(self, ranges: npt.NDArray[np.int64]) -> "tuple[_RowsApart, _RowsApart]":
        chosen = np.zeros(RANGES, bool)
        chosen[ranges] = True
        lake, source = _RowsApart.read(self._lake(), chosen), _RowsApart.read(self._rows_of_source(), chosen)
        return lake.without(source), source.without(lake)


@dataclass(frozen=True, slots=True)
class _RowsApart:
    """Rows by their bytes, with their number of occurrences and the places of their values."""

    counts: _Counts
    places: Mapping[tuple[bytes, bytes], tuple[pa.RecordBatch, int]]

    @staticmethod
    def read(blocks: Iterable[_Block], chosen: npt.NDArray[np.bool_]) -> "_RowsApart":
        """Read the rows of the chosen ranges."""
        counts: _Counts = Counter()
        places: dict[tuple[bytes, bytes], tuple[pa.RecordBatch, int]] = {}
        for block in blocks:
            numbers = np.flatnonzero(chosen[block.ranges()])
            batch = taken(block.batch, numbers)
            for place, number in enumerate(numbers.tolist()):
                row = (block.keys[number].as_py(), block.rows[number].as_py())
                counts[row] += 1
                places[row] = (batch, place)
        return _RowsApart(counts, places)

    def without(self, other: "_RowsApart") -> "_RowsApart":
        """Return the rows that the other ones lack."""
        return _RowsApart(self.counts - other.counts, self.places)

    def also_in(self, other: "_RowsApart") -> "_RowsApart":
        """Return the rows that are among the other ones as well."""
        return _RowsApart(self.counts & other.counts, self.places)


def _by_key(rows: _RowsApart) -> dict[bytes, list[Row]]:
    """Return the values of the rows, by key."""
    found: dict[bytes, list[Row]] = {}
    for row, count in rows.counts.items():
        batch, place = rows.places[row]
        [values] = python_rows(batch.slice(place, 1))
        found.setdefault(row[0], []).extend([values] * count)
    return found


def row_bytes(batch: pa.RecordBatch, columns: Sequence[str]) -> Array:
    """Return the values of columns of each row as bytes, which differ if a value does."""
    parts: list[Any] = []
    for name in columns:
        text = _as_bytes(batch.column(name))
        # The length before each value separates values, and distinguishes an empty value from null.
        length = pc.cast(pc.cast(pc.binary_length(text), pa.string()), pa.large_binary())
        parts += [length.fill_null(b"-"), text.fill_null(b"")]
    join: Any = pc.binary_join_element_wise
    found: Array = join(*parts, pa.scalar(b":", pa.large_binary()))
    return found


def _as_bytes(column: Any) -> Any:
    if pa.types.is_nested(column.type):
        return pa.array([None if v is None else repr(v).encode() for v in python_values(column)], pa.large_binary())
    if pa.types.is_binary(column.type) or pa.types.is_fixed_size_binary(column.type):
        return column.cast(pa.binary()).cast(pa.large_binary())
    if pa.types.is_large_binary(column.type):
        return column
    return column.cast(pa.large_string()).cast(pa.large_binary())


def _hashes(values: Array) -> npt.NDArray[np.uint64]:
    """Return a hash of each value, which is the same within this process."""
    return np.fromiter(map(hash, values.to_pylist()), np.int64, len(values)).view(np.uint64)


def _portions(ranges: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the ranges in portions of at most ROWS_MOST rows, but at least one range."""
    portion: list[int] = []
    size = 0
    for number in ranges.tolist():
        count = int(counts[number])
        if portion and size + count > ROWS_MOST:
            yield np.array(portion, np.int64)
            portion, size = [], 0
        portion.append(number)
        size += count
    if portion:
        yield np.array(portion, np.int64)
