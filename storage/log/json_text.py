"""Values as JSON, by column, in the dialect of Flink's formats `json` and `debezium-json`; and back.

| type | JSON |
|---|---|
| numbers, DECIMAL | numbers; values that are no JSON numbers: "NaN", "Infinity", "-Infinity" |
| BINARY, VARBINARY | text in Base64 |
| DATE, TIME, TIMESTAMP | "2024-01-31", "23:59:59.999", "2024-01-31 23:59:59.999999" |
| TIMESTAMP_LTZ | "2024-01-31 23:59:59.999999Z", in UTC |
| ROW, MAP, MULTISET | objects; keys of the latter two are texts, as in Flink |
| ARRAY | arrays |

Texts are read by Arrow's reader, all at once. Texts that it does not support (maps, "NaN") are parsed one by one.
Source: Flink's documentation, connectors/table/formats/debezium and json (timestamp format SQL).
"""

import base64
import io
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.base.decoding import bytes_of_base64
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import (
    BINARIES,
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

Array = Any
"""An Arrow array; its type depends on the column."""

pc: Any = pyarrow.compute
_ListArray: Any = pa.ListArray

_NULL = "null"
_ESCAPED = r'["\\\x00-\x1f]'
"""Characters that JSON escapes in a string."""
_NO_NUMBERS = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}
_FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_TIMES = (TypeRoot.DATE, TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


def first_unwritable(fields: Sequence[DataField]) -> str | None:
    """Return the first column, or part of one, that has no form in JSON; None without any.

    Maps with keys other than texts have none.
    """
    return next((found for f in fields if (found := _unwritable(f.type, f.name)) is not None), None)


def _unwritable(data_type: DataType, place: str) -> str | None:
    match data_type:
        case MapType() | MultisetType():
            key = next(iter(data_type.children()))
            if not is_atomic(key, *STRINGS):
                return f"{place} {data_type}"
        case RowType(fields=fields):
            return next((w for f in fields if (w := _unwritable(f.type, f"{place}.{f.name}")) is not None), None)
    return next((w for child in data_type.children() if (w := _unwritable(child, place)) is not None), None)


# -- to JSON -----------------------------------------------------------------------------------------------------------


def object_texts(columns: Sequence[Array], fields: Sequence[DataField]) -> Array:
    """Return a JSON object for each row of the columns, as strings."""
    parts: list[Any] = []
    for number, (column, field) in enumerate(zip(columns, fields, strict=True)):
        parts += [f"{',' if number else '{'}{json.dumps(field.name)}:", _texts(column, field.type)]
    return pc.binary_join_element_wise(*parts, "}", "") if parts else pa.array([], pa.string())


def _texts(array: Array, data_type: DataType) -> Array:
    """Return the JSON of each value, with `null` for missing ones."""
    return pc.fill_null(_texts_or_null(array, data_type), _NULL)


def _texts_or_null(array: Array, data_type: DataType) -> Array:
    match data_type:
        case RowType(fields=fields):
            return _where_valid(array, object_texts(array.flatten(), fields))
        case ArrayType(element=element):
            compact = _compact(array)
            return _where_valid(array, _joined(compact, _texts(compact.values, element), "[", "]"))
        case MapType() | MultisetType():
            compact = _compact(array)
            value = data_type.value if isinstance(data_type, MapType) else AtomicType(TypeRoot.INT)
            entries = pc.binary_join_element_wise(_quoted(compact.keys), ":", _texts(compact.items, value), "")
            return _where_valid(array, _joined(compact, entries, "{", "}"))
        case AtomicType(root=root):
            return _atomic_texts(array, root)
    raise TypeError(f"{data_type} has no form in JSON.")


def _atomic_texts(array: Array, root: TypeRoot) -> Array:
    if root in STRINGS:
        return _quoted(array)
    if root in BINARIES:
        # Arrow has no Base64, so encode the values one by one.
        return pa.array(
            [None if v is None else f'"{base64.b64encode(v).decode()}"' for v in array.to_pylist()], pa.string()
        )
    if root in _TIMES:
        return pc.binary_join_element_wise('"', _time_texts(array, root), '"', "")
    texts = array.cast(pa.string())
    if root in _FLOATS and not pc.all(pc.is_finite(array), min_count=0).as_py():
        for word, quoted in _NO_NUMBERS.items():
            texts = pc.if_else(pc.equal(texts, word), quoted, texts)
    return texts


def _time_texts(array: Array, root: TypeRoot) -> Array:
    zone = "Z" if root is TypeRoot.TIMESTAMP_LTZ else ""
    if zone:
        array = array.view(pa.timestamp(array.type.unit))
    texts = array.cast(pa.string())
    if root is not TypeRoot.TIME and not pc.all(pc.match_substring_regex(texts, r"^\d{4}-"), min_count=0).as_py():
        # Years without four digits are formatted by numpy, which also reads them.
        numbers = array.cast(pa.int32() if root is TypeRoot.DATE else pa.int64()).fill_null(0).to_numpy()
        unit = "D" if root is TypeRoot.DATE else array.type.unit
        written = np.datetime_as_string(numbers.astype(f"datetime64[{unit}]"))
        texts = pc.if_else(array.is_valid(), pc.replace_substring(pa.array(written), "T", " "), None)
    return pc.binary_join_element_wise(texts, zone, "") if zone else texts


def _quoted(array: Array) -> Array:
    texts = pc.binary_join_element_wise('"', array, '"', "")
    odd = pc.fill_null(pc.match_substring_regex(array, _ESCAPED), False)
    if pc.any(odd, min_count=0).as_py():
        written = [json.dumps(v, ensure_ascii=False) for v in array.filter(odd).to_pylist()]
        texts = pc.replace_with_mask(texts, odd, pa.array(written, pa.string()))
    return texts


def _joined(array: Array, texts: Array, opening: str, closing: str) -> Array:
    """Join the texts of each list's elements between two signs; `texts` has those of all lists in sequence."""
    lists = _ListArray.from_arrays(array.offsets, texts)
    return pc.binary_join_element_wise(opening, pc.binary_join(lists, ","), closing, "")


def _compact(array: Array) -> Array:
    """Copy lists or maps, so that the child arrays hold only the elements of these lists."""
    return array.take(from_numpy(np.arange(len(array))))


def _where_valid(array: Array, texts: Array) -> Array:
    return texts if not array.null_count else pc.if_else(array.is_valid(), texts, None)


# -- from JSON ---------------------------------------------------------------------------------------------------------


class ObjectReader:
    """Reader of JSON objects with some fields, each a row of columns or null."""

    def __init__(self, rows: Mapping[str, Sequence[DataField]], texts: Sequence[str] = ()) -> None:
        """Set the members: `rows` are rows of columns, `texts` are texts."""
        self._rows = {name: tuple(fields) for name, fields in rows.items()}
        wires = [pa.field(name, pa.struct(_wire_fields(fields))) for name, fields in self._rows.items()]
        self._schema = pa.schema([*wires, *(pa.field(name, pa.string()) for name in texts)])
        self._names = frozenset(self._schema.names)
        self._by_arrow = not any(_has_map(f.type) for fields in self._rows.values() for f in fields)

    def read(self, texts: Sequence[bytes]) -> dict[str, Array]:
        """Return the members of each object: a struct array with the columns' own types, or texts.

        Raises ValueError with the reason for a text that is no such object.
        """
        table = self._read_at_once(texts) if self._by_arrow else None
        table = self._read_singly(texts) if table is None else table
        found: dict[str, Array] = {}
        for name in self._schema.names:
            array = table.column(name).combine_chunks()
            fields = self._rows.get(name)
            found[name] = array if fields is None else _read_row(array, fields)
        return found

    def _read_at_once(self, texts: Sequence[bytes]) -> pa.Table | None:
        # Imported on use: only readers of a log need it.
        from pyarrow import json as arrow_json

        # Arrow does not validate its input, so pass it only texts that begin and end as an object.
        if not all(text.startswith(b"{") and text.endswith(b"}") and b"\n" not in text for text in texts):
            return None
        lines = b"\n".join(texts)
        try:
            table = arrow_json.read_json(
                io.BytesIO(lines),
                read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
                parse_options=arrow_json.ParseOptions(explicit_schema=self._schema, unexpected_field_behavior="error"),
            )
        except pa.ArrowInvalid:
            return None
        return table if table.num_rows == len(texts) else None

    def _read_singly(self, texts: Sequence[bytes]) -> pa.Table:
        """Parse each text by itself in Python: Arrow's reader supports neither maps nor "NaN"."""
        columns: dict[str, list[Any]] = {name: [] for name in self._schema.names}
        for text in texts:
            value = json.loads(text, parse_float=Decimal)
            if not isinstance(value, dict) or not value.keys() <= self._names:
                raise ValueError(f"it is no object with {', '.join(sorted(self._names))} alone")
            for name, column in columns.items():
                fields = self._rows.get(name)
                member = value.get(name)
                column.append(member if fields is None or member is None else _plain_row(member, fields))
        try:
            return pa.table(columns, schema=self._schema)
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
            raise ValueError(f"its values are not of the types of its columns: {error}") from error


def _has_map(data_type: DataType) -> bool:
    return isinstance(data_type, MapType | MultisetType) or any(map(_has_map, data_type.children()))


def _wire_fields(fields: Sequence[DataField]) -> "list[pa.Field[Any]]":
    return [pa.field(f.name, _wire(f.type)) for f in fields]


def _wire(data_type: DataType) -> pa.DataType:
    """Return the Arrow type as which values of a type are read from JSON."""
    match data_type:
        case RowType(fields=fields):
            return pa.struct(_wire_fields(fields))
        case ArrayType(element=element):
            return pa.list_(_wire(element))
        case MapType(value=value):
            return pa.map_(pa.string(), _wire(value))
        case MultisetType():
            return pa.map_(pa.string(), pa.int32())
        case AtomicType(root=root) if root in BINARIES or root in _TIMES:
            return pa.string()
    return type_to_arrow(data_type)


def _plain(value: Any, data_type: DataType) -> Any:
    """Return a parsed value as Arrow takes it for its wire type."""
    if value is None:
        return None
    match data_type:
        case RowType(fields=fields):
            return _plain_row(value, fields)
        case ArrayType(element=element):
            return [_plain(each, element) for each in value]
        case MapType(value=inner):
            return [(key, _plain(each, inner)) for key, each in value.items()]
        case MultisetType():
            return list(value.items())
        case AtomicType(root=root) if root in _FLOATS:
            return float(value)
        case AtomicType(root=TypeRoot.DECIMAL):
            return Decimal(value)
    return value


def _plain_row(value: Any, fields: Sequence[DataField]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"it has {value!r:.100} where a row belongs")
    return {f.name: _plain(value.get(f.name), f.type) for f in fields}


def _read_row(array: Array, fields: Sequence[DataField]) -> Array:
    children = [_read(child, f.type) for child, f in zip(array.flatten(), fields, strict=True)]
    mask = array.is_null() if array.null_count else None
    if not children:
        return array
    # Children are nullable: without a row its columns are null, whatever their types admit.
    kinds = [pa.field(f.name, c.type) for f, c in zip(fields, children, strict=True)]
    return pa.StructArray.from_arrays(children, fields=kinds, mask=mask)


def _read(array: Array, data_type: DataType) -> Array:
    """Convert values of a wire type to values of the column's type."""
    match data_type:
        case RowType(fields=fields):
            made = _read_row(array, fields)
            kind: Any = type_to_arrow(data_type)
            return pa.StructArray.from_arrays(
                made.flatten(), fields=list(kind), mask=array.is_null() if array.null_count else None
            )
        case ArrayType(element=element):
            compact = _compact(array)
            return _ListArray.from_arrays(
                compact.offsets,
                _read(compact.values, element),
                type=type_to_arrow(data_type),
                mask=array.is_null() if array.null_count else None,
            )
        case MapType() | MultisetType():
            return _map_of(array, data_type)
        case AtomicType(root=root) if root in BINARIES:
            # Arrow has no Base64, so decode the values one by one.
            return pa.array([None if v is None else bytes_of_base64(v) for v in array.to_pylist()], pa.binary())
        case AtomicType(root=root) if root in _TIMES:
            return _times(array, type_to_arrow(data_type))
    return array


def _map_of(array: Array, data_type: MapType | MultisetType) -> Array:
    kind: Any = type_to_arrow(data_type)
    compact = _compact(array)
    items = _read(compact.items, data_type.value) if isinstance(data_type, MapType) else compact.items
    entries = pa.StructArray.from_arrays([compact.keys, items], fields=[kind.key_field, kind.item_field])
    validity, offsets = compact.buffers()[:2]
    return pa.MapArray.from_buffers(
        kind, len(compact), [validity, offsets], compact.null_count, compact.offset, children=[entries]
    )


def _times(array: Array, kind: Any) -> Array:
    if pa.types.is_time(kind):
        # Arrow can't parse times without a date.
        return pc.binary_join_element_wise("1970-01-01 ", array, "").cast(pa.timestamp("ms")).cast(kind)
    zoned = pa.types.is_timestamp(kind) and kind.tz is not None
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        # These are years without four digits.
        texts = pc.replace_substring(array, "Z", "").fill_null("1970-01-01").to_pylist()
        unit = "D" if pa.types.is_date(kind) else kind.unit
        numbers = np.array(texts, f"datetime64[{unit}]").astype(np.int32 if unit == "D" else np.int64)
        plain = pa.array(numbers, mask=array.is_null().to_numpy(zero_copy_only=False))
        return plain.cast(kind) if unit == "D" or zoned else plain.view(kind)
