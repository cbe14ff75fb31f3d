"""Reading Avro data files.

Avro is a row format: fastavro decodes rows one by one to Python values, which are gathered into batches. It is given
the file as if it were not compressed and had no logical types, so that numbers stay numbers: of those, timestamps,
dates, times and decimals are made a column at a time. A map whose keys are no strings is an array of records `key`,
`value`. Source: Avro specification 1.11; Paimon's AvroSchemaConverter.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Context
from itertools import islice
from typing import IO, Any, cast

import fastavro
import numpy as np
import pyarrow as pa

from interbed.storage.fileio.api import FileIO
from interbed.storage.format.api import Positions, data_file_errors
from interbed.storage.format.avro_blocks import PlainBlocks
from interbed.storage.predicate.expr import Predicate
from interbed.storage.types.arrow import timestamp_unit, type_to_arrow
from interbed.storage.types.data_type import (
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

MAX_BATCH_ROWS = 16_384
"""Rows are Python objects before they are a batch, so batches are kept small."""
_DECIMAL_BYTES = 16
_EXACT = Context(prec=76)
_MILLIS, _MICROS = "-millis", "-micros"

_Convert = Callable[[Any], Any]


class AvroReader:
    """FormatReader of Avro files; holds no state. Nothing is skipped, because Avro has no statistics."""

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
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """See FormatReader."""
        with data_file_errors(path), file_io.open_input(path) as source:
            plain = PlainBlocks(source)
            written = plain.field_types
            columns = [(f, written[f.name]) for f in fields if f.name in written]
            # fastavro hands out rows; there is no columnar decoder of Avro's nested types at hand. It decodes all
            # columns faster than it leaves some of them out.
            records: Iterator[Any] = iter(fastavro.reader(cast("IO[bytes]", plain)))
            position = 0
            while rows := list(islice(records, min(batch_rows, MAX_BATCH_ROWS))):
                batch = pa.record_batch([pa.nulls(len(rows))], names=["rows"]).select([])
                if columns:
                    arrays = [_column([row[f.name] for row in rows], f.type, schema) for f, schema in columns]
                    batch = pa.record_batch(arrays, names=[f.name for f, _ in columns])
                yield position, batch
                position += len(rows)


def _column(values: list[Any], data_type: DataType, schema: Any) -> "pa.Array[Any]":
    """The column of values as fastavro decodes them without logical types; `schema` is the file's, with those."""
    arrow = type_to_arrow(data_type)
    if is_atomic(data_type, TypeRoot.DECIMAL):
        return _decimals(pa.array(values, pa.binary()), arrow)
    convert = _converter(data_type, _present(schema))
    return pa.array(values if convert is _same else [convert(v) for v in values], arrow)


def _converter(data_type: DataType, schema: Any) -> _Convert:
    """From what fastavro gives for the type to what Arrow takes; all pass nulls on."""
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
    kind = schema.get("logicalType", "") if isinstance(schema, Mapping) else ""
    if kind.endswith(_MILLIS) and unit == "us":
        return lambda value: None if value is None else value * 1000
    if kind.endswith(_MICROS) and unit == "ms":
        return lambda value: None if value is None else value // 1000
    return _same


def _map_converter(key: DataType, item: DataType, schema: Any) -> _Convert:
    if schema["type"] == "map":
        convert = _converter(item, _present(schema["values"]))
        return lambda value: None if value is None else [(k, convert(v)) for k, v in value.items()]
    written = {f["name"]: _present(f["type"]) for f in _present(schema["items"])["fields"]}
    key_of, item_of = _converter(key, written["key"]), _converter(item, written["value"])
    return lambda value: None if value is None else [(key_of(e["key"]), item_of(e["value"])) for e in value]


def _present(schema: Any) -> Any:
    """The branch of a union that is no null."""
    return next(s for s in schema if s != "null") if isinstance(schema, list) else schema


def _decimals(values: "pa.Array[Any]", arrow: pa.DataType) -> "pa.Array[Any]":
    """Big-endian integers of any length up to 16 bytes as decimals."""
    validity, offset_buffer, content = values.buffers()
    rows = len(values)
    if offset_buffer is None or content is None:
        return pa.array([None] * rows, arrow)
    offsets = np.frombuffer(memoryview(offset_buffer), np.int32)[: rows + 1]
    data = np.frombuffer(memoryview(content), np.uint8)[: offsets[-1]]
    lengths = np.diff(offsets)
    if len(lengths) and int(lengths.max()) > _DECIMAL_BYTES:
        raise ValueError("a decimal has more than 38 digits")
    wide = np.zeros((rows, _DECIMAL_BYTES), np.uint8)
    filled = lengths > 0
    # Bytes stand from the least on, so the greatest of a value is the one at its own length.
    wide[filled] = np.where(data[offsets[:-1][filled]] >= 0x80, 0xFF, 0).astype(np.uint8)[:, None]
    row = np.repeat(np.arange(rows), lengths)
    place = np.repeat(offsets[1:], lengths) - 1 - np.arange(len(data))
    wide[row, place] = data
    return pa.Array.from_buffers(arrow, rows, [validity, pa.py_buffer(wide.tobytes())])
