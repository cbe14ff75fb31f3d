"""Types of columns guessed from the texts of a CSV file: no type that would lose a part of a text.

A column gets a type other than STRING only if each of its texts is a value of this type, and is written back as it
was, or as an equal number, time or truth value. So 0870, +49 and ' 5' are texts. A column of whole numbers is a
BIGINT, or a DECIMAL(38, 0) where 64 bits are too few. One with fractions is a DOUBLE if the shortest form of each
double has the digits of its text, and a DECIMAL(38, …) if not.
"""

import math
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_NUMBER = r"^-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_NOT_FINITE = r"^(-?[Ii]nf(inity)?|NaN|nan)$"
_WHOLE = r"^(0|-?[1-9][0-9]*)$"
_TRUTH = r"^([Tt]rue|TRUE|[Ff]alse|FALSE)$"
_BARE = r"^[^\s].*[^\s]$"
_PRECISION = 38
_BIGINT_DIGITS = 18
"""Digits of which each number has 64 bits; one more digit may be too many."""

_LONG = r"^-?[0-9]{16,}$"
"""Whole numbers of which not each is a DOUBLE."""


@dataclass(slots=True)
class GuessedColumn:
    """What the texts of a column that were seen have in common."""

    is_text: bool = False
    other: Any = None
    """The type of truth values, dates and times."""
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
        """Take more texts, for which Arrow has inferred a type by itself."""
        texts = texts.drop_null()
        if self.is_text or not len(texts):
            return
        is_infinite = pc.match_substring_regex(texts, _NOT_FINITE)
        numbers = texts.filter(pc.invert(is_infinite)) if _any(is_infinite) else texts
        if _all_match(numbers, _NUMBER) and self.other is None:
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
    """Whether the shortest form of each double has the digits of its text, and so is the same number."""
    try:
        doubles = numbers.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    if not pc.all(pc.equal(_digits(numbers), _digits(doubles.cast(pa.string())))).as_py():
        return False
    # Of a long whole number a double has to be the same number, not the nearest: else an import refuses it.
    is_long: Any = pc.match_substring_regex(numbers, _LONG)
    pairs = zip(numbers.filter(is_long).to_pylist(), doubles.filter(is_long).to_pylist(), strict=True)
    return all(math.isfinite(double) and int(text) == double for text, double in pairs)


def _digits(numbers: Any) -> Any:
    """The digits of numbers without zeros at either end; they differ by more than rounding where a power of 10 does."""
    return pc.replace_substring_regex(
        pc.replace_substring_regex(pc.replace_substring_regex(numbers, r"[eE].*$|[-.]", ""), r"^0+", ""), r"0+$", ""
    )


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type of the values of both types, or None."""
    if one == other:
        return one
    kinds = (one, other)
    if not all(pa.types.is_date(kind) or pa.types.is_timestamp(kind) for kind in kinds):
        return None
    # Instants are no timestamps without a zone, and no dates.
    if len({getattr(kind, "tz", None) for kind in kinds}) > 1:
        return None
    return next((kind for kind in kinds if getattr(kind, "unit", None) == "ns"), _timestamps(kinds))


def _timestamps(kinds: tuple[pa.DataType, pa.DataType]) -> pa.DataType:
    return next(kind for kind in kinds if pa.types.is_timestamp(kind))
