r"""Values of PostgreSQL in its text format as values of Arrow's columns, by the type and its modifier.

| PostgreSQL | column |
|---|---|
| smallint, integer, bigint, oid | SMALLINT, INT, BIGINT, BIGINT |
| real, double precision | FLOAT, DOUBLE, with NaN and infinities |
| numeric(p, s) of at most 38 digits | DECIMAL(p, s) |
| boolean, bytea, date | BOOLEAN, BYTES, DATE |
| timestamp(0..3), timestamp | TIMESTAMP(3), TIMESTAMP(6) |
| timestamptz | TIMESTAMP_LTZ(6) |
| time(0..3) | TIME(3) |
| time | STRING, 10:20:30.123456: Paimon's TIME has milliseconds |
| arrays of one dimension | ARRAY of the same |
| all other types, also numeric without a bound | STRING, as PostgreSQL writes it |

These are the columns that Debezium's connector gives with its defaults, for all types except interval, money, bit,
timetz, hstore and the geometric ones, which are texts here.

The text of an array is {1,NULL,"a \"b\""}. It may begin with its bounds, [0:1]={1,2}. A type may have another delimiter
than the comma (pg_type.typdelim): {(1,1),(0,0);(2,2),(1,1)} are boxes.

The texts are those under DateStyle ISO, bytea_output hex and TimeZone UTC. Sources: PostgreSQL's documentation, "Data
Types", "Arrays" and "Array Input and Output Syntax", and its pg_type.dat for the OIDs of types.
"""

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.formats.arrays import Array, buffer_of, true_of, valid

Convert: TypeAlias = Callable[[Array], Array]

BOOL, BYTEA, INT8, INT2, INT4, OID, FLOAT4, FLOAT8 = 16, 17, 20, 21, 23, 26, 700, 701
DATE, TIME, TIMESTAMP, TIMESTAMPTZ, NUMERIC = 1082, 1083, 1114, 1184, 1700
_TEXTS = frozenset({18, 19, 25, 114, 142, 650, 790, 829, 869, 1042, 1043, 1186, 1266, 1560, 1562, 2950, 3802})
"""Types of the system that are texts, so that no lookup is needed: char, name, text, json, xml, cidr, money, …"""


_BOUNDS = r"^\[[-0-9:]+\]="


_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


_MOST_DIGITS = 38
_NUMERIC_HEADER = 4
"""The offset in the modifier of a numeric: the precision is in the upper half and the scale in the lower one."""


class TypeLookup(Protocol):
    """Lookup of the types of a database by their OIDs."""

    def base_type(self, oid: int, modifier: int) -> tuple[int, int, str | None]:
        """Return the type below domains and arrays, its modifier (-1 for none), and the delimiter of elements if the
        type is an array.
        """
        ...


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a column, and the conversion of texts (an Arrow array of strings) to values.

    `convert` raises ValueError if a text is no value of the type.
    """

    type: pa.DataType
    convert: Convert


def column_type(oid: int, modifier: int, lookup: TypeLookup) -> ColumnType:
    """Return the type of a column of PostgreSQL."""
    if oid in _PLAIN or oid in _TEXTS:
        return _scalar(oid, modifier)
    base, modifier, between = lookup.base_type(oid, modifier)
    element = _scalar(base, modifier)
    return element if between is None else _array_of(element, between)


def _scalar(oid: int, modifier: int) -> ColumnType:
    match oid:
        case 1700 if modifier >= _NUMERIC_HEADER:
            precision, scale = divmod(modifier - _NUMERIC_HEADER, 1 << 16)
            # A scale has 11 bits and a sign; a negative scale is greater than the precision here.
            if precision <= _MOST_DIGITS and scale <= precision:
                decimal = pa.decimal128(precision, scale)
                return ColumnType(decimal, lambda texts: texts.cast(decimal))
        case 1114 if 0 <= modifier <= 3:
            return _moments(pa.timestamp("ms"))
        case 1083 if 0 <= modifier <= 3:
            return ColumnType(pa.time32("ms"), _times)
    return _PLAIN.get(oid, _TEXT)


def _array_of(element: ColumnType, between: str) -> ColumnType:
    def convert(texts: Array) -> Array:
        offsets, elements = split_arrays(texts, between)
        values: Any = element.convert(elements)
        places: Any = pa.array(offsets)
        lists: Array = pa.ListArray.from_arrays(places, values, mask=pa.array(~valid(texts)))
        return lists

    return ColumnType(pa.list_(element.type), convert)


def _cast_to(data_type: pa.DataType) -> ColumnType:
    return ColumnType(data_type, lambda texts: texts.cast(data_type))


def _booleans(texts: Array) -> Array:
    found: Array = pc.equal(texts, pa.scalar("t"))
    return found


def _bytes(texts: Array) -> Array:
    r"""Decode texts such as \x00ff to bytes."""
    whole: Any = texts
    if (~true_of(pc.starts_with(whole, r"\x")) & valid(whole)).any():
        raise ValueError(r"it does not begin with \x: bytea_output is to be hex")
    digits: Any = pa.concat_arrays([pc.utf8_slice_codeunits(whole, 2).cast(pa.binary())])
    _, offsets, data = digits.buffers()
    ends = np.frombuffer(offsets, np.int32)[: len(digits) + 1]
    halves = _HALVES[np.frombuffer(data, np.uint8)[: ends[-1]] if data is not None else np.empty(0, np.uint8)]
    if (halves > 15).any() or (ends % 2).any():
        raise ValueError("it has something else than pairs of hexadecimal digits")
    content = (halves[0::2] << 4) | halves[1::2]
    found: Array = pa.Array.from_buffers(
        pa.binary(),
        len(digits),
        [pa.array(valid(texts)).buffers()[1], buffer_of((ends // 2).astype(np.int32)), buffer_of(content)],
    )
    return found


def _half_table() -> "np.ndarray[Any, np.dtype[np.uint8]]":
    table = np.full(256, 16, np.uint8)
    for digit in "0123456789abcdef":
        table[ord(digit)] = int(digit, 16)
    return table


_HALVES = _half_table()


def _finite(texts: Array) -> Array:
    """Return texts of dates and times. Raises ValueError with the reason for texts that no column can hold."""
    whole: Any = texts
    if true_of(pc.match_substring(whole, "infinity")).any():
        raise ValueError("an infinite date or time cannot be stored in a table. Replace it by a far date at the source")
    if true_of(pc.match_substring_regex(whole, r"BC$|^\d{5,}-")).any():
        raise ValueError("it is outside of the years 1 to 9999")
    return texts


def _moments(data_type: pa.DataType) -> ColumnType:
    return ColumnType(data_type, lambda texts: _finite(texts).cast(data_type))


def _of_day(texts: Array, unit: Any) -> Any:
    """Return times of the day as timestamps of 1970-01-01."""
    times: Any = texts
    moments: Any = pc.binary_join_element_wise(pa.scalar("1970-01-01"), times, pa.scalar(" "))
    return moments.cast(pa.timestamp(unit))


def _times(texts: Array) -> Array:
    found: Array = _of_day(texts, "ms").cast(pa.time32("ms"))
    return found


def _time_texts(texts: Array) -> Array:
    """Return times with six digits after the point, including 24:00:00."""
    times: Any = texts
    pointed = pc.binary_join_element_wise(times, pa.scalar(""), pa.scalar("."))
    pointed = pc.if_else(pc.match_substring(times, "."), times, pointed)
    found: Array = pc.utf8_rpad(pointed, 15, "0")
    return found


_TEXT = ColumnType(pa.string(), lambda texts: texts)
_PLAIN: Mapping[int, ColumnType] = {
    BOOL: ColumnType(pa.bool_(), _booleans),
    BYTEA: ColumnType(pa.binary(), _bytes),
    INT2: _cast_to(pa.int16()),
    INT4: _cast_to(pa.int32()),
    INT8: _cast_to(pa.int64()),
    OID: _cast_to(pa.int64()),
    FLOAT4: _cast_to(pa.float32()),
    FLOAT8: _cast_to(pa.float64()),
    DATE: _moments(pa.date32()),
    TIME: ColumnType(pa.string(), _time_texts),
    TIMESTAMP: _moments(pa.timestamp("us")),
    TIMESTAMPTZ: _moments(pa.timestamp("us", "UTC")),
    NUMERIC: _TEXT,
}


@cache
def _element(between: str) -> re.Pattern[str]:
    return re.compile(rf'"((?:[^"\\]|\\.)*)"|([^"{re.escape(between)}{{}}\\]+)', re.DOTALL)


def split_arrays(texts: Array, between: str = ",") -> tuple[npt.NDArray[np.int32], Array]:
    """Return the offsets of the elements of each array, and the texts of all elements.

    There is one offset more than arrays; a null array has no elements. Raises ValueError for arrays of several
    dimensions.
    """
    whole: Any = pc.replace_substring_regex(texts, _BOUNDS, "")
    if true_of(pc.match_substring_regex(whole, r"^\{\{|^\[")).any():
        raise ValueError("it has more than one dimension")
    if (~true_of(pc.match_substring_regex(whole, r"(?s)^\{.*\}$")) & valid(whole)).any():
        raise ValueError("it is no array")
    if true_of(pc.match_substring_regex(whole, r'["\\]')).any():
        return _one_by_one(whole, between)
    inner: Any = pc.utf8_slice_codeunits(whole, 1, -1)
    parts: Any = pa.concat_arrays([pc.split_pattern(inner, between)])
    lengths: Any = pc.list_value_length(parts)
    counts = lengths.fill_null(0).to_numpy(zero_copy_only=False).copy()
    empty = true_of(pc.equal(inner, pa.scalar("")))
    elements: Any = pc.list_flatten(parts)
    if empty.any():
        # Splitting an empty text gives one element.
        elements = elements.filter(pa.array(~np.repeat(empty, counts)))
        counts[empty] = 0
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return offsets, pc.if_else(pc.equal(elements, pa.scalar("NULL")), pa.scalar(None, pa.string()), elements)


def _one_by_one(texts: Array, between: str) -> tuple[npt.NDArray[np.int32], Array]:
    """Return the same by Python, for texts in which a delimiter may be part of an element: Arrow cannot parse those."""
    lists: list[list[str | None]] = [[] if text is None else _elements(text, between) for text in texts.to_pylist()]
    offsets = np.cumsum([0, *(len(each) for each in lists)]).astype(np.int32)
    return offsets, pa.array(list(itertools.chain.from_iterable(lists)), pa.string())


def _elements(text: str, between: str) -> list[str | None]:
    if text == "{}":
        return []
    found: list[str | None] = []
    at = 1
    while True:
        element = _element(between).match(text, at)
        if element is None or text[element.end() : element.end() + 1] not in (between, "}"):
            raise ValueError("it is no array of one dimension")
        quoted, plain = element.groups()
        found.append(_ESCAPED.sub(r"\1", quoted) if plain is None else None if plain == "NULL" else plain)
        at = element.end() + 1
        if text[element.end()] == "}":
            return found
