"""Types of MySQL as Canal's messages state them, and conversion of their values, which Canal writes as texts.

| MySQL | column | text |
|---|---|---|
| TINYINT(1), BOOLEAN, BIT(1) | BOOLEAN | 0 or 1 |
| other integers | the smallest type for all their values; BIGINT UNSIGNED is DECIMAL(20, 0) | digits |
| DECIMAL(p, s) | DECIMAL(p, s); STRING beyond 38 digits | digits |
| DATETIME(n), TIMESTAMP(n) | TIMESTAMP(n) | 2023-03-23 14:30:05.123 |
| TIME(n) | TIME; it has milliseconds, whatever n is | 14:30:05.123 |
| BINARY, VARBINARY, BLOB, … | BYTES | a letter of Latin 1 for each byte |
| BIT(n) | BYTES, the highest bits first | the bits as a decimal number |
| ENUM, SET | STRING, ARRAY<STRING> | the number of the value from 1 on; the sum of 1, 2, 4, … for each |
| CHAR, TEXT, JSON, … | STRING | itself |

Sources: Paimon's documentation, page MySQL CDC, and the types that its `MySqlTypeUtils` gives; Canal's
`LogEventConvert` for the texts. Paimon's casts drop digits that do not fit the type; here such a text is bad. Spatial
types are not supported: Canal has MySQL's bytes, of which Paimon makes GeoJSON.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.formats.arrays import NUMBER_FORM, Array, check_not_lost, converted_values, inexact_integer
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.base.types.casting.cast import cast_values
from interbed.storage.base.types.data_type import AtomicType, TypeRoot

_DAY = r"[0-9]{4,}-[0-9]{1,2}-[0-9]{1,2}"
_CLOCK = r"[0-9]{{1,2}}:[0-9]{{1,2}}(:[0-9]{{1,2}}(\.[0-9]{{0,{}}}0*)?)?"
_MAYBE_LATE = r"-(29|30|31)([ T]|$)|[ T]24:"
_DAY_OF_MONTH = r"^[0-9]+-[0-9]+-(?P<day>[0-9]+)"
_NO_TIME = (
    "a TIME of a table is a time of the day with three digits after the second. Let MySQL have time(3) and times of a "
    "day alone, or leave the column out where Canal runs"
)

Convert = Callable[[Array], Array]

_TYPE = re.compile(r"\s*([a-z][a-z0-9_ ]*)(?:\((.*)\)([a-z0-9_ ]*))?\s*", re.IGNORECASE | re.DOTALL)
_LETTERS = re.compile(r"\b(CHARACTER|CHARSET|COLLATE)\b.*")
_OPTION = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_TEXT = AtomicType("STRING")
_LIST = pa.list_(pa.field("element", pa.string()))
_MOST_DIGITS = 38
_DEFAULT_DECIMAL = (38, 18)
"""The type that Paimon uses if the message states a DECIMAL without digits."""
_INTEGERS = {
    "TINYINT": ("TINYINT", "SMALLINT"),
    "SMALLINT": ("SMALLINT", "INT"),
    "MEDIUMINT": ("INT", "BIGINT"),
    "INT": ("INT", "BIGINT"),
    "INTEGER": ("INT", "BIGINT"),
    "BIGINT": ("BIGINT", "DECIMAL(20, 0)"),
    "LONG": ("BIGINT", "BIGINT"),
    "SERIAL": ("DECIMAL(20, 0)", "DECIMAL(20, 0)"),
}
"""The columns for signed and for unsigned integers."""
_PLAIN = {
    **dict.fromkeys(("BOOLEAN", "BOOL"), "BOOLEAN"),
    "FLOAT": "FLOAT",
    **dict.fromkeys(("REAL", "DOUBLE", "DOUBLE PRECISION"), "DOUBLE"),
    "DATE": "DATE",
    "TIME": "TIME",
    "YEAR": "INT",
}
_DECIMALS = ("NUMERIC", "FIXED", "DECIMAL")
_TIMESTAMPS = ("DATETIME", "TIMESTAMP")
_TEXTS = ("CHAR", "VARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "JSON", "STRING")
_BYTES = ("BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB")


@dataclass(frozen=True, slots=True)
class MysqlType:
    """A type of MySQL. `convert` makes values of texts, and raises ValueError if a text is no value of the type."""

    text: str
    convert: Convert


@cache
def mysql_type(text: str) -> MysqlType:
    """Return the type with a name such as `int(10) unsigned`. Raises NotSupportedError if no column can have it."""
    found = _TYPE.fullmatch(text)
    if found is None:
        raise NotSupportedError(f"The type {text!r} of MySQL is not known.")
    words = _LETTERS.sub("", f"{found[1]} {found[3] or ''}".upper()).split()
    unsigned = "UNSIGNED" in words
    name = " ".join(word for word in words if word not in ("UNSIGNED", "SIGNED", "ZEROFILL"))
    return MysqlType(text, _convert(name, unsigned, found[2], text))


def _convert(name: str, unsigned: bool, inside: str | None, text: str) -> Convert:
    if name in _TEXTS:
        return _as_it_is
    if name in _BYTES:
        return _bytes
    if name in ("ENUM", "SET"):
        options = tuple(_unescaped(option) for option in _OPTION.findall(inside or ""))
        return _DistinctValues(_Enum(options), pa.string()) if name == "ENUM" else _DistinctValues(_Set(options), _LIST)
    sizes = [int(size) for size in (inside or "").split(",") if size.strip().isdigit()]
    size = sizes[0] if sizes else None
    if name == "BIT":
        if size in (None, 1):
            return _Cast(AtomicType("BOOLEAN"))
        return _DistinctValues(_BitString(size or 1), pa.binary())
    if name in _INTEGERS:
        if name == "TINYINT" and size == 1 and not unsigned:
            return _Cast(AtomicType("BOOLEAN"))
        return _Cast(AtomicType(_INTEGERS[name][unsigned]))
    if name in _DECIMALS:
        digits, scale = (*sizes, 0)[:2] if sizes else _DEFAULT_DECIMAL
        if digits > _MOST_DIGITS:
            return _as_it_is
        return _Cast(AtomicType(TypeRoot.DECIMAL, precision=digits or 10, scale=scale))
    if name in _TIMESTAMPS:
        return _Cast(AtomicType(TypeRoot.TIMESTAMP, precision=_fraction_digits(size or 0)))
    if name in _PLAIN:
        return _Cast(AtomicType(_PLAIN[name]))
    raise NotSupportedError(f"The type {text!r} of MySQL has no column here; leave the column out where Canal runs.")


def _fraction_digits(size: int) -> int:
    # Some messages state the length of the text instead: 19, plus the point and the digits.
    return min(size if size < 19 else max(size - 20, 0), 9)


def _unescaped(option: str) -> str:
    return re.sub(r"''|\\(.)", lambda found: found[1] or "'", option, flags=re.DOTALL)


def _as_it_is(texts: Array) -> Array:
    return texts


@dataclass(frozen=True, slots=True)
class _Cast:
    """Texts as values of a type in Paimon's grammar, except those of which a cast would lose a part."""

    type: AtomicType

    def __call__(self, texts: Array) -> Array:
        self._check_form(texts)
        made: Any
        try:
            made = cast_values(texts, _TEXT, self.type)
        except ValueError as error:
            if self.type.root is not TypeRoot.TIME:
                raise
            # The error of the cast names TIME(0), without the digits that the type has.
            raise ValueError(_NO_TIME) from error
        if made.null_count > texts.null_count:
            # A cast makes null of a value with too many digits, which would lose the value.
            is_lost: Any = pc.and_(made.is_null(), texts.is_valid())
            lost: Any = texts.filter(is_lost)
            raise ValueError(f"{lost[0].as_py()!r} has too many digits for {self.type.type}")
        if self.type.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
            self._check_floats(texts, made)
        if self.type.root is TypeRoot.TIMESTAMP:
            self._check_days(texts, made)
        return made  # type: ignore[no-any-return]

    def _check_form(self, texts: Array) -> None:
        """Refuse texts of which Paimon's cast drops digits, and numbers that it takes for dates."""
        root, digits = self.type.root, self.type.precision or 0
        match root:
            case TypeRoot.TINYINT | TypeRoot.SMALLINT | TypeRoot.INT | TypeRoot.BIGINT:
                form, why = "[-+]?[0-9]+", "it is no integer"
            case TypeRoot.DECIMAL:
                form, why = _decimal_form(self.type.scale or 0), f"it has too many digits for {self.type.type}"
            case TypeRoot.DATE:
                form, why = _DAY, "it is no date"
            case TypeRoot.TIME:
                form, why = _CLOCK.format(3), _NO_TIME
            case TypeRoot.TIMESTAMP:
                form = f"{_DAY}([ T]{_CLOCK.format(digits)})?"
                why = f"it is no date and time, or has more than {digits} digits after the second"
            case _:
                return
        others: Any = texts.filter(pc.invert(pc.match_substring_regex(texts, f"^({form})$"))).drop_null()
        if (
            len(others)
            and root is TypeRoot.DECIMAL
            and not pc.all(pc.match_substring_regex(others, NUMBER_FORM)).as_py()
        ):
            raise ValueError("it is no number")
        if len(others):
            raise ValueError(why)

    def _check_days(self, texts: Any, made: Any) -> None:
        """Refuse days after the end of their month and the hour 24, which a cast takes for another day."""
        is_late = pc.fill_null(pc.match_substring_regex(texts, _MAYBE_LATE), pa.scalar(False))
        if pc.any(is_late).as_py():
            late = texts.filter(is_late)
            days: Any = pc.struct_field(pc.extract_regex(late, _DAY_OF_MONTH), "day")
            others = late.filter(pc.not_equal(days.cast(pa.int64()), pc.day(made.filter(is_late))))
            if len(others):
                raise ValueError(f"{others[0].as_py()!r} is no {self.type.type}: there is no such time")

    def _check_floats(self, texts: Any, made: Any) -> None:
        """Refuse integers that the type does not hold exactly, and numbers that became infinite."""
        if inexact_integer(texts, self.type.root) is not None:
            raise ValueError(f"no {self.type.type} is this integer")
        finite = pc.invert(pc.match_substring_regex(texts, "(?i)inf"))
        if pc.any(pc.and_(pc.is_inf(made), finite)).as_py():
            raise ValueError(f"it is beyond the range of {self.type.type}")
        check_not_lost(texts, made, self.type.type)


def _decimal_form(scale: int) -> str:
    return rf"[-+]?([0-9]+(\.[0-9]{{0,{scale}}}0*)?|\.[0-9]{{0,{scale}}}0*)"


@dataclass(frozen=True, slots=True)
class _DistinctValues:
    """Conversion of each distinct value by a function. It is a loop, but columns of these types have few values."""

    convert: Callable[[str], object]
    arrow: pa.DataType

    def __call__(self, texts: Array) -> Array:
        encoded: Any = texts.dictionary_encode()
        distinct = pa.array([self.convert(each) for each in encoded.dictionary.to_pylist()], self.arrow)
        found: Array = distinct.take(encoded.indices)
        return found


@dataclass(frozen=True, slots=True)
class _Enum:
    options: tuple[str, ...]

    def __call__(self, text: str) -> str:
        # A dump of a table has the value itself, unlike the binlog.
        if text in self.options and not text.isdecimal():
            return text
        number = _number(text)
        if number > len(self.options):
            raise ValueError(f"{text!r} is none of {len(self.options)} values")
        # MySQL stores 0 for an invalid value.
        return self.options[number - 1] if number else ""


@dataclass(frozen=True, slots=True)
class _Set:
    options: tuple[str, ...]

    def __call__(self, text: str) -> list[str]:
        if not text.isdecimal():
            names = text.split(",") if text else []
            if not set(names) <= set(self.options):
                raise ValueError(f"{text!r} has none of {len(self.options)} values")
            return names
        number = _number(text)
        if number >= 1 << len(self.options):
            raise ValueError(f"{text!r} is none of the sets of {len(self.options)} values")
        return [option for i, option in enumerate(self.options) if number >> i & 1]


@dataclass(frozen=True, slots=True)
class _BitString:
    count: int

    def __call__(self, text: str) -> bytes:
        # 64 bits are written as a signed number.
        number = int(text) + (1 << self.count) * text.startswith("-") if text.startswith("-") else _number(text)
        if not 0 <= number < 1 << self.count:
            raise ValueError(f"{text!r} has more than {self.count} bits")
        return number.to_bytes((self.count + 7) // 8, "big")


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{text!r} is no number")
    return int(text)


def _bytes(texts: Array) -> Array:
    """Return a byte for each letter. Raises ValueError for a letter beyond Latin 1."""
    if texts.null_count == len(texts) or pc.all(pc.string_is_ascii(texts)).as_py():
        return texts.cast(pa.binary())
    # All letters at once: those beyond ASCII have two bytes in UTF-8 and lose one.
    together: Any = pa.concat_arrays([texts.fill_null(""), pa.array([], pa.string())])
    _, offsets, letters = together.buffers()
    ends = np.frombuffer(offsets, np.int32, len(texts) + 1, together.offset * 4)
    inside = np.frombuffer(letters, np.uint8)[ends[0] : ends[-1]]
    second = np.concatenate([[0], np.cumsum((inside & 0xC0) == 0x80)])
    begin = ends - ends[0]
    made = pa.Array.from_buffers(
        pa.binary(),
        len(texts),
        [None, pa.py_buffer((begin - second[begin]).astype(np.int32)), pa.py_buffer(_latin(bytes(inside)))],
    )
    found: Array = pc.if_else(texts.is_valid(), made, pa.scalar(None, pa.binary()))
    return found


def _latin(text: bytes) -> bytes:
    return text.decode().encode("latin-1")


def converted(column: Array, kind: MysqlType, name: str) -> tuple[Array, Mapping[int, str]]:
    """Convert texts to values of the type. Return also the reasons, by place, for invalid texts; these are null."""
    made, errors = converted_values(column, kind.convert, kind.convert(pa.nulls(0, pa.string())).type)
    return made, {
        i: f"its column {name!r}, {kind.text} in MySQL, can't have {_short(column[i].as_py())}: {error}"
        for i, error in errors.items()
    }


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")
