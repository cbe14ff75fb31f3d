"""Exact cast of a caller's Arrow columns to the columns of a table: every value unchanged, or an error with its row.

The rules, which apply to each part of nested values (docs/api.md, "Values"):

- integers must be in the range of their type; no cast to integers or decimals loses a fraction;
- floats become DECIMAL by their shortest text, which must fit the scale; DOUBLE becomes the nearest FLOAT, but not 0
if it is another number;
- text stays text, bytes stay bytes or become text if they are UTF-8; neither is parsed, and no other value becomes
text;
- a timestamp with a zone is an instant and fits only TIMESTAMP WITH LOCAL TIME ZONE; a timestamp without a zone is UTC
  there; a DATE takes timestamps at midnight; no time loses digits;
- fields of rows are matched by name, and unknown fields are refused; maps have each key once.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrow_values import exact_decimals, scalar_of, to_numpy
from interbed.storage.base.errors import SchemaMismatchError
from interbed.storage.base.types.nested import LIST_OF, MAP_OF, entries_of, has_part, mask_of, offsets_of, parts_of

Array = Any
"""`pa.Array`, whose stubs are incomplete."""

_MISFITS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, ValueError)
_VALUE_LENGTH_MAX = 100
_SECONDS_OF_DAY = 86_400
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

_NOT_AS_STORED = ("arrow.opaque", "pandas.period", "pandas.interval")
"""Extension types whose stored values have another meaning: internal bytes of DuckDB, numbers of periods."""
_UUID = "arrow.uuid"

_CHUNKED: Callable[..., Any] = pa.chunked_array
_RUN_END_DECODE: Callable[[Array], Array] = pc.run_end_decode  # type: ignore[attr-defined]


def exact_cast(
    column: "pa.ChunkedArray[Any]", target: pa.DataType, *, name: str, what: str, first_row: int = 0
) -> "pa.ChunkedArray[Any]":
    """Return the column in the target type. `first_row` is the number of its first row in the data of the caller.

    Raises SchemaMismatchError naming the column, and the row and value if a value does not fit.
    """
    if column.type.equals(target) and not _may_be_invalid(target) and not _has_text(target):
        return column
    try:
        chunks: list[Array] = [_converted(chunk, target, name) for chunk in column.chunks]
        cast: pa.ChunkedArray[Any] = _CHUNKED(chunks, target)
        return cast
    except _MISFITS as error:
        raise SchemaMismatchError(_message(column, target, name, what, first_row, error)) from None


def exact_array(array: Array, target: pa.DataType) -> Array:
    """Return the values of an array in the target type. Raises pa.ArrowInvalid and the like for a misfit."""
    return _converted(array, target, "")


def _nulls(count: int, kind: Any) -> Array:
    return pa.nulls(count, kind)


def _message(
    column: "pa.ChunkedArray[Any]", target: pa.DataType, name: str, what: str, first_row: int, error: Exception
) -> str:
    begins = f"The column {name!r} of {what} is {target}; "
    try:
        _converted(_nulls(0, column.type), target, name)
    except _MISFITS as of_type:
        return f"{begins}the data's {column.type} does not fit: {of_type}"
    row = _first_misfit(column, target, name)
    if row is None:
        return f"{begins}the data's {column.type} does not fit: {error}"
    try:
        _converted(column.slice(row, 1).chunk(0), target, name)
    except _MISFITS as of_value:
        error = of_value
    return f"{begins}row {first_row + row} (counted from 0) has {_shown(column, row)} ({column.type}): {error}"


def _first_misfit(column: "pa.ChunkedArray[Any]", target: pa.DataType, name: str) -> int | None:
    """Return the first row whose value can't be converted, by bisection; None if each single value can be."""

    def fits(begin: int, count: int) -> bool:
        try:
            for chunk in column.slice(begin, count).chunks:
                _converted(chunk, target, name)
        except _MISFITS:
            return False
        return True

    begin, count = 0, len(column)
    while count > 1:
        half = count // 2
        if fits(begin, half):
            begin, count = begin + half, count - half
        else:
            count = half
    return None if not count or fits(begin, 1) else begin


def _shown(column: "pa.ChunkedArray[Any]", row: int) -> str:
    try:
        text = repr(column[row].as_py())
    except UnicodeDecodeError as error:
        text = repr(error.object)
    except (ValueError, OverflowError):
        # A time without a Python value.
        text = " ".join(str(column.slice(row, 1).chunk(0)).split())
    return text if len(text) <= _VALUE_LENGTH_MAX else f"{text[:_VALUE_LENGTH_MAX]}…"


# -- nested values -----------------------------------------------------------------------------------------------------


def _converted(array: Array, target: pa.DataType, path: str) -> Array:
    array = _plain(array, target)
    kind = array.type
    if pa.types.is_null(kind):
        return _nulls(len(array), target)
    if kind.equals(target) and not _may_be_invalid(target):
        return _readable(array)
    if isinstance(target, pa.StructType) and isinstance(kind, pa.StructType):
        return _struct(array, target, path)
    if isinstance(target, pa.MapType) and isinstance(kind, pa.MapType):
        return _map(array, target, path)
    if isinstance(target, pa.ListType) and _is_list(kind):
        values = _converted(array.flatten(), target.value_type, f"{path}.{target.value_field.name}")
        return LIST_OF(offsets_of(array), values, type=target, mask=mask_of(array))
    if pa.types.is_nested(kind) or pa.types.is_nested(target):
        raise pa.ArrowInvalid(f"{path} would be a {_word(target)} from a {_word(kind)}")
    try:
        return _in_range(array if kind.equals(target) else _atomic(array, target))
    except _MISFITS as error:
        raise pa.ArrowInvalid(f"{path}: {error}" if "." in path else str(error)) from None


def _plain(array: Array, target: pa.DataType) -> Array:
    """Return the array without encodings and extension types. Raises pa.ArrowInvalid for types that change meaning."""
    if isinstance(array.type, pa.BaseExtensionType):
        extension = array.type.extension_name
        if extension in _NOT_AS_STORED or (extension == _UUID and not _is_bytes(target)):
            raise pa.ArrowInvalid(f"{array.type} has no exact cast to {target}; cast the column first")
        array = array.storage
    if isinstance(array.type, pa.DictionaryType):
        return array.dictionary_decode()
    return _RUN_END_DECODE(array) if isinstance(array.type, pa.RunEndEncodedType) else array


def _struct(array: Array, target: pa.StructType, path: str) -> Array:
    names = [field.name for field in array.type]
    known = [field.name for field in target]
    unknown = [each for each in names if each not in known]
    if unknown:
        raise pa.ArrowInvalid(f"{path} has the field {unknown[0]!r}, its fields are {', '.join(known)}")
    twice = [each for each in names if names.count(each) > 1]
    if twice:
        raise pa.ArrowInvalid(f"{path} has the field {twice[0]!r} twice")
    # Flattened, a field is null wherever the struct is.
    given = dict(zip(names, array.flatten(), strict=True))
    parts = [
        _converted(given[field.name], field.type, f"{path}.{field.name}")
        if field.name in given
        else _nulls(len(array), field.type)
        for field in target
    ]
    return pa.StructArray.from_arrays(parts, fields=list(target), mask=mask_of(array))


def _map(array: Array, target: "pa.MapType[Any, Any, Any]", path: str) -> Array:
    as_list = entries_of(array)
    flat = as_list.flatten()
    offsets = offsets_of(as_list)
    keys = _converted(flat.field(0), target.key_type, f"{path}.key")
    if _has_repeated(keys, to_numpy(offsets)):
        raise pa.ArrowInvalid(f"{path} is a map with a key twice")
    if keys.null_count:
        raise pa.ArrowInvalid(f"{path} is a map with a null for a key")
    items = _converted(flat.field(1), target.item_type, f"{path}.value")
    return MAP_OF(offsets, keys, items, type=target, mask=mask_of(array))


def _has_repeated(keys: Array, offsets: Any) -> bool:
    """Return whether a map has a key more than once; `offsets` delimit the keys of each map."""
    lengths = np.diff(offsets)
    if not len(lengths) or lengths.max() < 2:
        return False
    try:
        codes = to_numpy(keys.dictionary_encode().indices.fill_null(-1)).astype(np.int64)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        # Keys of nested types are compared one by one.
        numbers: dict[str, int] = {}
        codes = np.array([numbers.setdefault(repr(key), len(numbers)) for key in keys.to_pylist()], dtype=np.int64)
    of_map = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
    pairs = of_map * (int(codes.max()) + 2) + codes
    return len(np.unique(pairs)) < len(pairs)


def _is_list(kind: pa.DataType) -> bool:
    t = pa.types
    is_view = t.is_list_view(kind) or t.is_large_list_view(kind)
    return is_view or t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind)


def _may_be_invalid(kind: pa.DataType) -> bool:
    """Return whether arrays of the type may have invalid values: repeated keys, times of 24:00 on, too many digits."""
    t = pa.types
    return has_part(kind, lambda part: t.is_map(part) or t.is_time(part) or t.is_decimal(part))


def _has_text(kind: pa.DataType) -> bool:
    return has_part(kind, _is_text)


def _readable(array: Array) -> Array:
    """Return the array. Raises pa.ArrowInvalid for texts that are no UTF-8, which Arrow accepts, unlike readers."""
    if _is_text(array.type):
        array.validate(full=True)
    elif _has_text(array.type):
        # Arrow would check all values under a slice, also those outside of it.
        for _, part, _ in parts_of(array):
            _readable(part)
    return array


def _word(kind: pa.DataType) -> str:
    for word, is_kind in (("map", pa.types.is_map), ("row", pa.types.is_struct), ("list", _is_list)):
        if is_kind(kind):
            return word
    return f"single value ({kind})"


# -- single values -----------------------------------------------------------------------------------------------------


def _atomic(array: Array, target: pa.DataType) -> Array:
    kind = array.type
    t = pa.types
    if t.is_boolean(kind) or t.is_boolean(target):
        raise pa.ArrowInvalid("booleans are not cast to or from other types")
    if _is_text(kind) or _is_text(target):
        return _text(array, target)
    if _is_bytes(kind) or _is_bytes(target):
        if not (_is_bytes(kind) and _is_bytes(target)):
            raise pa.ArrowInvalid("bytes are not parsed, and other values do not become bytes; cast the column first")
        return array.cast(target, safe=True)
    if t.is_temporal(kind) or t.is_temporal(target):
        return _temporal(array, target)
    return _number(array, target)


def _in_range(array: Array) -> Array:
    """Return the array. Raises pa.ArrowInvalid for times and decimals out of range, which Arrow does not check."""
    kind: Any = array.type
    if pa.types.is_time(kind):
        ticks = array.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64())
        per_day = _SECONDS_OF_DAY * _PER_SECOND[kind.unit]
        found: Any = pc.min_max(ticks)
        if found["min"].is_valid and not 0 <= found["min"].as_py() <= found["max"].as_py() < per_day:
            raise pa.ArrowInvalid("a TIME is from 00:00:00 to before 24:00:00")
    elif pa.types.is_decimal(kind):
        found = pc.min_max(array)
        most = Decimal((0, (9,) * kind.precision, -kind.scale))
        if found["min"].is_valid and not most.copy_negate() <= found["min"].as_py() <= found["max"].as_py() <= most:
            raise pa.ArrowInvalid(f"a DECIMAL({kind.precision}, {kind.scale}) has no more than {kind.precision} digits")
    return _readable(array)


def _text(array: Array, target: pa.DataType) -> Array:
    if not _is_text(target):
        raise pa.ArrowInvalid("strings are not parsed; cast the column first")
    if not (_is_text(array.type) or _is_bytes(array.type)):
        raise pa.ArrowInvalid("other values do not become strings; cast the column first")
    if pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.binary())
    return array.cast(target, safe=True)


def _temporal(array: Array, target: pa.DataType) -> Array:
    kind: Any = array.type
    t = pa.types
    if t.is_timestamp(target) and t.is_timestamp(kind):
        wanted: Any = target
        if kind.tz is not None and wanted.tz is None:
            raise pa.ArrowInvalid(
                f"timestamps with a time zone ({kind.tz}) are instants, which a TIMESTAMP has no zone for; make the "
                "column a TIMESTAMP WITH LOCAL TIME ZONE, or convert the values to local times first"
            )
        return array.cast(target, safe=True)
    if t.is_date(target) and t.is_timestamp(kind):
        if kind.tz is not None:
            raise pa.ArrowInvalid("which day an instant is on depends on a time zone; convert the values to days first")
        days = array.cast(target, safe=False)
        if pc.any(pc.not_equal(days.cast(kind, safe=True), array)).as_py():
            raise pa.ArrowInvalid("a timestamp that is not at midnight would lose its time")
        return days
    is_day_as_time = t.is_timestamp(target) and t.is_date(kind)
    if is_day_as_time or (t.is_date(target) and t.is_date(kind)) or (t.is_time(target) and t.is_time(kind)):
        return array.cast(target, safe=True)
    raise pa.ArrowInvalid(f"{kind} has no exact cast to {target}; cast the column first")


def _number(array: Array, target: pa.DataType) -> Array:
    kind = array.type
    t = pa.types
    if t.is_decimal(target):
        if t.is_floating(kind):
            # By the shortest text of the float; digits beyond the scale are refused.
            digits = exact_decimals(array.cast(pa.string()), target)
            if pc.any(pc.and_(_is_zero(digits), pc.invert(_is_zero(array)))).as_py():
                # Arrow reads texts with an exponent below about -76 as 0.
                raise pa.ArrowInvalid("a number has more digits after the point than the scale")
            return digits
        if t.is_integer(kind):
            # Arrow requires enough digits for every value of the integer type.
            array = array.cast(pa.decimal128(20, 0), safe=True)
        return exact_decimals(array, target)
    if t.is_floating(target) and (t.is_floating(kind) or t.is_decimal(kind)):
        # Arrow computes floats from decimals, and one of eight is off by a digit; from a text it takes the nearest.
        made = (array.cast(pa.string()) if t.is_decimal(kind) else array).cast(target, safe=True)
        if pc.any(pc.and_(pc.is_inf(made), pc.is_finite(array))).as_py():
            raise pa.ArrowInvalid(f"a finite number is beyond the range of {target}")
        given = array if t.is_decimal(kind) else array.cast(pa.float64())
        if pc.any(pc.and_(_is_zero(made), pc.invert(_is_zero(given)))).as_py():
            raise pa.ArrowInvalid(f"a number is closer to 0 than any {target}")
        return made
    return array.cast(target, safe=True)


def _is_zero(numbers: Array) -> Array:
    return pc.equal(numbers, scalar_of(0, numbers.type))


def _is_text(kind: pa.DataType) -> bool:
    t = pa.types
    return t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind)


def _is_bytes(kind: pa.DataType) -> bool:
    t = pa.types
    return t.is_binary(kind) or t.is_large_binary(kind) or t.is_binary_view(kind) or t.is_fixed_size_binary(kind)
