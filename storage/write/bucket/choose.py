"""What picks the buckets of rows that are written: a function of each row, or of all rows before it.

`DynamicBuckets` (bucket.dynamic) is the chooser with a memory; those here have none.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.meta.bucket_function import assign_buckets, bucket_function
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.table_schema import TableSchema

Numbers: TypeAlias = npt.NDArray[np.signedinteger[Any]]


class BucketChooser(Protocol):
    """Picks buckets for blocks of rows, in the order in which they are written."""

    def choose(self, block: pa.RecordBatch, partitions: Sequence[bytes], codes: Numbers) -> Numbers:
        """The bucket of each row; `codes` says for each row the index of its partition in `partitions`."""
        ...


class OneBucket:
    """All rows go to the same bucket."""

    def __init__(self, bucket: int) -> None:
        self._bucket = bucket

    def choose(self, block: pa.RecordBatch, partitions: Sequence[bytes], codes: Numbers) -> Numbers:
        """See BucketChooser."""
        return np.full(block.num_rows, self._bucket, np.int64)


class FixedBuckets:
    """A hash of the bucket key picks one of a fixed number of buckets."""

    def __init__(self, schema: TableSchema, options: CoreOptions) -> None:
        self._buckets = options.bucket
        self._function = bucket_function(options)
        fields = schema.fields_named(schema.bucket_keys)
        self._names = [f.name for f in fields]
        self._types = [f.type for f in fields]

    def choose(self, block: pa.RecordBatch, partitions: Sequence[bytes], codes: Numbers) -> Numbers:
        """See BucketChooser; raises what assign_buckets raises."""
        if self._buckets == 1:
            return np.zeros(block.num_rows, np.int64)
        keys = [block.column(name) for name in self._names]
        return assign_buckets(keys, self._types, self._buckets, self._function)


class BucketsByPartition:
    """A hash of the bucket key picks one of as many buckets as the row's partition has."""

    def __init__(self, schema: TableSchema, options: CoreOptions, number: Callable[[bytes], int]) -> None:
        self._number = number
        self._function = bucket_function(options)
        fields = schema.fields_named(schema.bucket_keys)
        self._names = [f.name for f in fields]
        self._types = [f.type for f in fields]

    def choose(self, block: pa.RecordBatch, partitions: Sequence[bytes], codes: Numbers) -> Numbers:
        """See BucketChooser; raises what assign_buckets raises."""
        numbers = np.array([self._number(partition) for partition in partitions], np.int64)[codes]
        keys = [block.column(name) for name in self._names]
        chosen = np.zeros(block.num_rows, np.int64)
        # A loop over the different numbers: mostly there is one for all partitions.
        for number in np.unique(numbers[numbers > 1]).tolist():
            rows = numbers == number
            chosen[rows] = assign_buckets(keys, self._types, number, self._function)[rows]
        return chosen
