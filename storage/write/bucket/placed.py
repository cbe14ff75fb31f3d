"""Rows on their way to buckets: what is known of their places before they are parted."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Ints
from interbed.storage.base.arrow_values import from_numpy, to_numpy
from interbed.storage.base.row.binary_row import encode_rows
from interbed.storage.lsm.write_buffer import Kinds
from interbed.storage.meta.manifest.entry import EMPTY_ROW
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.write.bucket.choose import Numbers


class Placed(NamedTuple):
    """Rows and kinds (None: all are insertions) that are to be written, and each row's bucket if it is known."""

    batch: pa.RecordBatch
    kinds: "Kinds | None"
    buckets: Numbers | None


def distinct_partitions(block: pa.RecordBatch, schema: TableSchema) -> tuple[list[bytes], Ints]:
    """The distinct partitions of the block, and for each row the index of its own."""
    if not schema.partition_keys:
        return [EMPTY_ROW], np.zeros(block.num_rows, np.int64)
    columns = [block.column(name) for name in schema.partition_keys]
    codes = _codes(columns[0])
    for column in columns[1:]:
        further = _codes(column)
        codes = codes * (int(further.max()) + 1) + further
        # Made dense again after each column, so that the product never overflows.
        codes = np.unique(codes, return_inverse=True)[1]
    _, firsts, dense = np.unique(codes, return_index=True, return_inverse=True)
    chosen: Any = from_numpy(firsts)
    return encode_rows([c.take(chosen) for c in columns], schema.partition_types), dense.astype(np.int64)


def _codes(column: "pa.Array[Any]") -> npt.NDArray[np.int64]:
    """A number for each row, equal where the values are; null is a value of its own."""
    encoded = column.dictionary_encode(null_encoding="encode")
    return to_numpy(encoded.indices).astype(np.int64)
