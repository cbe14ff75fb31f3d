"""Which encoding each column of a Parquet file gets, and which columns are not worth compressing.

Encoding is over half of the time of a flush, and Parquet's default, a dictionary for every column until it grows too
large, takes twice the time of plain values for columns whose values differ. So a sample of the first rows decides:
a dictionary where values recur, deltas for integers that ascend (keys and sequence numbers), plain values otherwise.
DELTA_BYTE_ARRAY is never used: Java Paimon 1.4.2 reads zeros for pages of it that span two of its batches. Nor is
DELTA_LENGTH_BYTE_ARRAY, of which it takes a value's length by the value's place in the batch instead of the page.

The same sample shows which numbers hardly shrink when they are compressed (measures, hashes, times of much precision).
They are left as they are: that costs a few per cent of space, and saves most of the time of writing and reading them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrow_values import to_numpy

SAMPLE_ROWS = 4096
DICTIONARY_SHARE = 0.25
"""A dictionary pays when at most this share of the sample's values are distinct."""
COMPRESSED_SHARE = 0.9
"""Numbers stay as they are when they take more than this share of their space after compression."""
_DELTA = "DELTA_BINARY_PACKED"
_NONE = "none"
_PLAIN_BITS = (32, 64)
"""Numbers of other widths look different in a Parquet file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encodings:
    """Paths of the leaf columns (`a`, `a.list.element`) with a dictionary, and encodings of others by path.

    `codecs` has a codec for each leaf column, by path.
    """

    dictionary: Sequence[str]
    explicit: Mapping[str, str]
    codecs: Mapping[str, str]


def choose_encodings(
    sample: pa.RecordBatch, ascending: frozenset[str], *, dictionary: bool = True, codec: str | None = None
) -> Encodings:
    """The encodings for a file that begins with the rows of `sample` (only some of them are looked at).

    `ascending` names columns by which the file is sorted or that ascend nearly always, `codec` compresses the file.
    """
    rows = sample.num_rows
    if rows > SAMPLE_ROWS:
        # Rows from both ends: the file may be sorted, so that neighbours resemble each other.
        half = SAMPLE_ROWS // 2
        parts = [sample.slice(0, half), sample.slice(rows - half, half)]
    else:
        parts = [sample]
    with_dictionary: list[str] = []
    explicit: dict[str, str] = {}
    codecs: dict[str, str] = {}
    for index, field in enumerate(sample.schema):
        if field.name in ascending and _is_delta_type(field.type):
            explicit[field.name] = _DELTA
            codecs[field.name] = codec or _NONE
            continue
        column = pa.chunked_array([p.column(index) for p in parts], field.type).combine_chunks()
        for path, values in leaves(field.name, column):
            recurs = dictionary and _recurs(values)
            if recurs:
                with_dictionary.append(path)
            compresses = codec is not None and (recurs or _compresses(values, codec))
            codecs[path] = codec if compresses and codec is not None else _NONE
    return Encodings(dictionary=with_dictionary, explicit=explicit, codecs=codecs)


def _is_delta_type(arrow: pa.DataType) -> bool:
    # 8 and 16 bits are INT32 in Parquet, too; nanoseconds become INT96, which has no deltas.
    if isinstance(arrow, pa.TimestampType):
        return str(arrow.unit) != "ns"
    return bool(pa.types.is_signed_integer(arrow) or pa.types.is_date32(arrow) or pa.types.is_time32(arrow))


def _recurs(values: "pa.Array[Any]") -> bool:
    if pa.types.is_boolean(values.type) or pa.types.is_null(values.type):
        return False
    present = len(values) - values.null_count
    distinct = int(pc.count_distinct(values).as_py())
    return 0 < distinct <= max(1, int(present * DICTIONARY_SHARE))


def _compresses(values: "pa.Array[Any]", codec: str) -> bool:
    kind = values.type
    nanos = isinstance(kind, pa.TimestampType) and kind.unit == "ns"
    if (
        not pa.types.is_primitive(kind)
        or kind.bit_width not in _PLAIN_BITS
        or nanos
        or values.null_count == len(values)
    ):
        return True
    integers: Any = values.drop_null().view(pa.int32() if kind.bit_width == 32 else pa.int64())
    numbers: npt.NDArray[Any] = to_numpy(integers)
    # The stubs take literals only.
    make: Any = pa.Codec
    compressed: bytes = make(codec).compress(numbers.tobytes(), asbytes=True)
    return len(compressed) <= COMPRESSED_SHARE * numbers.nbytes


def leaves(path: str, array: "pa.Array[Any]") -> Iterator[tuple[str, "pa.Array[Any]"]]:
    """The leaf columns under a column, with Parquet's names for the levels between."""
    if isinstance(array, pa.MapArray):
        yield from leaves(f"{path}.key_value.key", array.keys)
        yield from leaves(f"{path}.key_value.value", array.items)
    elif isinstance(array, pa.ListArray):
        yield from leaves(f"{path}.list.element", array.flatten())
    elif isinstance(array, pa.StructArray):
        for index, field in enumerate(array.type):
            yield from leaves(f"{path}.{field.name}", array.field(index))
    else:
        yield path, array
