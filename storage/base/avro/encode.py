"""Encoder of Arrow rows to Avro: the schema of a data file with Paimon's names, and the rows column by column.

In the schema a nullable type is a union with null first and a default of null. Records inside of others are named after
the fields that lead to them. A map whose keys are no strings is an array of records `key`, `value`, of the logical type
`map`. TIMESTAMP is `timestamp-millis` or `-micros`, with local time zone `local-timestamp-…` (Paimon has the two
swapped); TINYINT and SMALLINT are int. Source: Paimon's AvroSchemaConverter.

An Avro row is the bytes of its fields one after the other, each of a length of its own. Every leaf column is encoded at
once into the bytes of its values and their lengths; then the bytes of each column are moved to their places in the
rows. Integers are zigzag numbers of 7 bits a byte, lowest first; text has its length before it; a nullable value has
the index of its branch before it; lists and maps are a block of a count and the items, closed by a block of none.
Source: Avro specification 1.11, binary encoding.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Bytes, Mask
from interbed.storage.base.arrow_values import array_of, to_numpy
from interbed.storage.base.avro.records import RECORD
from interbed.storage.base.types.data_type import (
    STRINGS,
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

MULTISET_COUNT = AtomicType(TypeRoot.INT)
"""The type of the counts of a multiset, which admit nulls in Avro files."""
_PLAIN: Mapping[TypeRoot, str] = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "int",
    TypeRoot.SMALLINT: "int",
    TypeRoot.INT: "int",
    TypeRoot.BIGINT: "long",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.CHAR: "string",
    TypeRoot.VARCHAR: "string",
    TypeRoot.BINARY: "bytes",
    TypeRoot.VARBINARY: "bytes",
}


def record_schema(fields: Sequence[DataField], name: str = RECORD) -> dict[str, Any]:
    """Return the schema of rows with these columns."""
    return {"type": "record", "name": name, "fields": [_field(f.name, f.type, f"{name}_{f.name}") for f in fields]}


def is_string_map(data_type: MapType | MultisetType) -> bool:
    """Return whether the map is a map in Avro, too, instead of an array of entries."""
    key = data_type.key if isinstance(data_type, MapType) else data_type.element
    return is_atomic(key, *STRINGS)


def _field(name: str, data_type: DataType, record: str) -> dict[str, Any]:
    field: dict[str, Any] = {"name": name, "type": _schema(data_type, record)}
    return field | {"default": None} if data_type.nullable else field


def _schema(data_type: DataType, record: str) -> Any:
    plain = _not_null_schema(data_type, record)
    return ["null", plain] if data_type.nullable else plain


def _not_null_schema(data_type: DataType, record: str) -> Any:
    match data_type:
        case AtomicType():
            return _atomic(data_type)
        case ArrayType(element=element):
            return {"type": "array", "items": _schema(element, record)}
        case MapType(key=key, value=value):
            return _map(data_type, key, value, record)
        case MultisetType(element=element):
            return _map(data_type, element, MULTISET_COUNT, record)
        case RowType(fields=fields):
            return record_schema(fields, record)
        case _:
            raise TypeError(f"No Avro schema for {data_type}.")


def _map(data_type: MapType | MultisetType, key: DataType, value: DataType, record: str) -> Any:
    if is_string_map(data_type):
        return {"type": "map", "values": _schema(value, record)}
    fields = [
        {"name": "key", "type": _schema(key, f"{record}_key")},
        _field("value", value, f"{record}_value"),
    ]
    return {"type": "array", "items": {"type": "record", "name": record, "fields": fields}, "logicalType": "map"}


def _atomic(data_type: AtomicType) -> Any:
    digits = "millis" if (data_type.precision or 0) <= 3 else "micros"
    match data_type.root:
        case TypeRoot.TIMESTAMP:
            return {"type": "long", "logicalType": f"timestamp-{digits}"}
        case TypeRoot.TIMESTAMP_LTZ:
            return {"type": "long", "logicalType": f"local-timestamp-{digits}"}
        case TypeRoot.DATE:
            return {"type": "int", "logicalType": "date"}
        case TypeRoot.TIME:
            return {"type": "int", "logicalType": "time-millis"}
        case TypeRoot.DECIMAL:
            scale = data_type.scale or 0
            return {"type": "bytes", "logicalType": "decimal", "precision": data_type.precision, "scale": scale}
        case root:
            return _PLAIN[root]


Lengths = npt.NDArray[np.int64]

_IS_NULL, _IS_VALUE = 0, 2
"""Branches 0 and 1 of a union, as zigzag numbers."""
_DECIMAL_BYTES = 16


@dataclass(frozen=True, slots=True)
class EncodedColumn:
    """EncodedColumn values of a column, one after the other, and the number of bytes of each value."""

    lengths: Lengths
    data: Bytes

    def spread(self, present: Mask) -> "EncodedColumn":
        """Return the same bytes for more values, of which the absent ones have no bytes."""
        lengths = np.zeros(len(present), np.int64)
        lengths[present] = self.lengths
        return EncodedColumn(lengths, self.data)


def encode_rows(columns: "Sequence[pa.Array[Any]]", fields: Sequence[DataField], rows: int) -> EncodedColumn:
    """Return the rows of these columns, which have the fields' types, in Avro's encoding."""
    parts = [part for column, f in zip(columns, fields, strict=True) for part in _encode(column, f.type)]
    return _interleave(parts, rows)


def _interleave(parts: Sequence[EncodedColumn], rows: int) -> EncodedColumn:
    """Return the bytes of all parts of each row, in order."""
    lengths = np.zeros(rows, np.int64)
    for part in parts:
        lengths += part.lengths
    ends = np.cumsum(lengths)
    places = ends - lengths
    data = np.empty(int(ends[-1]) if rows else 0, np.uint8)
    for part in parts:
        size = len(part.data)
        if size == rows and part.lengths.all():
            data[places] = part.data
        elif size:
            own = np.cumsum(part.lengths) - part.lengths
            data[np.repeat(places - own, part.lengths) + np.arange(size)] = part.data
        places += part.lengths
    return EncodedColumn(lengths, data)


def _encode(values: "pa.Array[Any]", data_type: DataType) -> list[EncodedColumn]:
    """Return the parts of each value, including the branch of a union."""
    if not data_type.nullable:
        return _encode_present(values, data_type)
    if not values.null_count:
        branch = _fixed(np.full(len(values), _IS_VALUE, np.uint8), 1)
        return [branch, *_encode_present(values, data_type)]
    present = to_numpy(values.is_valid())
    branch = _fixed(np.where(present, _IS_VALUE, _IS_NULL).astype(np.uint8), 1)
    return [branch, *(part.spread(present) for part in _encode_present(values.drop_null(), data_type))]


def _encode_present(values: "pa.Array[Any]", data_type: DataType) -> list[EncodedColumn]:
    match data_type:
        case AtomicType():
            return _encode_atomic(values, data_type)
        case RowType(fields=fields):
            assert isinstance(values, pa.StructArray)
            return [part for i, f in enumerate(fields) for part in _encode(values.field(i), f.type)]
        case ArrayType(element=element):
            assert isinstance(values, pa.ListArray)
            return _encode_items(values, [(values.values, element)])
        case MapType(key=key, value=value):
            return _encode_map(values, key, value)
        case MultisetType(element=element):
            return _encode_map(values, element, MULTISET_COUNT)
        case _:
            raise TypeError(f"No Avro encoding for {data_type}.")


def _encode_map(values: "pa.Array[Any]", key: DataType, value: DataType) -> list[EncodedColumn]:
    assert isinstance(values, pa.MapArray)
    if isinstance(key, AtomicType) and key.root in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        # The keys of Avro's own maps are never null.
        key = key.with_nullable(False)
    return _encode_items(values, [(values.keys, key), (values.items, value)])


def _encode_items(
    values: "pa.ListArray[Any] | pa.MapArray[Any, Any]", children: "Sequence[tuple[pa.Array[Any], DataType]]"
) -> list[EncodedColumn]:
    offsets: Lengths = to_numpy(values.offsets).astype(np.int64)
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    parts = [part for child, of in children for part in _encode(child.slice(first, count), of)]
    items = _interleave(parts, count)
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(items.lengths)))[offsets - first]
    counts = np.diff(offsets)
    filled = counts > 0
    return [
        _varints(counts[filled]).spread(filled),
        EncodedColumn(np.diff(ends), items.data),
        _fixed(np.zeros(len(values), np.uint8), 1),
    ]


def _encode_atomic(values: "pa.Array[Any]", data_type: AtomicType) -> list[EncodedColumn]:
    match data_type.root:
        case TypeRoot.BOOLEAN:
            return [_fixed(to_numpy(values).astype(np.uint8), 1)]
        case TypeRoot.FLOAT:
            return [_fixed(to_numpy(values).astype("<f4"), 4)]
        case TypeRoot.DOUBLE:
            return [_fixed(to_numpy(values).astype("<f8"), 8)]
        case TypeRoot.CHAR | TypeRoot.VARCHAR | TypeRoot.BINARY | TypeRoot.VARBINARY:
            return _texts(values)
        case TypeRoot.DECIMAL:
            return _decimals(values)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return [_varints(to_numpy(values.view(pa.int64())))]
        case TypeRoot.DATE | TypeRoot.TIME:
            return [_varints(to_numpy(values.view(pa.int32())))]
        case _:
            return [_varints(to_numpy(values))]


def _fixed(values: "npt.NDArray[Any]", width: int) -> EncodedColumn:
    return EncodedColumn(np.full(len(values), width, np.int64), values.view(np.uint8))


def _varints(values: "npt.NDArray[Any]") -> EncodedColumn:
    wide = values.astype(np.int64)
    zigzag = ((wide << 1) ^ (wide >> 63)).view(np.uint64)
    lengths = np.ones(len(zigzag), np.int64)
    most = int(zigzag.max()) if len(zigzag) else 0
    shift = 7
    while most >> shift:
        lengths += zigzag >= np.uint64(1 << shift)
        shift += 7
    if shift == 7:
        return EncodedColumn(lengths, zigzag.astype(np.uint8))
    ends = np.cumsum(lengths)
    data = np.empty(int(ends[-1]), np.uint8)
    places = ends - lengths
    for k in range(shift // 7):
        if k:
            longer = np.flatnonzero(lengths > k)
            zigzag, places, lengths = zigzag[longer], places[longer], lengths[longer]
        seven = (zigzag >> np.uint64(7 * k)).astype(np.uint8) & np.uint8(0x7F)
        data[places + k] = seven | ((lengths > k + 1).astype(np.uint8) << 7)
    return EncodedColumn(np.diff(ends, prepend=0), data)


def _texts(values: "pa.Array[Any]") -> list[EncodedColumn]:
    """Encode strings or binaries: their lengths, and their bytes."""
    plain = values.view(pa.binary()) if pa.types.is_string(values.type) else values
    _, offset_buffer, content = plain.buffers()
    if offset_buffer is None or not len(plain):
        return [
            _varints(np.zeros(len(plain), np.int64)),
            _fixed(np.empty(0, np.uint8), 1).spread(np.zeros(len(plain), bool)),
        ]
    offsets = np.frombuffer(memoryview(offset_buffer), np.int32)[plain.offset : plain.offset + len(plain) + 1]
    lengths = np.diff(offsets).astype(np.int64)
    data = (
        np.empty(0, np.uint8)
        if content is None
        else np.frombuffer(memoryview(content), np.uint8)[offsets[0] : offsets[-1]]
    )
    return [_varints(lengths), EncodedColumn(lengths, data)]


def _decimals(values: "pa.Array[Any]") -> list[EncodedColumn]:
    """Encode unscaled integers as big-endian bytes, as few as keep the sign."""
    _, buffer = values.buffers()
    rows = len(values)
    if buffer is None or not rows:
        return _texts(array_of([], pa.binary()))
    every = np.frombuffer(memoryview(buffer), np.uint8).reshape(-1, _DECIMAL_BYTES)[
        values.offset : values.offset + rows, ::-1
    ]
    negative = every[:, 0] >= 0x80
    fill = np.where(negative, 0xFF, 0).astype(np.uint8)
    needless = np.ones(rows, bool)
    dropped = np.zeros(rows, np.int64)
    for k in range(_DECIMAL_BYTES - 1):
        # A leading byte is redundant when it only repeats the sign of the next byte.
        needless &= (every[:, k] == fill) & ((every[:, k + 1] >= 0x80) == negative)
        if not needless.any():
            break
        dropped += needless
    lengths = _DECIMAL_BYTES - dropped
    data = every[np.arange(_DECIMAL_BYTES) >= dropped[:, None]]
    return [_varints(lengths), EncodedColumn(lengths, data)]
