"""JSON of Kafka Connect's converter: envelopes {"schema":{…},"payload":{…}}, and their schemas as Arrow types.

A topic has few schemas, and the schema is the same bytes at the beginning of many messages. So `EnvelopeReader`
compares these bytes, cuts them off, and parses each schema once. A schema is {"type": "int32", "optional": true,
"name": "io.debezium.time.Date", "parameters": {…}, "field": "day"}; structs have `fields`, arrays `items`. The name
defines the meaning of the value. These names of Debezium and Connect are known:

| name | JSON | column |
|---|---|---|
| …time.Date, Connect's Date | days | DATE |
| …time.Timestamp, Connect's Timestamp | milliseconds | TIMESTAMP(3) |
| …time.MicroTimestamp, NanoTimestamp | micro-, nanoseconds | TIMESTAMP(6), TIMESTAMP(9) |
| …time.ZonedTimestamp | ISO 8601 with an offset | TIMESTAMP_LTZ(6) |
| …time.Time, Connect's Time | milliseconds | TIME(3) |
| …time.MicroTime, NanoTime | micro-, nanoseconds | STRING, 10:20:30.123456: Paimon's TIME has milliseconds |
| Connect's Decimal | base64, big-endian | DECIMAL; STRING where it has more than 38 digits |
| …data.VariableScaleDecimal | scale and base64 | STRING |

A value with another name is not converted. Bytes are base64 in JSON. Binary encodings have the same schemas, and their
bytes are plain. Sources: Debezium's documentation, "Data type mappings" of its connectors; Kafka's `JsonConverter`.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import BadMessage
from interbed.ingest.formats.arrays import Array, Indices, Mask, check_not_lost, kept, mask_of, taken, true_of, valid
from interbed.ingest.formats.json_objects import json_text, parsed_object
from interbed.storage.base.decoding import bytes_of_base64
from interbed.storage.base.errors import NotSupportedError

Known = TypeVar("Known")

_BEGIN, _BETWEEN, _END = '{"schema":', ',"payload":', "}"
_ANYHOW_WRITTEN = r'^\s*\{\s*"(schema|payload)"\s*:'
_BLANKS = r'^\{"schema":\s|,\s+"payload"|"payload"\s+:|"payload":\s'
"""Blanks where the converter writes none, or a text within the payload that looks like such blanks."""
_PREFIXES_MOST = 1000
_DECODER = json.JSONDecoder()


Convert: TypeAlias = Callable[[Array], Array]


_PLAIN: Mapping[str, pa.DataType] = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "float32": pa.float32(),
    "double": pa.float64(),
    "float64": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
}


_UNZONED = (
    ("(?i)inf", "an infinite time cannot be stored in a table. Replace it by a far date at the source"),
    (r"^[-+]|^[0-9]{5,}-|BC$", "it is outside of the years 1 to 9999"),
    (
        r"\.[0-9]{7,}",
        "it has more than six digits after the second, and TIMESTAMP_LTZ(6) has six. Round it at the source",
    ),
    (r"[0-9]$", "it has no offset from UTC"),
)
"""Patterns of texts that are no TIMESTAMP_LTZ(6), and the reasons."""


_MOST_DIGITS = 38

_SOURCE_TYPE = "__debezium.source.column.type"
"""Parameter with the type at the source, which Debezium's `column.propagate.source.type` adds."""


_DECIMAL_BYTES = 16


class EnvelopeReader(Generic[Known]):
    """Extracts payloads from messages; `understand` converts each distinct schema once."""

    def __init__(self, understand: Callable[[dict[str, Any]], Known]) -> None:
        self._understand = understand
        self._known: dict[bytes, Known | None] = {}

    def opened(
        self, index: Indices, texts: Array, bad: list[BadMessage]
    ) -> Iterator[tuple[Known | None, Indices, Array]]:
        """Yield the payloads of the messages by schema, None for messages without one. `index` are the messages'
        numbers, in order.

        Messages without a schema, bare or with a null for it, are yielded once, in order: their columns are guessed
        from the earlier ones. Null payloads are left out. Messages that are no JSON are added to `bad`.
        """
        texts = self._written_alike(texts)
        within = _starts_with(texts, _BEGIN.encode())
        without: list[tuple[Indices, Array]] = []
        if not within.all():
            without.append((index[~within], kept(texts, ~within)))
            index, texts = index[within], kept(texts, within)
        for known, numbers, payloads in self._by_schema(index, texts, bad):
            if known is None:
                without.append((numbers, payloads))
            else:
                yield known, numbers, payloads
        if without:
            yield None, *_merged(without)

    def _by_schema(
        self, index: Indices, texts: Array, bad: list[BadMessage]
    ) -> Iterator[tuple[Known | None, Indices, Array]]:
        """Yield the payloads of envelopes by the bytes of their schemas."""
        for prefix in list(self._known):
            same = _starts_with(texts, prefix)
            if same.any():
                yield self._payloads(prefix, index[same], kept(texts, same))
                index, texts = index[~same], kept(texts, ~same)
        while len(index):
            try:
                prefix = self._learned(texts[0].as_py())
            except ValueError as error:
                bad.append(BadMessage(int(index[0]), f"it is no JSON: {error}"))
                index, texts = index[1:], texts.slice(1)
                continue
            same = _starts_with(texts, prefix)
            yield self._payloads(prefix, index[same], kept(texts, same))
            index, texts = index[~same], kept(texts, ~same)

    def _payloads(self, prefix: bytes, index: Indices, texts: Array) -> tuple[Known | None, Indices, Array]:
        payloads: Any = pc.binary_slice(texts, len(prefix), -len(_END))
        present = mask_of(pc.not_equal(payloads, pa.scalar(b"null", pa.binary())))
        return self._known[prefix], index[present], kept(payloads, present)

    def _learned(self, text: bytes) -> bytes:
        """Return the bytes of a message up to its payload, and remember its schema. Raises ValueError for invalid
        JSON.
        """
        decoded = text.decode()
        schema, end = _DECODER.raw_decode(decoded, len(_BEGIN))
        if not decoded.startswith(_BETWEEN, end) or not decoded.endswith(_END):
            raise ValueError("the payload does not follow the schema")
        if schema is not None and not isinstance(schema, dict):
            raise ValueError("the schema is no object")
        prefix = decoded[: end + len(_BETWEEN)].encode()
        if len(self._known) >= _PREFIXES_MOST:
            self._known.clear()
        self._known[prefix] = None if schema is None else self._understand(schema)
        return prefix

    def _written_alike(self, texts: Array) -> Array:
        """Return the messages, with envelopes in the spelling of the converter."""
        ends = mask_of(pc.ends_with(texts, _END))
        odd = mask_of(pc.match_substring_regex(texts, _ANYHOW_WRITTEN))
        if odd.any():
            odd &= ~(_starts_with(texts, _BEGIN.encode()) & ends) | mask_of(pc.match_substring_regex(texts, _BLANKS))
        if not odd.any():
            return texts
        values: list[Any] = texts.to_pylist()
        for i in np.flatnonzero(odd):
            try:
                value = parsed_object(values[i])
            except ValueError:
                # The reader of the message reports it as bad.
                continue
            schema, payload = json_text(value.get("schema")), json_text(value.get("payload"))
            values[i] = f"{_BEGIN}{schema}{_BETWEEN}{payload}{_END}".encode()
        return pa.array(values, pa.binary())


def _merged(parts: Sequence[tuple[Indices, Array]]) -> tuple[Indices, Array]:
    """Return the texts of all parts in the order of their numbers."""
    if len(parts) == 1:
        return parts[0]
    index = np.concatenate([numbers for numbers, _ in parts])
    order = np.argsort(index)
    return index[order], taken(pa.concat_arrays([texts for _, texts in parts]), order)


def _starts_with(texts: Array, start: bytes) -> Mask:
    found: Any = pc.starts_with(texts, start)  # type: ignore[call-overload]
    return mask_of(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectType:
    """The type of values in messages (`wire`), that of the column (`type`), and the conversion between them.

    `convert` is None if both are the same; it raises ValueError for a value that is not of the type. `optional` and
    `default` are those of a column; the default is as messages have it, None if there is none.
    """

    wire: pa.DataType
    type: pa.DataType
    convert: Convert | None = None
    optional: bool = False
    default: Any = None

    def converted(self, array: Array) -> Array:
        """Convert values to the type of the column."""
        return array if self.convert is None else self.convert(array)


def connect_type(
    schema: Mapping[str, Any], path: str = "", *, spelled: bool = False, binary: bool = False
) -> ConnectType:
    """Return the type of a schema. Raises NotSupportedError, naming the field, for maps and for an invalid schema.

    JSON has NaN and infinite numbers as texts. If floating-point numbers are `spelled`, all of them are read as texts.
    Bytes are base64, as in JSON, unless values are `binary`.
    """
    kind, name, parameters = schema.get("type"), schema.get("name"), schema.get("parameters") or {}
    if kind == "bytes":
        found = _BYTES
        if name == "org.apache.kafka.connect.data.Decimal":
            precision = int(parameters.get("connect.decimal.precision", _MOST_DIGITS))
            found = _decimal(int(parameters.get("scale", 0)), precision)
        return found if binary else _from_base64(found)
    if kind == "struct" and name == "io.debezium.data.VariableScaleDecimal":
        wire = pa.struct([pa.field("scale", pa.int32()), pa.field("value", pa.binary() if binary else pa.string())])
        return ConnectType(wire=wire, type=pa.string(), convert=_variable_decimals)
    if isinstance(name, str) and (name, kind) in _NAMED:
        return _NAMED[name, kind]
    if kind == "struct":
        return _struct(schema.get("fields") or [], path, spelled=spelled, binary=binary)
    if kind == "array":
        return _array(connect_type(schema.get("items") or {}, f"{path}[]", spelled=spelled, binary=binary))
    if isinstance(kind, str) and kind in _PLAIN:
        if kind == "int64" and "UNSIGNED" in str(parameters.get(_SOURCE_TYPE)).upper():
            return ConnectType(wire=pa.int64(), type=pa.int64(), convert=_unsigned)
        if spelled and pa.types.is_floating(_PLAIN[kind]):
            return _named(pa.string(), _PLAIN[kind])
        if _PLAIN[kind] == pa.float32() and not binary:
            return _named(pa.float64(), pa.float32(), _floats)
        return ConnectType(wire=_PLAIN[kind], type=_PLAIN[kind])
    raise NotSupportedError(
        f"The field {path or 'at the top'} of a message has the type {kind!r} of Kafka Connect, which becomes no "
        "column. Leave it out at the source, or let the connector write it as JSON."
    )


def column_type(schema: Mapping[str, Any], name: str, *, spelled: bool = False, binary: bool = False) -> ConnectType:
    """Return the type of a column of a row; see connect_type."""
    found = connect_type(schema, name, spelled=spelled, binary=binary)
    return replace(found, optional=bool(schema.get("optional")), default=schema.get("default"))


def _struct(fields: Sequence[Mapping[str, Any]], path: str, *, spelled: bool, binary: bool) -> ConnectType:
    names = [str(f["field"]) for f in fields]
    types = [
        connect_type(f, f"{path}.{n}".lstrip("."), spelled=spelled, binary=binary)
        for f, n in zip(fields, names, strict=True)
    ]
    wire = pa.struct([pa.field(n, t.wire) for n, t in zip(names, types, strict=True)])
    result = pa.struct([pa.field(n, t.type) for n, t in zip(names, types, strict=True)])
    if all(t.convert is None for t in types):
        return ConnectType(wire=wire, type=result)

    def convert(array: Array) -> Array:
        whole: Any = array
        parts = [t.converted(part) for t, part in zip(types, whole.flatten(), strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(result), mask=whole.is_null())

    return ConnectType(wire=wire, type=result, convert=convert)


def _array(element: ConnectType) -> ConnectType:
    wire, result = pa.list_(element.wire), pa.list_(element.type)
    if element.convert is None:
        return ConnectType(wire=wire, type=result)

    def convert(array: Array) -> Array:
        # A copy starts at its first value, which the offsets of a slice do not.
        whole: Any = pa.concat_arrays([array])
        lists: Array = pa.ListArray.from_arrays(whole.offsets, element.converted(whole.values), mask=whole.is_null())
        return lists

    return ConnectType(wire=wire, type=result, convert=convert)


def _unsigned(array: Array) -> Array:
    """Return integers without a sign. Raises ValueError for a negative one, which stands for one beyond 2^63."""
    lowest = pc.min(array).as_py()
    if lowest is not None and lowest < 0:
        raise ValueError(
            f"it stands for {lowest + 2**64}, an integer without a sign beyond the range of BIGINT. Set "
            "'bigint.unsigned.handling.mode' = 'precise' for the connector"
        )
    return array


def _decimal(scale: int, precision: int) -> ConnectType:
    if precision > _MOST_DIGITS or not 0 <= scale <= precision:
        return ConnectType(wire=pa.binary(), type=pa.string(), convert=lambda a: _decimal_texts(a, scale))

    def convert(array: Array) -> Array:
        return _decimals(array, scale).cast(pa.decimal128(precision, scale))

    return ConnectType(wire=pa.binary(), type=pa.decimal128(precision, scale), convert=convert)


def _decimals(array: Array, scale: int) -> Array:
    """Convert big-endian integers of any length to DECIMAL(38, scale)."""
    whole: Any = array
    lengths = pc.binary_length(whole).fill_null(0).to_numpy()
    if lengths.max(initial=0) > _DECIMAL_BYTES:
        values = [None if v is None else Decimal(_integer(v)).scaleb(-scale) for v in array.to_pylist()]
        return pa.array(values, pa.decimal128(_MOST_DIGITS, scale))
    _, offsets, content = whole.buffers()
    ends = np.frombuffer(offsets, np.int32)[whole.offset + 1 : whole.offset + len(whole) + 1].astype(np.int64)
    data = np.frombuffer(content or b"\0", np.uint8)
    # The missing high bytes extend the sign.
    highest = np.where(lengths > 0, data[np.minimum(ends - lengths, len(data) - 1)], 0)
    made = np.where(highest >= 0x80, np.uint8(0xFF), np.uint8(0))[:, None].repeat(_DECIMAL_BYTES, axis=1)
    for k in range(int(lengths.max(initial=0))):
        made[:, k] = np.where(lengths > k, data[np.maximum(ends - 1 - k, 0)], made[:, k])
    present = pa.py_buffer(np.packbits(valid(array), bitorder="little").tobytes())
    found: Array = pa.Array.from_buffers(
        pa.decimal128(_MOST_DIGITS, scale), len(whole), [present, pa.py_buffer(made.tobytes())]
    )
    return found


def _decimal_texts(array: Array, scale: int) -> Array:
    texts = [None if value is None else _plain(_integer(value), scale) for value in array.to_pylist()]
    return pa.array(texts, pa.string())


def _variable_decimals(array: Array) -> Array:
    texts = [None if v is None else _plain(_integer(v["value"] or b""), v["scale"] or 0) for v in array.to_pylist()]
    return pa.array(texts, pa.string())


def _plain(unscaled: int, scale: int) -> str:
    """Return the number in the spelling of SQL, without an exponent, with any number of digits."""
    if scale <= 0:
        return str(unscaled * 10**-scale)
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    return f"{'-' if unscaled < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def _integer(value: bytes | str) -> int:
    return int.from_bytes(bytes_of_base64(value) if isinstance(value, str) else value, "big", signed=True)


def _from_base64(binary: ConnectType) -> ConnectType:
    return ConnectType(wire=pa.string(), type=binary.type, convert=lambda array: binary.converted(_bytes(array)))


def _bytes(array: Array) -> Array:
    # Arrow has no kernel for base64.
    values = [None if text is None else bytes_of_base64(text) for text in array.to_pylist()]
    return pa.array(values, pa.binary())


def _cast_to(data_type: pa.DataType) -> Convert:
    return lambda array: array.cast(data_type)


def _time_texts(unit: Literal["us", "ns"]) -> Convert:
    digits = 6 if unit == "us" else 9

    def convert(array: Array) -> Array:
        if _within_a_day(array, 10**digits):
            texts: Array = pc.cast(pc.cast(array, pa.time64(unit)), pa.string())
            return texts
        # Arrow has no texts for 24:00:00 of PostgreSQL and for the times of MySQL, which go from -838 to 838 hours.
        return pa.array([None if v is None else _clock(v, digits) for v in array.to_pylist()], pa.string())

    return convert


def _floats(array: Array) -> Array:
    """Convert numbers of JSON to FLOAT. Raises ValueError for numbers that Arrow makes infinite, or 0."""
    made: Any = array.cast(pa.float32())
    if true_of(pc.and_(pc.is_inf(made), pc.is_finite(array))).any():
        raise ValueError("it is beyond the range of FLOAT")
    check_not_lost(array, made, "FLOAT")
    found: Array = made
    return found


def _zoned_moments(texts: Array) -> Array:
    """Convert times of ISO 8601 with an offset. Raises ValueError with the reason for other texts."""
    whole: Any = texts
    zeros = pc.replace_substring_regex(whole, r"(\.[0-9]{6})0+(Z|[-+])", r"\1\2")
    try:
        found: Array = zeros.cast(pa.timestamp("us", "UTC"))
        return found
    except pa.ArrowInvalid as error:
        for form, why in _UNZONED:
            if true_of(pc.match_substring_regex(whole, form)).any():
                raise ValueError(why) from error
        raise ValueError("it is no date and time of ISO 8601, such as 2024-01-31T10:20:30.123456Z") from error


def _times(array: Array) -> Array:
    if not _within_a_day(array, 1000):
        raise ValueError("it is not a time within a day")
    return array.cast(pa.time32("ms"))


def _within_a_day(array: Array, second: int) -> bool:
    ends: Any = pc.min_max(array)
    least, most = ends["min"].as_py(), ends["max"].as_py()
    return least is None or (least >= 0 and most < 24 * 60 * 60 * second)


def _clock(ticks: int, digits: int) -> str:
    seconds, fraction = divmod(abs(ticks), 10**digits)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{'-' if ticks < 0 else ''}{hour:02}:{minute:02}:{second:02}.{fraction:0{digits}}"


def _named(wire: pa.DataType, data_type: pa.DataType, convert: Convert | None = None) -> ConnectType:
    return ConnectType(wire=wire, type=data_type, convert=convert or _cast_to(data_type))


def _finite(unit: Literal["ms", "us"]) -> Convert:
    """Convert ticks since 1970 to timestamps. Raises ValueError for the two values that Debezium sends for infinity."""
    ends = [end // (1 if unit == "us" else 1000) for end in _INFINITE]

    def convert(array: Array) -> Array:
        if true_of(pc.is_in(array, pa.array(ends, pa.int64()))).any():
            raise ValueError(_UNZONED[0][1])
        return array.cast(pa.timestamp(unit))

    return convert


_INFINITE = (9_223_372_036_825_200_000, -9_223_372_036_832_400_000)
"""Microseconds that Debezium sends for an infinite timestamp of PostgreSQL (PostgresValueConverter)."""
_BYTES = ConnectType(wire=pa.binary(), type=pa.binary())
_DATE = _named(pa.int32(), pa.date32())
_MILLIS = _named(pa.int64(), pa.timestamp("ms"), _finite("ms"))
_TIME = _named(pa.int32(), pa.time32("ms"), _times)
_NAMED: Mapping[tuple[str, Any], ConnectType] = {
    ("io.debezium.time.Date", "int32"): _DATE,
    ("org.apache.kafka.connect.data.Date", "int32"): _DATE,
    ("io.debezium.time.Timestamp", "int64"): _MILLIS,
    ("org.apache.kafka.connect.data.Timestamp", "int64"): _MILLIS,
    ("io.debezium.time.MicroTimestamp", "int64"): _named(pa.int64(), pa.timestamp("us"), _finite("us")),
    ("io.debezium.time.NanoTimestamp", "int64"): _named(pa.int64(), pa.timestamp("ns")),
    ("io.debezium.time.ZonedTimestamp", "string"): _named(pa.string(), pa.timestamp("us", "UTC"), _zoned_moments),
    ("io.debezium.time.Time", "int32"): _TIME,
    ("org.apache.kafka.connect.data.Time", "int32"): _TIME,
    ("io.debezium.time.MicroTime", "int64"): _named(pa.int64(), pa.string(), _time_texts("us")),
    ("io.debezium.time.NanoTime", "int64"): _named(pa.int64(), pa.string(), _time_texts("ns")),
}
