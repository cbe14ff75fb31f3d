"""Routing: choosers find the partition and the bucket of each row, by which a batch is split, each part sorted by key.

The choosers here are functions of each row. `DynamicBuckets` (bucket.dynamic) keeps state between rows.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrays import Ints
from interbed.storage.base.arrow_values import from_numpy, to_numpy
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.row.binary_row import encode_rows
from interbed.storage.lsm.key_words import group_ends, sort_groups
from interbed.storage.lsm.write_buffer import SMALL_ROWS, Kinds
from interbed.storage.meta.bucket_function import assign_buckets, bucket_function
from interbed.storage.meta.manifest.entry import EMPTY_ROW
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.table_schema import TableSchema

Numbers: TypeAlias = npt.NDArray[np.signedinteger[Any]]


class PlacedRows(NamedTuple):
    """Rows that are to be written, their kinds (None: all are insertions), and the bucket of each row if it is
    known.
    """

    batch: pa.RecordBatch
    kinds: "Kinds | None"
    buckets: Numbers | None


class BucketChooser(Protocol):
    """Chooser of buckets for blocks of rows, in the order in which they are written."""

    def choose(self, block: pa.RecordBatch, partitions: Sequence[bytes], codes: Numbers) -> Numbers:
        """Return the bucket of each row; `codes` has for each row the index of its partition in `partitions`."""
        ...


class OneBucket:
    """Chooser that puts all rows into the same bucket."""

    def __init__(self, bucket: int) -> None:
        self._bucket = bucket

    def choose(self, block: pa.RecordBatch, partitions: Sequence[bytes], codes: Numbers) -> Numbers:
        return np.full(block.num_rows, self._bucket, np.int64)


class FixedBuckets:
    """Chooser that hashes the bucket key to one of a fixed number of buckets."""

    def __init__(self, schema: TableSchema, options: CoreOptions) -> None:
        self._buckets = options.bucket
        self._function = bucket_function(options)
        fields = schema.fields_named(schema.bucket_keys)
        self._names = [f.name for f in fields]
        self._types = [f.type for f in fields]

    def choose(self, block: pa.RecordBatch, partitions: Sequence[bytes], codes: Numbers) -> Numbers:
        """Return the bucket of each row; raise the errors of assign_buckets."""
        if self._buckets == 1:
            return np.zeros(block.num_rows, np.int64)
        keys = [block.column(name) for name in self._names]
        return assign_buckets(keys, self._types, self._buckets, self._function)


class BucketsByPartition:
    """Chooser that hashes the bucket key to one of the buckets of the partition of the row."""

    def __init__(self, schema: TableSchema, options: CoreOptions, number: Callable[[bytes], int]) -> None:
        self._number = number
        self._function = bucket_function(options)
        fields = schema.fields_named(schema.bucket_keys)
        self._names = [f.name for f in fields]
        self._types = [f.type for f in fields]

    def choose(self, block: pa.RecordBatch, partitions: Sequence[bytes], codes: Numbers) -> Numbers:
        """Return the bucket of each row; raise the errors of assign_buckets."""
        numbers = np.array([self._number(partition) for partition in partitions], np.int64)[codes]
        keys = [block.column(name) for name in self._names]
        chosen = np.zeros(block.num_rows, np.int64)
        # A loop over the different numbers: mostly there is one for all partitions.
        for number in np.unique(numbers[numbers > 1]).tolist():
            rows = numbers == number
            chosen[rows] = assign_buckets(keys, self._types, number, self._function)[rows]
        return chosen


def distinct_partitions(block: pa.RecordBatch, schema: TableSchema) -> tuple[list[bytes], Ints]:
    """Return the distinct partitions of the block, and for each row the index of its partition."""
    if not schema.partition_keys:
        return [EMPTY_ROW], np.zeros(block.num_rows, np.int64)
    columns = [block.column(name) for name in schema.partition_keys]
    codes = _codes(columns[0])
    for column in columns[1:]:
        further = _codes(column)
        codes = codes * (int(further.max()) + 1) + further
        # Compacted after each column, so that the product never overflows.
        codes = np.unique(codes, return_inverse=True)[1]
    _, firsts, dense = np.unique(codes, return_index=True, return_inverse=True)
    chosen: Any = from_numpy(firsts)
    return encode_rows([c.take(chosen) for c in columns], schema.partition_types), dense.astype(np.int64)


def _codes(column: "pa.Array[Any]") -> npt.NDArray[np.int64]:
    """Return a number for each row, equal where the values are equal; null is a value of its own."""
    encoded = column.dictionary_encode(null_encoding="encode")
    return to_numpy(encoded.indices).astype(np.int64)


BLOCK_ROWS = 256 * 1024
"""The number of rows routed at a time: few enough for the caches of the processor, enough to amortise each step."""


class RoutedRows(NamedTuple):
    """Rows of one bucket, sorted by key if the table has keys, otherwise in order of arrival.

    If only the last row of a key counts (`flush_keeps_last`), each key occurs once; otherwise the rows of a key are in
    the order of their age, oldest first.

    `arrived` is the number of rows before duplicates were dropped. `places` are the indices of the rows among them
    (None: 0, 1, 2, …). `kinds` are None when all are insertions.
    """

    bucket_id: BucketId
    batch: pa.RecordBatch
    kinds: "Kinds | None"
    places: Ints | None
    arrived: int


class Router:
    """Splitter of batches with the columns of the table.

    With `in_order` rows with keys stay in order of arrival, too.
    """

    def __init__(
        self, schema: TableSchema, options: CoreOptions, chooser: BucketChooser, *, in_order: bool = False
    ) -> None:
        self._chooser = chooser
        self._schema = schema
        self._keys = () if in_order else schema.trimmed_primary_keys
        self._sequence_fields = options.sequence_fields if self._keys else ()
        self._descending = options.descending_sequence_fields if self._keys else 0
        self._keeps_last = options.flush_keeps_last

    def route(
        self, batch: pa.RecordBatch, kinds: "Kinds | None", buckets: Numbers | None = None
    ) -> Iterator[RoutedRows]:
        """Yield the rows of each bucket, block by block; `buckets` are given if they are chosen already."""
        for offset in range(0, batch.num_rows, BLOCK_ROWS):
            block = batch.slice(offset, BLOCK_ROWS)
            block_kinds = None if kinds is None else kinds.slice(offset, BLOCK_ROWS)
            if block_kinds is not None and pc.max(block_kinds).as_py() == 0:
                block_kinds = None
            block_buckets = None if buckets is None else buckets[offset : offset + BLOCK_ROWS]
            yield from self._route_block(_Rows(block, block_kinds), block_buckets)

    def _route_block(self, block: "_Rows", buckets: Numbers | None) -> Iterator[RoutedRows]:
        partitions, groups = distinct_partitions(block.batch, self._schema)
        if buckets is None:
            buckets = self._chooser.choose(block.batch, partitions, groups)
        # The group of a row: index of its partition * width of the range of buckets + offset of its bucket.
        low = int(buckets.min())
        width = int(buckets.max()) - low + 1
        groups = groups * width + (buckets - low)
        arrival = _by_group(groups, len(partitions) * width)
        order, places = arrival, None
        if self._keys:
            order = self._by_key(block.batch, groups)
            places = np.empty(len(groups), np.int64)
            # Indices count from 0 in each group.
            places[arrival] = np.arange(len(groups)) - np.repeat(_starts(groups[arrival]), _sizes(groups[arrival]))
        sorted_groups = groups[order]
        firsts, sizes = _starts(sorted_groups), _sizes(sorted_groups)
        arrived = _sizes(groups[arrival])
        parts = _gather(block, order, firsts, sizes)
        # A loop over groups, not rows: there are as many as buckets that the block touches.
        for first, size, count, part in zip(firsts.tolist(), sizes.tolist(), arrived.tolist(), parts, strict=True):
            partition, place = divmod(int(sorted_groups[first]), width)
            yield RoutedRows(
                bucket_id=BucketId(partitions[partition], low + place),
                batch=part.batch,
                kinds=part.kinds,
                places=None if places is None else places[order[first : first + size]],
                arrived=count,
            )

    def _by_key(self, block: pa.RecordBatch, groups: Ints) -> Ints:
        """Return the numbers of the rows that are kept, ordered by group and key."""
        codes: pa.Array[Any] = from_numpy(groups)
        keys = [block.column(name) for name in self._keys]
        sequence = [block.column(name) for name in self._sequence_fields]
        order, starts = sort_groups([codes, *keys], sequence, descending_ties=self._descending)
        return order if starts.all() or not self._keeps_last else order.compress(group_ends(starts))


class _Rows(NamedTuple):
    """Rows and their kinds."""

    batch: pa.RecordBatch
    kinds: "Kinds | None"

    def take(self, order: Ints) -> "_Rows":
        """Return rows by number; they are not copied if all are taken in order."""
        if len(order) == self.batch.num_rows and bool((order[1:] > order[:-1]).all()):
            return self
        # Row numbers of 32 bits are gathered faster.
        indices: Any = from_numpy(order.astype(np.uint32))
        return _Rows(self.batch.take(indices), None if self.kinds is None else self.kinds.take(indices))

    def slice(self, offset: int, rows: int) -> "_Rows":
        """Return a range of rows without copying them."""
        return _Rows(self.batch.slice(offset, rows), None if self.kinds is None else self.kinds.slice(offset, rows))


def _gather(block: _Rows, order: Ints, firsts: Ints, sizes: Ints) -> Iterator[_Rows]:
    """Yield the rows of each group: one gather for each large group, so that it owns its memory, and one for all small
    ones.
    """
    is_small = sizes < SMALL_ROWS
    shared = block.take(order[np.repeat(is_small, sizes)])
    position = 0
    for first, size, small in zip(firsts.tolist(), sizes.tolist(), is_small.tolist(), strict=True):
        if small:
            yield shared.slice(position, size)
            position += size
        else:
            yield block.take(order[first : first + size])


def _by_group(groups: Ints, numbers: int) -> Ints:
    """Return row numbers ordered by group, rows of a group by arrival."""
    if numbers == 1:
        return np.arange(len(groups), dtype=np.int64)
    # Numpy sorts 16-bit integers by radix, in a fraction of the time of wider ones.
    return np.argsort(groups.astype(np.uint16) if numbers <= 1 << 16 else groups, kind="stable")


def _starts(sorted_groups: Ints) -> Ints:
    """Return the index of the first row of each group."""
    return np.flatnonzero(np.concatenate(([True], sorted_groups[1:] != sorted_groups[:-1])))


def _sizes(sorted_groups: Ints) -> Ints:
    """Return the number of rows of each group."""
    return np.diff(_starts(sorted_groups), append=len(sorted_groups))
