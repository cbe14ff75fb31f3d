"""Values of columns from texts of a CSV file and values of a JSON file, and types of columns guessed from texts.

Values are taken exactly, or an error is raised. A number is never rounded, except a decimal text to the nearest FLOAT
or DOUBLE. A time is never truncated. A timestamp with a zone is an instant, which only a TIMESTAMP WITH LOCAL TIME ZONE
holds.

No guessed type loses a part of a text. A column gets a type other than STRING only if each of its texts is a value of
this type, and is written back unchanged, or as an equal number, time or boolean. So 0870, +49 and ' 5' are texts. A
column of integers is a BIGINT, or a DECIMAL(38, 0) if 64 bits are not enough. A column with fractions is a DOUBLE if
the shortest form of each double has the digits of its text, and a DECIMAL(38, …) otherwise.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.decoding import bytes_of_base64
from interbed.storage.base.row.values import coerce, exact_decimal, has_zone, parse_literal, to_float32, type_name
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import (
    BINARIES,
    INTEGERS,
    STRINGS,
    TIMESTAMPS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?")

_NUMBER_TEXT = r"^-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"

_NOT_FINITE = r"^(-?[Ii]nf(inity)?|NaN|nan)$"

_TIMES = frozenset({TypeRoot.DATE, TypeRoot.TIME, *TIMESTAMPS})

_FLOATS = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})

_DIGITS = re.compile(r"[+-]?\d+")

_IS_NOT_ZERO = re.compile(r"[+-]?[0.]*[1-9]")

TINY = r"[eE]-[0-9]{2}|0{30}"
"""Pattern in texts of numbers other than zero that a FLOAT or a DOUBLE rounds to zero."""

_COUNT = AtomicType(TypeRoot.INT, nullable=False)

_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}

VALUE_ERRORS = (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, NotImplementedError)
"""Errors of conversions of a value that does not fit; pyarrow's errors are among them."""


class JsonNumber(float):
    """A number of a JSON file that keeps its digits, for decimals."""

    def __new__(cls, text: str) -> "JsonNumber":
        number = super().__new__(cls, text)
        number.text = text
        return number

    text: str


# -- texts of CSV ------------------------------------------------------------------------------------------------------


def value_of_text(text: str, data_type: AtomicType) -> object:
    """Return the value of a field of a CSV file; raise ValueError with the problem."""
    root = data_type.root
    stripped = text.strip()
    try:
        if root in STRINGS:
            return text
        if root in BINARIES:
            return bytes_of_base64(stripped)
        if root is TypeRoot.BOOLEAN:
            return _BOOLEANS[stripped.lower()]
        if root in _TIMES:
            return _time_of_text(stripped, data_type)
        if _NUMBER.fullmatch(stripped) is not None and root not in _FLOATS:
            return coerce(Decimal(stripped), data_type)
        scalar: Any = pa.scalar(stripped)
        value = scalar.cast(type_to_arrow(data_type)).as_py()
    except (*VALUE_ERRORS, InvalidOperation) as error:
        detail = str(error) if isinstance(error, _ZoneError) else ""
        raise ValueError(f"{text!r} is not a value of type {type_name(data_type)}{detail}") from None
    if root in _FLOATS:
        _check_float(value, stripped, root)
    return value


def not_utf8(error: UnicodeDecodeError) -> str:
    """Return a description of bytes that are not UTF-8, and the way out."""
    return (
        f"not UTF-8: byte 0x{error.object[error.start]:02x} at position {error.start} (convert a file in another "
        "encoding, as iconv -f LATIN1 -t UTF-8 does)"
    )


def is_doubtful(column: Any, kind: AtomicType, has_tiny: Callable[[], bool]) -> bool:
    """Return whether numbers of a column have to be compared with their texts.

    Arrow reads 1e400 as infinite, 1e-400 as 0, 9007199254740993 as the nearest float, and 1000 for a DECIMAL(5, 2)
    although it has too many digits. `has_tiny` returns whether one of the texts may be a number such as 1e-400.
    """
    import pyarrow.compute as pc

    if kind.root is TypeRoot.DECIMAL:
        greatest = exact_decimal(10 ** (kind.precision or 0) - 1, kind.scale or 0)
        beyond: Any = pc.greater(pc.abs(column), pa.scalar(greatest, column.type))
    elif kind.root in _FLOATS:
        limit = 2.0**24 if kind.root is TypeRoot.FLOAT else 2.0**53
        zero: Any = pc.equal(column, pa.scalar(0.0, column.type))
        if pc.any(zero).as_py() and has_tiny():
            return True
        beyond = pc.greater_equal(pc.abs(column), pa.scalar(limit, column.type))
    else:
        return False
    return bool(pc.any(beyond).as_py())


class _ZoneError(ValueError):
    """A timestamp with a zone for a column without one."""

    def __init__(self) -> None:
        super().__init__(": it has a time zone, and only a TIMESTAMP WITH LOCAL TIME ZONE takes instants")


def _time_of_text(text: str, data_type: AtomicType) -> object:
    if data_type.root is TypeRoot.TIMESTAMP and has_zone(text):
        raise _ZoneError
    return parse_literal(text, data_type)


def _check_float(value: float, text: str, root: TypeRoot) -> None:
    if math.isinf(value) and _NUMBER.fullmatch(text) is not None:
        raise ValueError(f"{text} is beyond the range of {root.value}")
    if value == 0 and _NUMBER.fullmatch(text) is not None and _IS_NOT_ZERO.match(text) is not None:
        raise ValueError(f"{text} is closer to 0 than any {root.value}")
    if _DIGITS.fullmatch(text) is not None and int(text) != value:
        raise ValueError(f"{text} has more digits than a {root.value}")


# -- values of JSON ----------------------------------------------------------------------------------------------------


def json_converter(data_type: DataType) -> Callable[[Any], Any] | None:
    """Return the conversion of a JSON value to an Arrow value; None if the value stays the same."""
    match data_type:
        case AtomicType(root=root) if root in _TIMES:
            return lambda value: _of_text(value, data_type)
        case AtomicType(root=TypeRoot.DECIMAL):
            return lambda value: _decimal(value, data_type)
        case AtomicType(root=root) if root in INTEGERS:
            return _whole
        case AtomicType(root=TypeRoot.FLOAT | TypeRoot.DOUBLE as root):
            return lambda value: _float(value, root)
        case AtomicType(root=root) if root in BINARIES:
            return lambda value: _bytes(value, data_type)
        case ArrayType(element=element):
            return _list_converter(element)
        case MapType(key=key, value=value):
            return _map_converter(key, value)
        case MultisetType(element=element):
            return _map_converter(element, _COUNT)
        case RowType(fields=fields):
            return _row_converter(fields)
        case _:
            return None


def _of_text(value: Any, data_type: AtomicType) -> object:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text of a {type_name(data_type)}")
    try:
        return _time_of_text(value, data_type)
    except _ZoneError as error:
        raise ValueError(f"{value!r} is not a value of type {type_name(data_type)}{error}") from None


def _decimal(value: Any, data_type: DataType) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is no number")
    return parse_literal(getattr(value, "text", None) or str(value), data_type)


def _whole(value: Any) -> Any:
    """Return an integer that JSON may have with a point; other values are left to Arrow, which refuses them."""
    if not isinstance(value, float):
        return value
    number = Decimal(getattr(value, "text", None) or repr(value))
    if not number.is_finite() or number != number.to_integral_value():
        raise ValueError(f"{number} is no whole number")
    return int(number)


def _float(value: Any, root: TypeRoot) -> Any:
    """Return a number that is a float or an integer without more digits; infinite only for Infinity in JSON."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is not a value of type {root.value}")
    nearest = to_float32(float(value)) if root is TypeRoot.FLOAT else float(value)
    text = getattr(value, "text", value)
    if math.isinf(nearest) and (isinstance(value, JsonNumber) or not math.isinf(value)):
        raise ValueError(f"{text} is beyond the range of {root.value}")
    if nearest == 0 and _IS_NOT_ZERO.match(str(text)) is not None:
        raise ValueError(f"{text} is closer to 0 than any {root.value}")
    if isinstance(value, int) and nearest != value:
        raise ValueError(f"{text} has more digits than a {root.value}")
    return value


def _bytes(value: Any, data_type: DataType) -> bytes:
    try:
        return bytes_of_base64(value)
    except VALUE_ERRORS:
        raise ValueError(f"{no_value(value, data_type)}, which is a text in base 64") from None


def _list_converter(element: DataType) -> Callable[[Any], list[Any]]:
    convert = json_converter(element)

    def of_list(values: Any) -> list[Any]:
        if not isinstance(values, list):
            raise ValueError(f"{values!r} is no list")
        return values if convert is None else [None if v is None else convert(v) for v in values]

    return of_list


def _row_converter(fields: Sequence[DataField]) -> Callable[[Any], Any]:
    inside = {f.name: json_converter(f.type) for f in fields}

    def convert(row: Any) -> Any:
        if not isinstance(row, dict):
            raise ValueError(f"{row!r} is no object")
        unknown = next((name for name in row if name not in inside), None)
        if unknown is not None:
            raise ValueError(f"there is no field {unknown!r}; the fields are {', '.join(inside)}")
        return {
            name: value if value is None or (of := inside[name]) is None else of(value) for name, value in row.items()
        }

    return convert


def _map_converter(key: DataType, value: DataType) -> Callable[[Any], Any]:
    convert_value = json_converter(value)
    as_value = json_converter(key) or (lambda given: given)

    def of_key(given: Any) -> Any:
        # Keys of objects are always texts; bytes are base64 there, too.
        is_text = isinstance(key, AtomicType) and isinstance(given, str) and key.root not in BINARIES
        return parse_literal(given, key) if is_text else as_value(given)

    def convert(given: Any) -> list[tuple[Any, Any]]:
        pairs: Any = given.items() if isinstance(given, dict) else given
        if not isinstance(given, dict | list) or not all(isinstance(given, dict) or _is_pair(p) for p in pairs):
            raise ValueError(f"{given!r} is no object and no list of pairs")
        return [(of_key(k), v if v is None or convert_value is None else convert_value(v)) for k, v in pairs]

    return convert


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2


def no_value(value: object, data_type: DataType) -> str:
    """Return a message about a value that Arrow refuses for a column."""
    return f"{value!r} is not a value of type {type_name(data_type)}"


def misfit(value: Any, data_type: DataType, name: str = "") -> str | None:
    """Return the reason why a converted value does not fit the type, with the field inside of it; None if it fits."""
    found: Iterator[str | None]
    match data_type:
        case RowType(fields=fields) if isinstance(value, dict):
            found = (misfit(value.get(f.name), f.type, f"{name}.{f.name}") for f in fields)
        case ArrayType(element=element) if isinstance(value, list):
            found = (misfit(each, element, f"{name}[{place}]") for place, each in enumerate(value))
        case MultisetType(element=element) if isinstance(value, list):
            return misfit(value, MapType(element, _COUNT), name)
        case MapType(key=key, value=inside) if isinstance(value, list):
            if any(each is None for each, _ in value):
                return f"a key of a map{_place(name)} is null"
            of_keys = (misfit(each, key, name) for each, _ in value)
            found = chain(of_keys, (misfit(each, inside, f"{name}[{k!r}]") for k, each in value))
        case _:
            try:
                pa.array([value], type_to_arrow(data_type))
            except VALUE_ERRORS:
                return no_value(value, data_type) + _place(name)
            return None
    return next((reason for reason in found if reason is not None), None)


def _place(name: str) -> str:
    return f" in {name.removeprefix('.')}" if name else ""


_WHOLE = r"^(0|-?[1-9][0-9]*)$"

_TRUTH = r"^([Tt]rue|TRUE|[Ff]alse|FALSE)$"

_BARE = r"^[^\s].*[^\s]$"

_PRECISION = 38

_BIGINT_DIGITS = 18
"""Numbers with up to 18 digits fit in 64 bits; some with 19 digits do not."""

_LONG = r"^-?[0-9]{16,}$"
"""Integers that are not all a DOUBLE."""


@dataclass(slots=True)
class GuessedColumn:
    """The common type of the texts of a column so far."""

    is_text: bool = False
    other: Any = None
    """The type of booleans, dates and times."""
    has_numbers: bool = False
    is_bigint: bool = True
    is_double: bool = True
    is_decimal: bool = True
    has_infinite: bool = False
    whole_digits: int = 0
    scale: int = 0

    @property
    def type(self) -> pa.DataType:
        """The type of all texts; STRING for a column without any."""
        if self.is_text or (self.has_infinite and not self.has_numbers):
            return pa.string()
        if self.has_numbers:
            if self.is_bigint:
                return pa.int64()
            if self.is_double:
                return pa.float64()
            fits = self.is_decimal and self.whole_digits + self.scale <= _PRECISION
            return pa.decimal128(_PRECISION, self.scale) if fits else pa.string()
        return pa.string() if self.other is None else self.other

    def add(self, texts: Any, inferred: pa.DataType) -> None:
        """Add texts, for which Arrow has inferred a type."""
        texts = texts.drop_null()
        if self.is_text or not len(texts):
            return
        is_infinite = pc.match_substring_regex(texts, _NOT_FINITE)
        numbers = texts.filter(pc.invert(is_infinite)) if _any(is_infinite) else texts
        if _all_match(numbers, _NUMBER_TEXT) and self.other is None:
            if len(numbers) < len(texts):
                self.has_infinite, self.is_bigint, self.is_decimal = True, False, False
            if len(numbers):
                self._add_numbers(numbers)
            return
        kind = inferred if pa.types.is_boolean(inferred) or pa.types.is_temporal(inferred) else None
        if kind is not None and not self.has_numbers and not self.has_infinite:
            pattern = _TRUTH if pa.types.is_boolean(kind) else _BARE
            common = kind if self.other is None else _common(self.other, kind)
            self.other = common if _all_match(texts, pattern) else None
        else:
            self.other = None
        self.is_text = self.other is None

    def _add_numbers(self, numbers: Any) -> None:
        self.has_numbers = True
        is_whole = _all_match(numbers, _WHOLE)
        self.is_bigint = self.is_bigint and is_whole and _is_bigint(numbers)
        self.is_double = self.is_double and _is_double(numbers)
        if not self.is_decimal:
            return
        if _any(pc.match_substring(numbers, "e", ignore_case=True)):
            self.is_decimal = False
            return
        whole = _longest(pc.replace_substring_regex(numbers, r"^-?0?|\..*$", ""))
        self.whole_digits = max(self.whole_digits, whole)
        if not is_whole:
            self.scale = max(self.scale, _longest(pc.replace_substring_regex(numbers, r"^-?[0-9]*\.?", "")))


def _all_match(texts: Any, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py())


def _any(values: Any) -> bool:
    return bool(pc.any(values, min_count=0).as_py())


def _longest(texts: Any) -> int:
    return int(pc.max(pc.utf8_length(texts)).as_py() or 0)


def _is_bigint(whole_numbers: Any) -> bool:
    if _longest(whole_numbers) <= _BIGINT_DIGITS:
        return True
    try:
        whole_numbers.cast(pa.int64())
    except pa.ArrowInvalid:
        return False
    return True


def _is_double(numbers: Any) -> bool:
    """Return whether the shortest form of each double has the digits of its text, and so is the same number."""
    try:
        doubles = numbers.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    if not pc.all(pc.equal(_digits(numbers), _digits(doubles.cast(pa.string())))).as_py():
        return False
    # A double has to equal a long integer exactly, otherwise an import refuses it.
    is_long: Any = pc.match_substring_regex(numbers, _LONG)
    pairs = zip(numbers.filter(is_long).to_pylist(), doubles.filter(is_long).to_pylist(), strict=True)
    return all(math.isfinite(double) and int(text) == double for text, double in pairs)


def _digits(numbers: Any) -> Any:
    """Return the digits of numbers without zeros at either end."""
    return pc.replace_substring_regex(
        pc.replace_substring_regex(pc.replace_substring_regex(numbers, r"[eE].*$|[-.]", ""), r"^0+", ""), r"0+$", ""
    )


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return a type for the values of both types, or None."""
    if one == other:
        return one
    kinds = (one, other)
    if not all(pa.types.is_date(kind) or pa.types.is_timestamp(kind) for kind in kinds):
        return None
    # Instants are neither timestamps without a zone nor dates.
    if len({getattr(kind, "tz", None) for kind in kinds}) > 1:
        return None
    return next((kind for kind in kinds if getattr(kind, "unit", None) == "ns"), _timestamps(kinds))


def _timestamps(kinds: tuple[pa.DataType, pa.DataType]) -> pa.DataType:
    return next(kind for kind in kinds if pa.types.is_timestamp(kind))
