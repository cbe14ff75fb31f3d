"""Values as Paimon's text: `12.50`, `1.0E10`, `2026-01-31 08:00:00.500`, `[1, 2]`, `{a -> 1}`, `{1, x}`.

Numbers are as Java writes them (DOUBLE and FLOAT by their shortest digits, as Java since version 19). Timestamps have
all digits of their type, TIME at least one. Timestamps with local time zone are as the machine's clock shows them.
Arrow writes a date or timestamp beyond its reach as `<value out of range: 2147483647>`, and the year 10000 without a
sign; here they are as Java and Spark write them.

Source: paimon-common `casting.*ToStringCastRule`, `utils.DateTimeUtils`, `utils.BinaryStringUtils`.
"""

from datetime import date
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrow_values import TRUE
from interbed.storage.base.types.casting.numeric import (
    PER_SECOND,
    PLAIN_LIMIT,
    Array,
    cast_few,
    cast_where,
    has_plain_text,
    local_counts,
    to_counts,
    to_filled_numpy,
    with_nulls_of,
)
from interbed.storage.base.types.casting.rules import FRACTIONS, NUMBERS
from interbed.storage.base.types.data_type import (
    BINARIES,
    MAX_LENGTH,
    STRINGS,
    TIMESTAMPS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    RowType,
    TypeRoot,
)
from interbed.storage.base.types.far_times import date_text, timestamp_text

_MILLIS = 1000
_MILLIS_DIGITS = 3


def cast_to_text(array: Array, source: DataType, target: AtomicType) -> Array:
    """Return values of any type but MULTISET as CHAR or VARCHAR.

    Numbers, booleans and texts are cut to the length, and CHAR is padded with blanks; the texts of byte strings and
    nested values keep their length, as in Java.
    """
    text = _text(array, source)
    measured = isinstance(source, AtomicType) and (
        source.root in NUMBERS or source.root in STRINGS or source.root is TypeRoot.BOOLEAN
    )
    return resized_text(text, target) if measured else text


def resized_text(array: Any, target: AtomicType) -> Array:
    """Return texts cut to the type's length, and padded with blanks for CHAR."""
    length = target.length or 0
    if length < MAX_LENGTH:
        array = pc.utf8_slice_codeunits(array, 0, length)
    resized: Array = pc.utf8_rpad(array, length, " ") if target.root is TypeRoot.CHAR else array
    return resized


def resized_bytes(array: Any, target: AtomicType) -> Array:
    """Return byte strings cut to the type's length, and padded with zeros for BINARY."""
    length = target.length or 0
    cut: Any = pc.binary_slice(array, 0, length)
    shortest = pc.min(pc.binary_length(cut)).as_py()
    if target.root is not TypeRoot.BINARY or shortest is None or shortest >= length:
        return cast("Array", cut)
    zeros = pa.scalar(bytes(length - shortest), pa.binary())
    filled = pc.binary_join_element_wise(cut, zeros, pa.scalar(b"", pa.binary()))
    return cast("Array", pc.binary_slice(filled, 0, length))


def _text(array: Any, source: DataType) -> Array:
    match source:
        case ArrayType(element=element):
            return _enclosed("[", _joined(array, _within(array.values, element)), "]")
        case MapType(key=key, value=value):
            parts: list[Any] = [_within(array.keys, key), _within(array.items, value)]
            entries = pc.binary_join_element_wise(*parts, pa.scalar(" -> "))
            return _enclosed("{", _joined(array, entries), "}")
        case RowType(fields=fields):
            # field() returns the children of this slice only.
            children: list[Any] = [_within(array.field(i), field.type) for i, field in enumerate(fields)]
            whole: Any = pc.binary_join_element_wise(*children, pa.scalar(", "))
            if array.null_count:
                whole = pc.if_else(array.is_valid(), whole, pa.scalar(None, pa.string()))
            return _enclosed("{", whole, "}")
        case AtomicType():
            return _atomic_text(array, source)
        case _:
            raise TypeError(f"{source} has no text.")


def _within(array: Array, source: DataType) -> Array:
    texts: Any = _text(array, source)
    return cast("Array", texts.fill_null("null"))


def _joined(array: Any, texts: Array) -> Any:
    validity, offsets = array.buffers()[:2]
    lists = pa.ListArray.from_buffers(
        pa.list_(pa.string()), len(array), [validity, offsets], array.null_count, array.offset, children=[texts]
    )
    return pc.binary_join(lists, ", ")


def _enclosed(left: str, texts: Any, right: str) -> Array:
    return cast("Array", pc.binary_join_element_wise(pa.scalar(left), texts, pa.scalar(right), pa.scalar("")))


def _atomic_text(array: Any, source: AtomicType) -> Array:
    root = source.root
    if root in STRINGS:
        return cast("Array", array)
    if root in BINARIES:
        return _decoded(array)
    if root in FRACTIONS:
        return cast_where(has_plain_text(array), array, _plain_fractions, _fractions_with_exponents)
    if root is TypeRoot.DECIMAL:
        return _decimals(array, source)
    if root is TypeRoot.TIME:
        return _times(array, source.precision or 0)
    if root in TIMESTAMPS:
        return _timestamps(array, source)
    return text_of_times(array)


def _decoded(array: Array) -> Array:
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        # Arrow's texts are UTF-8. Java replaces invalid bytes in the same way.
        return cast_few(array, pa.string(), lambda value: None if value is None else value.decode(errors="replace"))


def _plain_fractions(array: Array) -> Array:
    text: Any = array.cast(pa.string())
    whole = pc.invert(pc.match_substring(text, "."))
    return cast("Array", pc.if_else(whole, pc.binary_join_element_wise(text, pa.scalar("0"), pa.scalar(".")), text))


def _fractions_with_exponents(array: Array) -> Array:
    text: Any = array.cast(pa.string())
    # Numbers from ten million on of more than one digit: Java may take a nearer number of two digits for a single
    # digit.
    long = pc.match_substring_regex(text, r"^-?([0-9]+\.[0-9]+|[0-9]\.[0-9]+e\+[0-9]+|[0-9]*[1-9][0-9]*[1-9][0-9]*)$")
    large = pa.array(np.abs(to_filled_numpy(array)) >= PLAIN_LIMIT)
    many = cast("Array", pc.and_(long.fill_null(True), large))
    return cast_where(many, array, _large_fractions, _other_fractions)


def _large_fractions(array: Array) -> Array:
    text: Any = array.cast(pa.string())
    scientific = pc.replace_substring_regex(text, r"e\+0*", "E")
    whole: Any = pc.replace_substring_regex(text, r"^-|\..*$", "")
    exponents = pc.subtract(pc.binary_length(whole), 1).cast(pa.string())
    digits: Any = pc.replace_substring_regex(pc.replace_substring(text, ".", ""), r"^(-?[0-9])([0-9]*?)0*$", r"\1.\2")
    moved = pc.binary_join_element_wise(digits, exponents, pa.scalar("E"))
    return cast("Array", pc.if_else(pc.match_substring(text, "e"), scientific, moved))


def _other_fractions(array: Array) -> Array:
    narrow = array.type == pa.float32()
    return cast_few(array, pa.string(), lambda value: None if value is None else java_fraction(value, narrow))


def java_fraction(value: float, narrow: bool) -> str:
    """Return the text of Java's Double.toString (Float.toString with `narrow`) for a number with an exponent."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    shortest = str(np.format_float_scientific(np.float32(value) if narrow else np.float64(value), trim="-"))
    digits, _, exponent = shortest.partition("e")
    if "." not in digits:
        # Java takes the nearest of the numbers of two digits that are parsed as the value.
        nearest = f"{value:.1e}"
        same = np.float32(nearest) == np.float32(value) if narrow else float(nearest) == value
        digits, _, exponent = (nearest if same else f"{digits}.0e{exponent}").partition("e")
    return f"{digits}E{int(exponent)}"


def _decimals(array: Any, source: AtomicType) -> Array:
    text = array.cast(pa.string())
    short = pc.match_substring(text, "E")
    if not pc.any(short).as_py():
        return cast("Array", text)
    scale = source.scale or 0
    # Arrow writes small numbers with an exponent.
    return cast_few(array, pa.string(), lambda value: None if value is None else f"{value:.{scale}f}")


def _times(array: Array, digits: int) -> Array:
    counts = to_counts(array)
    clock: Any = with_nulls_of((counts // _MILLIS).astype(np.int32), array).view(pa.time32("s")).cast(pa.string())
    if digits == 0:
        return cast("Array", clock)
    fractions = pa.array([_time_fraction(millis, digits) for millis in range(_MILLIS)])
    rest = fractions.take(with_nulls_of((counts % _MILLIS).astype(np.int32), array))
    return cast("Array", pc.binary_join_element_wise(clock, rest, pa.scalar(".")))


def _time_fraction(millis: int, digits: int) -> str:
    """Return the fractional digits, cut to the type's, without trailing zeros but at least one digit."""
    text = f"{millis:03d}"
    return (text.rstrip("0") or "0") if digits >= _MILLIS_DIGITS else _cut(text, digits)


def _cut(text: str, digits: int) -> str:
    return next((text[:n] for n in range(1, digits) if not text[n:].strip("0")), text[:digits])


def _timestamps(array: Any, source: AtomicType) -> Array:
    if source.root is TypeRoot.TIMESTAMP_LTZ:
        array = local_counts(array)
    text: Any = text_of_times(array)
    spare = len(str(PER_SECOND[array.type.unit])) - 1 - (source.precision or 0)
    if spare:
        # Zeros after the digits of the type are removed; other digits stay.
        text = (
            pc.replace_substring_regex(text, rf"\.?0{{0,{spare}}}$", "")
            if source.precision == 0
            else (pc.replace_substring_regex(text, rf"0{{0,{spare}}}$", ""))
        )
    return cast("Array", text)


# -- dates and timestamps of all years ---------------------------------------------------------------------------------

_TICKS_A_DAY = {"ms": 86_400_000, "us": 86_400_000_000}
_DIGITS = {"ms": 3, "us": 6}
_EPOCH = date(1970, 1, 1)
_FIRST_DAY, _LAST_DAY = (date.min - _EPOCH).days, (date.max - _EPOCH).days


def has_far_times(array: Array) -> bool:
    """Return whether the array has a date or timestamp of a year before 1 or after 9999."""
    if not _may_be_far(array.type):
        return False
    bounds: Any = pc.min_max(_numbers(array))
    if not bounds["min"].is_valid:
        return False
    low, high = _reach(array.type)
    return bool(bounds["min"].as_py() < low or bounds["max"].as_py() > high)


def text_of_times(array: Array) -> Array:
    """Return the text of values of a plain type: Arrow's, and of far dates and timestamps that of Java and Spark."""
    if not has_far_times(array):
        plain: Array = array.cast(pa.string())
        return plain
    ends: Any = _reach(array.type)
    low, high = ends
    numbers = _numbers(array)
    near: Any = pc.fill_null(pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high)), TRUE)
    return cast_where(near, array, lambda some: some.cast(pa.string()), _far_texts)


def _far_texts(array: Array) -> Array:
    kind: Any = array.type
    numbers = _numbers(array).to_pylist()
    if pa.types.is_date32(kind):
        return pa.array([date_text(number) for number in numbers], pa.string())
    unit, zone = str(kind.unit), "Z" if kind.tz is not None else ""
    return pa.array([timestamp_text(number, unit, _DIGITS[unit]) + zone for number in numbers], pa.string())


def _may_be_far(kind: Any) -> bool:
    # 64 bits of nanoseconds end in the year 2262, so they are never far.
    return pa.types.is_date32(kind) or (pa.types.is_timestamp(kind) and str(kind.unit) in _TICKS_A_DAY)


def _numbers(array: Any) -> Any:
    return array.view(pa.int32() if pa.types.is_date32(array.type) else pa.int64())


def _reach(kind: Any) -> tuple[int, int]:
    """Return the first and the last number of the years 1 to 9999."""
    ticks = 1 if pa.types.is_date32(kind) else _TICKS_A_DAY[str(kind.unit)]
    return _FIRST_DAY * ticks, (_LAST_DAY + 1) * ticks - 1
