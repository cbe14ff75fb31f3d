"""Filters of partitions: a tree of comparisons of search forms, which the repository turns into SQL.

There is no negation in the tree: NOT is pushed down to the comparisons, so that a partition without a value is selected
neither by a comparison nor by its opposite, as in SQL. Only the default partition itself can be selected by name.

A partition's value is text, whatever its key's type. For comparisons in SQL each has a search form, which sorts by code
points as the values sort by their type:

    string, char, varchar, boolean   the text itself
    tinyint … bigint                 a letter for sign and number of digits, then the digits; those of negative
                                     numbers as their difference to 9: -12 "U87", 0 "b0", 7 "b7", 12 "c12"
    date                             yyyy-mm-dd
    timestamp                        yyyy-mm-dd hh:mm:ss[.fraction], without zeros at its end
    other types                      the text; filters on such keys are refused

A value that is invalid for its type, as the default partition is for a number, has the empty text: it sorts before all
others, and no comparison holds for it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum

from interbed.catalog.server.service.model import MetastoreColumn
from interbed.catalog.server.service.names import DEFAULT_PARTITION_NAME, escaped

NO_VALUE = ""
"""The search form of an invalid value of the key's type."""

DIGITS_MAX = 22
"""Digits that the letters provide for; bigint has 19."""

_DIGITS = re.compile(r"[+-]?[0-9]+")
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T].*)?", re.DOTALL)
_TIMESTAMP = re.compile(r"(\d{4}-\d{1,2}-\d{1,2})(?:[ T](\d{1,2}:\d{1,2}:\d{1,2})(?:\.(\d{1,9}))?)?")
_COMPLEMENT = str.maketrans("0123456789", "9876543210")

ANY_TEXT = "%"
ANY_CHARACTER = "_"
"""Parts of a Like's pattern; a literal part that is one of these is written after a backslash."""

_OPPOSITES = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_LIKE_PARTS = re.compile(r"\\[%_]|\.\*|%|_|[^\\.%_]+|.", re.DOTALL)


class KeyKind(StrEnum):
    """Kind of comparison of a partition key's values."""

    TEXT = "text"
    INTEGRAL = "integral"
    DATE = "date"
    TIMESTAMP = "timestamp"
    OTHER = "other"


_KINDS = {
    **dict.fromkeys(("string", "char", "varchar", "boolean"), KeyKind.TEXT),
    **dict.fromkeys(("tinyint", "smallint", "int", "integer", "bigint"), KeyKind.INTEGRAL),
    "date": KeyKind.DATE,
    "timestamp": KeyKind.TIMESTAMP,
}


def kind_of_type(type_text: str | None) -> KeyKind:
    """Return the kind of a key by its Hive type; a key without a type is text."""
    return _KINDS.get((type_text or "string").partition("(")[0].strip().lower(), KeyKind.OTHER)


def search_form(kind: KeyKind, value: str) -> str:
    """Return the search form of a partition's value; NO_VALUE if it is invalid for the type, never an error."""
    if kind is KeyKind.INTEGRAL:
        return integral_form(int(value)) if _DIGITS.fullmatch(value) and len(value) <= 64 else NO_VALUE
    if kind is KeyKind.DATE:
        return date_form(value)
    if kind is KeyKind.TIMESTAMP:
        return timestamp_form(value)
    # A partition without a value is stored in the default partition's directory, and is found under its name.
    return value or DEFAULT_PARTITION_NAME


def integral_form(number: int) -> str:
    """Return the search form of a number; NO_VALUE if it has more digits than any key's type."""
    digits = str(abs(number))
    if len(digits) > DIGITS_MAX:
        return NO_VALUE
    if number < 0:
        return chr(ord("W") - len(digits)) + digits.translate(_COMPLEMENT)
    return chr(ord("a") + len(digits)) + digits


def date_form(text: str) -> str:
    """Return the search form of a date; text after the day is ignored, as in Hive. NO_VALUE for other text."""
    match = _DATE.fullmatch(text)
    if match is None:
        return NO_VALUE
    try:
        return date(int(match[1]), int(match[2]), int(match[3])).isoformat()
    except ValueError:
        return NO_VALUE


def timestamp_form(text: str) -> str:
    """Return the search form of a point in time; a date alone is its beginning. NO_VALUE for other text."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return NO_VALUE
    day = date_form(match[1])
    try:
        clock = datetime.strptime(match[2] or "00:00:00", "%H:%M:%S").strftime("%H:%M:%S")
    except ValueError:
        return NO_VALUE
    fraction = (match[3] or "").rstrip("0")
    return f"{day} {clock}{'.' + fraction if fraction else ''}" if day else NO_VALUE


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyComparison:
    """The key at `position` compared with a search form: one of = <> < <= > >=."""

    position: int
    operator: str
    operand: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """The key is one of the search forms, or none of them."""

    position: int
    operands: frozenset[str]
    negated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LikePattern:
    """The key's text matches a pattern: literal texts with ANY_TEXT and ANY_CHARACTER between them."""

    position: int
    pattern: tuple[str, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingValue:
    """The partition has no valid value of the key's type: it is the default partition. Or it has one (`negated`)."""

    position: int
    negated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyText:
    """The key's text is empty, as it was given when the partition was added; or it is not (`negated`).

    The partition has the default partition's name and search form, and Hive compares the value that it was given.
    """

    position: int
    negated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NameMatch:
    """The partition's name matches a pattern, as in LikePattern."""

    pattern: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllOf:
    """Every part holds; with no parts, everything is selected."""

    parts: tuple["PartitionFilter", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOf:
    """At least one part holds; with no parts, nothing is selected."""

    parts: tuple["PartitionFilter", ...] = ()


PartitionFilter = KeyComparison | OneOf | LikePattern | MissingValue | EmptyText | NameMatch | AllOf | AnyOf

EVERYTHING = AllOf()


def filter_of_values(keys: Sequence[MetastoreColumn], values: Sequence[str]) -> PartitionFilter:
    """Return the filter of the partitions with exactly these values, in the order of the keys; an empty one, or one
    that is missing at the end, matches any.
    """
    parts: list[PartitionFilter] = []
    pattern: list[str] = []
    exact = True
    for position, key in enumerate(keys):
        value = values[position] if position < len(values) else ""
        separator = "/" if position else ""
        _extend(pattern, f"{separator}{escaped(key.name.lower())}=")
        if not value:
            pattern.append(ANY_TEXT)
            continue
        _extend(pattern, escaped(value))
        kind = kind_of_type(key.type)
        form = search_form(kind, value)
        parts.append(
            MissingValue(position=position)
            if form == NO_VALUE
            else KeyComparison(position=position, operator="=", operand=form)
        )
        # 3 and 03 are the same number, but different partitions.
        exact = exact and kind in (KeyKind.TEXT, KeyKind.OTHER)
    return AllOf(parts=tuple(parts) if exact else (*parts, NameMatch(pattern=tuple(pattern))))


def _extend(pattern: list[str], literal: str) -> None:
    if pattern and pattern[-1].startswith("\\"):
        pattern[-1] += literal
    else:
        pattern.append("\\" + literal)


def any_of(parts: Sequence[PartitionFilter]) -> PartitionFilter:
    """Return the disjunction. Equalities of the same key are joined to one: clients write lists of
    thousands that way.
    """
    equal: dict[int, set[str]] = {}
    rest: list[PartitionFilter] = []
    for part in parts:
        if isinstance(part, KeyComparison) and part.operator == "=":
            equal.setdefault(part.position, set()).add(part.operand)
        elif isinstance(part, OneOf) and not part.negated:
            equal.setdefault(part.position, set()).update(part.operands)
        elif isinstance(part, AnyOf):
            rest.extend(part.parts)
        else:
            rest.append(part)
    merged: list[PartitionFilter] = [
        KeyComparison(position=position, operator="=", operand=next(iter(operands)))
        if len(operands) == 1
        else OneOf(position=position, operands=frozenset(operands))
        for position, operands in equal.items()
    ]
    merged.extend(rest)
    return merged[0] if len(merged) == 1 else AnyOf(parts=tuple(merged))


def all_of(parts: Sequence[PartitionFilter]) -> PartitionFilter:
    """Return the conjunction. Inequalities of the same key are joined to one, as equalities in any_of."""
    unequal: dict[int, set[str]] = {}
    rest: list[PartitionFilter] = []
    for part in parts:
        if isinstance(part, KeyComparison) and part.operator == "<>":
            unequal.setdefault(part.position, set()).add(part.operand)
        elif isinstance(part, OneOf) and part.negated:
            unequal.setdefault(part.position, set()).update(part.operands)
        else:
            rest.append(part)
    merged: list[PartitionFilter] = [
        KeyComparison(position=position, operator="<>", operand=next(iter(operands)))
        if len(operands) == 1
        else OneOf(position=position, operands=frozenset(operands), negated=True)
        for position, operands in unequal.items()
    ]
    return AllOf(parts=(*rest, *merged))


def opposite(part: PartitionFilter) -> PartitionFilter:
    """Return the negation, which does not select partitions without a value either."""
    if isinstance(part, KeyComparison):
        return KeyComparison(position=part.position, operator=_OPPOSITES[part.operator], operand=part.operand)
    if isinstance(part, OneOf):
        return OneOf(position=part.position, operands=part.operands, negated=not part.negated)
    if isinstance(part, LikePattern):
        return LikePattern(position=part.position, pattern=part.pattern, negated=not part.negated)
    if isinstance(part, MissingValue):
        return MissingValue(position=part.position, negated=not part.negated)
    if isinstance(part, EmptyText):
        return EmptyText(position=part.position, negated=not part.negated)
    if isinstance(part, AllOf):
        return any_of([opposite(each) for each in part.parts])
    if isinstance(part, NameMatch):
        raise AssertionError("no filter's text asks for names")
    return all_of([opposite(each) for each in part.parts])


def like_pattern(text: str) -> tuple[str, ...]:
    """Return the parts of a LIKE's text: ANY_TEXT, ANY_CHARACTER, and literals, each of which begins with a
    backslash.
    """
    parts: list[str] = []
    for part in _LIKE_PARTS.findall(text):
        if part in ("%", ".*"):
            if parts[-1:] != [ANY_TEXT]:
                parts.append(ANY_TEXT)
        elif part == "_":
            parts.append(ANY_CHARACTER)
        else:
            literal = part[1:] if len(part) == 2 and part[0] == "\\" and part[1] in "%_" else part
            _extend(parts, literal)
    return tuple(parts)


def comparisons_in(part: PartitionFilter) -> int:
    """Return how many comparisons the tree has."""
    return sum(comparisons_in(each) for each in part.parts) if isinstance(part, AllOf | AnyOf) else 1


def patterns_in(part: PartitionFilter) -> int:
    """Return how many patterns of LIKE the tree has."""
    if isinstance(part, AllOf | AnyOf):
        return sum(patterns_in(each) for each in part.parts)
    return int(isinstance(part, LikePattern))
