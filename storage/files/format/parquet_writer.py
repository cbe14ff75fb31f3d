"""Writer of Parquet files in Paimon's form.

Physical types as in Paimon's ParquetSchemaConverter: decimals of up to 9 and 18 digits are INT32 and INT64, TIME is
INT32 milliseconds adjusted to UTC, timestamps of more than 6 fractional digits are INT96 and the others annotated
INT64, lists and maps have three levels. Every column carries its field id.

Arrow writes either all timestamps of a file as INT96 or none. A file with both is written with the others as bare
INT64, and the annotation TIMESTAMP is added to the footer before the footer is sent. A footer is the struct
FileMetaData in Thrift's compact protocol (parquet-format, parquet.thrift): field 1 is the version, field 2 the list of
schema elements, depth first. Annotating an element is appending its field 10 (`logicalType`); nothing else in a file
refers to positions inside the footer.

A sample of the first rows decides on the encoding of each column and on the columns that are compressed. Encoding is
over half of the time of a flush, and Parquet's default, a dictionary for every column until it grows too large, takes
twice the time of plain values for columns whose values differ. So columns whose values recur have a dictionary,
ascending integers (keys and sequence numbers) have deltas, all others have plain values. DELTA_BYTE_ARRAY is never
used: Java Paimon 1.4.2 reads zeros for pages of it that span two of its batches. Nor is DELTA_LENGTH_BYTE_ARRAY, of
which Java Paimon takes the length of a value by the position of the value in the batch instead of in the page. Numbers
that hardly shrink when they are compressed (measures, hashes, precise times) stay uncompressed: that costs a few per
cent of space, and saves most of the time of writing and reading them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from interbed.storage.base.arrow_values import to_numpy
from interbed.storage.base.checksums import MAGIC, with_footer_checksum
from interbed.storage.base.types.nested import leaves_of, without_hidden_nulls
from interbed.storage.files.format.api import OpenSink
from interbed.storage.meta.options.core import CoreOptions

_BOOL_TRUE, _BOOL_FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_STOP = 0
_PHYSICAL_TYPE = 1
_LOGICAL_TYPE = 10


@dataclass(frozen=True, slots=True)
class TimestampAnnotation:
    """Annotation of an INT64 column: in milliseconds or microseconds, in UTC or in local time."""

    unit: str
    utc: bool

    def to_bytes(self, last_field: int) -> bytes:
        """Return the field `logicalType`, encoded as the successor of the field `last_field` of a schema element."""
        unit = {"ms": 1, "us": 2}[self.unit]
        return bytes(
            [
                (_LOGICAL_TYPE - last_field) << 4 | _STRUCT,
                8 << 4 | _STRUCT,  # The union's member TIMESTAMP.
                1 << 4 | (_BOOL_TRUE if self.utc else _BOOL_FALSE),
                1 << 4 | _STRUCT,
                unit << 4 | _STRUCT,
                *([_STOP] * 4),  # Ends of the unit's empty struct, the union of units, TimestampType and LogicalType.
            ]
        )


def annotate_timestamps(footer: bytes, annotations: Mapping[int, TimestampAnnotation]) -> bytes:
    """Return the footer with annotations of leaf columns, given by their position among the leaves.

    `footer` is the serialised FileMetaData as Arrow writes it: the version first, then the schema.
    """
    cursor = _Cursor(footer)
    if cursor.byte() != (1 << 4 | _I32):
        raise ValueError("a Parquet footer that does not begin with its version")
    cursor.varint()
    if cursor.byte() != (1 << 4 | _LIST):
        raise ValueError("a Parquet footer whose schema does not follow its version")
    count = cursor.list_size(_STRUCT)
    result = bytearray(footer[: cursor.position])
    leaf = 0
    for _ in range(count):
        start = cursor.position
        last, is_leaf = cursor.skip_struct()
        # The element's last byte ends its struct; the annotation is inserted before it.
        result += footer[start : cursor.position - 1]
        if is_leaf:
            if leaf in annotations:
                result += annotations[leaf].to_bytes(last)
            leaf += 1
        result.append(_STOP)
    return bytes(result) + footer[cursor.position :]


class _Cursor:
    """Position in a buffer of Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def byte(self) -> int:
        value = self.data[self.position]
        self.position += 1
        return value

    def varint(self) -> int:
        value = shift = 0
        while True:
            part = self.byte()
            value |= (part & 0x7F) << shift
            if part < 0x80:
                return value
            shift += 7

    def list_size(self, element: int) -> int:
        head = self.byte()
        if head & 0x0F != element:
            raise ValueError("a Parquet footer whose schema is not a list of structs")
        return self.varint() if head >> 4 == 0x0F else head >> 4

    def skip_struct(self) -> tuple[int, bool]:
        """Move to the end of the struct. Return its last field's number, and whether it has field 1, a leaf's type."""
        last = 0
        is_leaf = False
        while (head := self.byte()) != _STOP:
            delta, kind = head >> 4, head & 0x0F
            if delta == 0:
                # The long form, for numbers that are not slightly greater than the previous number.
                encoded = self.varint()
                last = (encoded >> 1) ^ -(encoded & 1)
            else:
                last += delta
            is_leaf |= last == _PHYSICAL_TYPE
            self._skip(kind)
        return last, is_leaf

    def _skip(self, kind: int) -> None:
        if kind in (_BOOL_TRUE, _BOOL_FALSE):
            return
        if kind == _BYTE:
            self.position += 1
        elif kind in (_I16, _I32, _I64):
            self.varint()
        elif kind == _BINARY:
            length = self.varint()
            self.position += length
        elif kind == _STRUCT:
            self.skip_struct()
        else:
            raise ValueError(f"a Parquet schema element with a field of Thrift's type {kind}")


class ParquetFileWriter:
    """Writer of one Parquet file; each `write` is a row group.

    `schema` is that of the file, with field ids in the metadata of fields. `ascending` names the columns by which the
    file is sorted; a page is closed at `page_rows` rows. ColumnEncodings are chosen by the first batch.
    """

    def __init__(
        self,
        sink: Any,
        schema: pa.Schema,
        options: CoreOptions,
        *,
        codec: str | None,
        page_rows: int = 20_000,
        ascending: frozenset[str] = frozenset(),
    ) -> None:
        self._schema = schema
        self._codec = codec
        self._options = options
        self._page_rows = page_rows
        self._ascending = ascending
        leaves = [leaf for f in schema for leaf in _leaf_types(f.type)]
        self._int96 = any(_is_nanos(leaf) for leaf in leaves)
        self._annotations = {
            index: TimestampAnnotation(leaf.unit, leaf.tz is not None)
            for index, leaf in enumerate(leaves)
            if self._int96 and isinstance(leaf, pa.TimestampType) and not _is_nanos(leaf)
        }
        self._physical = pa.schema([_bare_field(f) for f in schema]) if self._annotations else schema
        self._sink = _FooterSink(sink)
        self._writer: pq.ParquetWriter | None = None

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Append batches as a row group."""
        physical = [self._to_physical(b) for b in batches]
        writer = self._writer or self._open(physical[0])
        rows = sum(b.num_rows for b in physical)
        writer.write_table(pa.Table.from_batches(physical, self._physical), row_group_size=max(rows, 1))

    def position(self) -> int:
        """Return the number of bytes written so far."""
        return int(self._sink.tell())

    def finish(self) -> int:
        """Write the footer, and return the size of the file."""
        writer = self._writer or self._open(pa.RecordBatch.from_pylist([], schema=self._physical))
        self._sink.hold()
        writer.close()
        return self._sink.release(self._annotations)

    def _to_physical(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with the file's schema: ids in the fields, timestamps viewed as integers where needed."""
        # Rows from files mark the fields of null structs as null, which the writer refuses for NOT NULL fields.
        columns = [without_hidden_nulls(c, c.type, f.name) for c, f in zip(batch.columns, self._schema, strict=True)]
        if self._annotations:
            columns = [
                column if column.type.equals(field.type) else column.view(field.type)
                for column, field in zip(columns, self._physical, strict=True)
            ]
        return pa.RecordBatch.from_arrays(columns, schema=self._physical)

    def _open(self, first: pa.RecordBatch) -> pq.ParquetWriter:
        options = self._options
        encodings = choose_encodings(first, self._ascending, dictionary=options.parquet_dictionary, codec=self._codec)
        level = options.parquet_zstd_level
        # The stubs of pyarrow lack some of the writer's arguments.
        make: Any = pq.ParquetWriter
        writer: pq.ParquetWriter = make(
            self._sink,
            self._physical,
            compression=dict(encodings.codecs) or self._codec or "none",
            compression_level={path: level for path, codec in encodings.codecs.items() if codec == "zstd"} or None,
            use_dictionary=list(encodings.dictionary) or False,
            column_encoding=dict(encodings.explicit) or None,
            use_deprecated_int96_timestamps=self._int96,
            store_decimal_as_integer=True,
            write_time_adjusted_to_utc=True,
            store_schema=False,
            write_page_index=True,
            write_page_checksum=True,
            max_rows_per_page=self._page_rows,
            data_page_size=options.parquet_page_size,
            dictionary_pagesize_limit=options.parquet_dictionary_size,
        )
        self._writer = writer
        return writer


class _FooterSink(OpenSink):
    """Sink that can hold back the last bytes, so that the footer is completed before it is written."""

    def __init__(self, sink: Any) -> None:
        super().__init__(sink)
        self._held: bytearray | None = None

    def write(self, data: Any) -> int:
        """Write bytes, or hold them, and return their number."""
        if self._held is None:
            return super().write(data)
        self._held += data
        return len(data)

    def tell(self) -> int:
        """Return the number of bytes written and held so far."""
        return super().tell() + len(self._held or b"")

    def hold(self) -> None:
        """Hold all later bytes instead of writing them."""
        self._held = bytearray()

    def release(self, annotations: dict[int, TimestampAnnotation]) -> int:
        """Write the held bytes, with annotations and a checksum in the footer, and return the size of the file."""
        held = bytes(self._held or b"")
        self._held = None
        if not held.endswith(MAGIC):
            # An encoder writes no footer after a failed write; its caller got the error and cleans up.
            raise OSError("the encoder did not complete the file")
        length = int.from_bytes(held[-8:-4], "little")
        index, footer = held[: -8 - length], held[-8 - length : -8]
        footer = with_footer_checksum(annotate_timestamps(footer, annotations) if annotations else footer, index)
        self._sink.write(index + footer + len(footer).to_bytes(4, "little") + MAGIC)
        return self.tell()


def _is_nanos(arrow: pa.DataType) -> bool:
    return isinstance(arrow, pa.TimestampType) and arrow.unit == "ns"


def _leaf_types(arrow: pa.DataType) -> list[pa.DataType]:
    """Return the types of the leaf columns under a column, in Parquet's order."""
    if isinstance(arrow, pa.MapType):
        return _leaf_types(arrow.key_type) + _leaf_types(arrow.item_type)
    if isinstance(arrow, pa.ListType):
        return _leaf_types(arrow.value_type)
    if isinstance(arrow, pa.StructType):
        return [leaf for f in arrow for leaf in _leaf_types(f.type)]
    return [arrow]


def _bare_field(field: "pa.Field[Any]") -> Any:
    return field.with_type(_bare_type(field.type))


def _bare_type(arrow: pa.DataType) -> pa.DataType:
    """Return the type with all timestamps but those of nanoseconds as plain 64-bit integers."""
    if isinstance(arrow, pa.MapType):
        bare: pa.DataType = pa.map_(_bare_field(arrow.key_field), _bare_field(arrow.item_field))
        return bare
    if isinstance(arrow, pa.ListType):
        return pa.list_(_bare_field(arrow.value_field))
    if isinstance(arrow, pa.StructType):
        return pa.struct([_bare_field(f) for f in arrow])
    if isinstance(arrow, pa.TimestampType) and not _is_nanos(arrow):
        return pa.int64()
    return arrow


# -- encodings ---------------------------------------------------------------------------------------------------------

SAMPLE_ROWS = 4096
DICTIONARY_SHARE = 0.25
"""A dictionary pays when at most this share of the sample's values are distinct."""
COMPRESSED_SHARE = 0.9
"""Numbers stay as they are when they take more than this share of their space after compression."""
_DELTA = "DELTA_BINARY_PACKED"
_NONE = "none"
_PLAIN_BITS = (32, 64)
"""Numbers of other widths have another width in a Parquet file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnEncodings:
    """Paths of the leaf columns (`a`, `a.list.element`) with a dictionary, and encodings of others by path.

    `codecs` has a codec for each leaf column, by path.
    """

    dictionary: Sequence[str]
    explicit: Mapping[str, str]
    codecs: Mapping[str, str]


def choose_encodings(
    sample: pa.RecordBatch, ascending: frozenset[str], *, dictionary: bool = True, codec: str | None = None
) -> ColumnEncodings:
    """Return the encodings for a file that begins with the rows of `sample`, of which only some are used.

    `ascending` names columns by which the file is sorted or that ascend nearly always, `codec` compresses the file.
    """
    rows = sample.num_rows
    if rows > SAMPLE_ROWS:
        # Rows from both ends: the file may be sorted, so neighbours resemble each other.
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
        for path, values in leaves_of(field.name, column):
            recurs = dictionary and _recurs(values)
            if recurs:
                with_dictionary.append(path)
            compresses = codec is not None and (recurs or _compresses(values, codec))
            codecs[path] = codec if compresses and codec is not None else _NONE
    return ColumnEncodings(dictionary=with_dictionary, explicit=explicit, codecs=codecs)


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
    # The stubs of pyarrow take literals only.
    make: Any = pa.Codec
    compressed: bytes = make(codec).compress(numbers.tobytes(), asbytes=True)
    return len(compressed) <= COMPRESSED_SHARE * numbers.nbytes
