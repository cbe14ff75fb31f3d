"""Reader and writer of Avro data files.

Avro is a row format. Flat rows of files with some blocks are decoded by the column (`base/avro/decode.py`); fastavro
decodes others one by one to Python values, which are collected in batches. fastavro receives files without compression
and logical types, so that numbers stay numbers. A map whose keys are no strings is an array of
records `key`, `value`. A written file is a header with schema and codec, then blocks of whole rows, each compressed by
itself. Source: Avro specification 1.11; Paimon's AvroSchemaConverter.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Context
from io import BytesIO
from itertools import islice
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Positions
from interbed.storage.base.arrow_values import array_of
from interbed.storage.base.avro.codecs import compressor
from interbed.storage.base.avro.decode import Block, FlatDecoder, Values
from interbed.storage.base.avro.encode import encode_rows, record_schema
from interbed.storage.base.avro.records import SYNC_BYTES, PlainBlocks, block_bytes, header_bytes
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.base.types.arrow import timestamp_unit, type_to_arrow
from interbed.storage.base.types.data_type import (
    TIMESTAMPS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    is_atomic,
)
from interbed.storage.base.types.nested import without_hidden_nulls
from interbed.storage.files.format.api import CHECKSUMS, DecodeTally, ReadChecks, data_file_errors
from interbed.storage.io.api import FileIO, prefetch, whole_file
from interbed.storage.meta.options.core import CoreOptions

MAX_BATCH_ROWS = 16_384
"""The greatest batch. Rows are Python objects before they are a batch, so batches are small."""
_WINDOW_BYTES = 4 << 20
"""Decompressed bytes of the blocks that are decoded together."""
_LEAST_BLOCKS = 12
"""Fewer blocks are decoded faster row by row."""
_DECIMAL_BYTES = 16
_EXACT = Context(prec=76)
_MILLIS, _MICROS = "-millis", "-micros"

_Convert = Callable[[Any], Any]
Column = tuple[DataField, Any]
"""A column and its type in the file."""


class AvroReader:
    """FormatReader of Avro files, without state. It skips no rows, because Avro has no statistics.

    Checksums are always verified: the codec verifies its own, and that of the header costs nothing.
    """

    def positioned(
        self,
        path: str,
        fields: Sequence[DataField],
        *,
        file_io: FileIO,
        batch_rows: int,
        predicate: Predicate | None = None,
        wanted: Positions | None = None,
        use_threads: bool = False,
        checks: ReadChecks = CHECKSUMS,
        tally: DecodeTally | None = None,
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Return the rows as for FormatReader.positioned."""
        with data_file_errors(path), file_io.open_input(path) as source:
            prefetch(source, lambda: whole_file(source.size()))
            plain = PlainBlocks(source)
            columns = [(f, plain.field_types[f.name]) for f in fields if f.name in plain.field_types]
            flat = None if plain.is_optional else FlatDecoder.of(plain.field_types)
            position = 0
            for blocks in plain.windows(_WINDOW_BYTES):
                if flat is not None and len(blocks) >= _LEAST_BLOCKS:
                    batches = _flat_batches(flat, blocks, columns, batch_rows)
                else:
                    batches = _row_batches(plain.container(blocks), columns, batch_rows)
                for batch in batches:
                    if tally is not None:
                        tally.add_whole(batch)
                    yield position, batch
                    position += batch.num_rows
            checks.expect_rows(position)


def _flat_batches(
    flat: FlatDecoder, blocks: Sequence[Block], columns: Sequence[Column], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    rows = sum(count for count, _ in blocks)
    found = flat.decode(blocks, [f.name for f, _ in columns])
    arrays = [_flat_column(found[f.name], f.type, _present(schema)) for f, schema in columns]
    whole = _batch(arrays, [f.name for f, _ in columns], rows)
    for start in range(0, rows, batch_rows):
        yield whole.slice(start, batch_rows)


def _row_batches(content: bytes, columns: Sequence[Column], batch_rows: int) -> Iterator[pa.RecordBatch]:
    # Rows by fastavro, because Avro's nested types are not decoded by the column. It decodes all columns faster
    # than a selection of them.
    records: Iterator[Any] = iter(fastavro.reader(BytesIO(content)))
    while rows := list(islice(records, min(batch_rows, MAX_BATCH_ROWS))):
        if None in rows:
            raise ValueError("one of its rows is null")
        arrays = [_column([row[f.name] for row in rows], f.type, schema) for f, schema in columns]
        yield _batch(arrays, [f.name for f, _ in columns], len(rows))


def _batch(arrays: "Sequence[pa.Array[Any]]", names: Sequence[str], rows: int) -> pa.RecordBatch:
    if not names:
        return pa.record_batch([pa.nulls(rows)], names=["rows"]).select([])
    return pa.record_batch(list(arrays), names=list(names))


def _flat_column(values: Values, data_type: DataType, schema: Any) -> "pa.Array[Any]":
    """Return the column of a simple type; `schema` is the file's without null."""
    arrow = type_to_arrow(data_type)
    kind = schema["type"] if isinstance(schema, Mapping) else schema
    if is_atomic(data_type, TypeRoot.DECIMAL):
        return _decimals(values.texts(pa.binary()), arrow)
    if kind in ("string", "bytes"):
        return values.texts(arrow)
    if kind in ("int", "long"):
        numbers: Any = values.integers()
        if isinstance(arrow, pa.TimestampType):
            numbers = _rescaled(numbers, str(arrow.unit), schema)
        numbers = numbers.astype(f"<i{arrow.bit_width // 8}")
    elif kind == "boolean":
        numbers = np.packbits(values.fixed("u1"), bitorder="little")
    else:
        numbers = values.fixed("<f4" if kind == "float" else "<f8")
    return pa.Array.from_buffers(arrow, len(values.starts), [values.validity(), pa.py_buffer(numbers.tobytes())])


def _column(values: list[Any], data_type: DataType, schema: Any) -> "pa.Array[Any]":
    """Return the column of values that fastavro decoded without logical types; `schema` is the file's with them."""
    arrow = type_to_arrow(data_type)
    if is_atomic(data_type, TypeRoot.DECIMAL):
        return _decimals(array_of(values, pa.binary()), arrow)
    convert = _converter(data_type, _present(schema))
    return array_of(values if convert is _same else [convert(v) for v in values], arrow)


def _converter(data_type: DataType, schema: Any) -> _Convert:
    """Return the conversion of fastavro's values of the type to values for Arrow; it passes nulls through."""
    match data_type:
        case ArrayType(element=element):
            inner = _converter(element, _present(schema["items"]))
            return _same if inner is _same else lambda value: None if value is None else [inner(v) for v in value]
        case MapType(key=key, value=item):
            return _map_converter(key, item, schema)
        case MultisetType(element=element):
            return _map_converter(element, AtomicType(TypeRoot.INT), schema)
        case RowType(fields=fields):
            written = {f["name"]: _present(f["type"]) for f in schema["fields"]}
            converters = [(f.name, _converter(f.type, written[f.name])) for f in fields if f.name in written]
            if all(c is _same for _, c in converters):
                return _same
            return lambda value: None if value is None else {n: c(value[n]) for n, c in converters}
        case AtomicType(root=TypeRoot.DECIMAL, scale=scale):
            exponent = -(scale or 0)
            return lambda value: (
                None
                if value is None
                else _EXACT.scaleb(_EXACT.create_decimal(int.from_bytes(value, signed=True)), exponent)
            )
        case AtomicType(precision=precision) if is_atomic(data_type, *TIMESTAMPS):
            return _timestamp_converter(timestamp_unit(precision or 0), schema)
        case _:
            return _same


def _same(value: Any) -> Any:
    return value


def _timestamp_converter(unit: str, schema: Any) -> _Convert:
    if _rescaled(1000, unit, schema) == 1000:
        return _same
    return lambda value: None if value is None else _rescaled(value, unit, schema)


def _rescaled(number: Any, unit: str, schema: Any) -> Any:
    """Return a number, or an array, in the file's unit of time converted to the unit given."""
    kind = schema.get("logicalType", "") if isinstance(schema, Mapping) else ""
    if kind.endswith(_MILLIS) and unit == "us":
        return number * 1000
    if kind.endswith(_MICROS) and unit == "ms":
        return number // 1000
    return number


def _map_converter(key: DataType, item: DataType, schema: Any) -> _Convert:
    if schema["type"] == "map":
        convert = _converter(item, _present(schema["values"]))
        return lambda value: None if value is None else [(k, convert(v)) for k, v in value.items()]
    written = {f["name"]: _present(f["type"]) for f in _present(schema["items"])["fields"]}
    key_of, item_of = _converter(key, written["key"]), _converter(item, written["value"])
    return lambda value: None if value is None else [(key_of(e["key"]), item_of(e["value"])) for e in value]


def _present(schema: Any) -> Any:
    """Return the branch of a union that is not null."""
    return next(s for s in schema if s != "null") if isinstance(schema, list) else schema


def _decimals(values: "pa.Array[Any]", arrow: pa.DataType) -> "pa.Array[Any]":
    """Return big-endian integers of any length up to 16 bytes as decimals."""
    validity, offset_buffer, content = values.buffers()
    rows = len(values)
    if offset_buffer is None or content is None:
        return array_of([None] * rows, arrow)
    offsets = np.frombuffer(memoryview(offset_buffer), np.int32)[: rows + 1]
    data = np.frombuffer(memoryview(content), np.uint8)[: offsets[-1]]
    lengths = np.diff(offsets)
    if len(lengths) and int(lengths.max()) > _DECIMAL_BYTES:
        raise ValueError("a decimal has more than 38 digits")
    wide = np.zeros((rows, _DECIMAL_BYTES), np.uint8)
    filled = lengths > 0
    # Bytes are ordered from the lowest on, so the highest byte of a value is the one at its length.
    wide[filled] = np.where(data[offsets[:-1][filled]] >= 0x80, 0xFF, 0).astype(np.uint8)[:, None]
    row = np.repeat(np.arange(rows), lengths)
    place = np.repeat(offsets[1:], lengths) - 1 - np.arange(len(data))
    wide[row, place] = data
    return pa.Array.from_buffers(arrow, rows, [validity, pa.py_buffer(wide.tobytes())])


BLOCK_BYTES = 16_000
"""Plain bytes at which a block is closed, a quarter of Java's: the reader here decodes many blocks at once."""
_ENCODED_ROWS = 16_384
"""Rows that are encoded at once; encoding takes about ten times their size in memory."""
_ENCODED_BYTES = 4 << 20


class AvroFileWriter:
    """Writer of one Avro file of rows with the columns `fields`; `schema` is their Arrow schema."""

    def __init__(
        self, sink: Any, fields: Sequence[DataField], schema: pa.Schema, options: CoreOptions, *, codec: str | None
    ) -> None:
        self._sink = sink
        self._fields = tuple(fields)
        self._schema = schema
        self._compress = compressor(codec or "null", options.zstd_level)
        self._sync = os.urandom(SYNC_BYTES)
        sink.write(header_bytes(json.dumps(record_schema(fields)), codec or "null", self._sync))

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Append batches as for FileWriter.write."""
        for batch in batches:
            width = max(1, batch.nbytes // max(1, batch.num_rows))
            step = max(1, min(_ENCODED_ROWS, _ENCODED_BYTES // width))
            for start in range(0, batch.num_rows, step):
                self._write_rows(batch.slice(start, step))

    def position(self) -> int:
        """Return the number of bytes written so far."""
        return int(self._sink.tell())

    def finish(self) -> int:
        """Return the size of the file; Avro has no footer."""
        return self.position()

    def _write_rows(self, rows: pa.RecordBatch) -> None:
        for column, field in zip(rows.columns, self._schema, strict=True):
            if not field.nullable and column.null_count:
                # A merge may leave no value of a column; Avro can't represent a null there.
                raise InvalidInputError(
                    f"The column {field.name!r} admits no nulls, but merging left one (did an aggregate retract "
                    "the last value?); make the column nullable."
                )
        columns = [without_hidden_nulls(c, f.type, f.name) for c, f in zip(rows.columns, self._schema, strict=True)]
        encoded = encode_rows(columns, self._fields, rows.num_rows)
        ends = np.cumsum(encoded.lengths)
        row = begin = 0
        while row < rows.num_rows:
            # The last row exceeds the limit, as in Java.
            last = min(int(np.searchsorted(ends, begin + BLOCK_BYTES)) + 1, rows.num_rows)
            end = int(ends[last - 1])
            block = self._compress(encoded.data[begin:end].tobytes())
            self._sink.write(block_bytes(last - row, block, self._sync))
            row, begin = last, end
