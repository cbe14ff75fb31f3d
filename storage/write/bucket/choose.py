"""Choosers of buckets for rows that are written, and the partitions of rows.

The choosers here are functions of each row. `DynamicBuckets` (bucket.dynamic) keeps state between rows.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Ints
from interbed.storage.base.arrow_values import from_numpy, to_numpy
from interbed.storage.base.row.binary_row import encode_rows
from interbed.storage.lsm.write_buffer import Kinds
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
