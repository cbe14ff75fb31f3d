"""Fixed buckets: the assignment of rows to a table's buckets (specification: concepts on data distribution)."""

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from interbed.storage.base.arrow_values import scalar_of, to_numpy
from interbed.storage.base.errors import InvalidInputError, InvalidOptionError, NotSupportedError
from interbed.storage.base.row.words import Column, in_arrow_form, murmur_hash
from interbed.storage.base.types.data_type import DataType, TypeRoot, is_atomic
from interbed.storage.meta.options.core import CoreOptions


class BucketFunction(StrEnum):
    """Values of the option `bucket-function.type`."""

    DEFAULT = "default"
    MOD = "mod"
    HIVE = "hive"


def bucket_function(options: CoreOptions) -> BucketFunction:
    """Return the table's bucket function; raises InvalidOptionError."""
    return options.choice("bucket-function.type", BucketFunction.DEFAULT)


def assign_buckets(
    columns: Sequence[Column],
    types: Sequence[DataType],
    num_buckets: int,
    function: BucketFunction = BucketFunction.DEFAULT,
) -> npt.NDArray[np.int32]:
    """Return the bucket, 0 to num_buckets - 1, of each row of the bucket-key columns.

    Raises InvalidInputError without columns or buckets, InvalidOptionError for `mod` with anything but one INT or
    BIGINT column, NotSupportedError for `hive`.
    """
    if num_buckets < 1:
        raise InvalidInputError(f"Rows can't be spread over {num_buckets} buckets.")
    if not columns:
        raise InvalidInputError("A bucket key needs at least one column.")
    if function is BucketFunction.HIVE:
        raise NotSupportedError("Option 'bucket-function.type' = 'hive' is not supported; use default or mod.")
    if function is BucketFunction.MOD:
        return _modulo(columns, types, num_buckets)
    hashes = murmur_hash(columns, types).astype(np.int64)
    # As in Java, the remainder has the sign of the hash; its absolute value is the bucket.
    return np.abs(np.fmod(hashes, num_buckets)).astype(np.int32)


def _modulo(columns: Sequence[Column], types: Sequence[DataType], num_buckets: int) -> npt.NDArray[np.int32]:
    if len(types) != 1 or not is_atomic(types[0], TypeRoot.INT, TypeRoot.BIGINT):
        raise InvalidOptionError("Option 'bucket-function.type' = 'mod' needs one bucket key of type INT or BIGINT.")
    # A null counts as 0, which is the content of its slot in a BinaryRow.
    column = in_arrow_form(columns[0], types[0])
    values = to_numpy(column.fill_null(scalar_of(0, column.type))).astype(np.int64)
    buckets: npt.NDArray[np.int32] = np.mod(values, num_buckets).astype(np.int32)
    return buckets
