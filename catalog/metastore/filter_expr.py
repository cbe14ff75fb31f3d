"""The filter language of partitions: `dt = "2024-01-01" and (n > 3 or (n) in (1, 2))`.

Keys are compared with literals (or literals with keys); operators are =, !=, <>, <, <=, >, >=, LIKE, BETWEEN, IN (of
several keys, too: `(struct(a, b)) in (const struct(1, "x"))`) and their negations, joined by AND, OR, NOT and
parentheses.
Literals are numbers, quoted text, and dates and timestamps, bare, quoted, or after DATE or TIMESTAMP. In text a
backslash stands for itself, but before the quote that encloses the text; clients do not escape. LIKE knows `%`, `_`
and, as older clients write it, `.*`; a backslash takes the meaning from `%` and `_`. An empty filter selects all.

The result is a tree whose literals are search forms (partition_values.py), for the repository to put into SQL. There
is no negation in it: NOT is carried down to the comparisons, so that a partition without a value is selected neither
by a comparison nor by its opposite, as in SQL. Only the default partition itself can be asked for by name.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import LarkError, VisitError

from interbed.catalog.metastore.errors import FilterError
from interbed.catalog.metastore.model import Column
from interbed.catalog.metastore.names import shortened
from interbed.catalog.metastore.partition_names import escaped, unescaped
from interbed.catalog.metastore.partition_values import (
    NO_VALUE,
    KeyKind,
    date_form,
    integral_form,
    kind_of_type,
    search_form,
    timestamp_form,
)
from interbed.catalog.metastore.settings import DEFAULT_PARTITION_NAME

FILTER_CHARACTERS_MAX = 1_000_000
"""Longer filters are refused; Spark's lists of thousands of values stay far below."""

COMPARISONS_MAX = 5_000
"""Comparisons in a filter. Those of one key with many values, by IN or by `or`, are one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
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
class Like:
    """The key's text matches a pattern: literal texts with ANY_TEXT and ANY_CHARACTER between them."""

    position: int
    pattern: tuple[str, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """The partition has no value of the key's type: it is the default partition. Or it has one (`negated`)."""

    position: int
    negated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The partition's name matches a pattern, as in Like."""

    pattern: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllOf:
    """Every part holds; with no parts, everything is selected."""

    parts: tuple["PartitionFilter", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOf:
    """At least one part holds; with no parts, nothing is selected."""

    parts: tuple["PartitionFilter", ...] = ()


PartitionFilter = Compared | OneOf | Like | Absent | Named | AllOf | AnyOf

EVERYTHING = AllOf()

ANY_TEXT = "%"
ANY_CHARACTER = "_"
"""Parts of a Like's pattern; a literal part that is one of these stands in front of a backslash."""

_GRAMMAR = r"""
    ?start: disjunction
    ?disjunction: conjunction ("or"i conjunction)*
    ?conjunction: negation ("and"i negation)*
    ?negation: "not"i negation -> negated
             | predicate
    ?predicate: "(" disjunction ")"
              | key COMPARISON literal -> compared
              | literal COMPARISON key -> compared_reversed
              | key NOT? "like"i literal -> like
              | literal "like"i key -> like_reversed
              | key NOT? "between"i literal "and"i literal -> between
              | key NOT? "in"i "(" literal ("," literal)* ")" -> is_in
              | "(" key ")" NOT? "in"i "(" literal ("," literal)* ")" -> is_in
              | "(" STRUCT "(" keys ")" ")" NOT? "in"i "(" row ("," row)* ")" -> rows_in
    keys: key ("," key)*
    row: CONST? STRUCT "(" literal ("," literal)* ")"
    key: NAME | QUOTED_NAME
    ?literal: STRING -> text
            | INTEGER -> integer
            | DATE_WORD STRING -> date
            | TIMESTAMP_WORD STRING -> timestamp
            | BARE_DATE -> bare
            | BARE_TIMESTAMP -> bare
    NOT.3: /not\b/i
    STRUCT.4: /struct(?=\s*\()/i
    CONST.4: /const(?=\s+struct)/i
    DATE_WORD.4: /date(?=\s*['"])/i
    TIMESTAMP_WORD.4: /timestamp(?=\s*['"])/i
    COMPARISON: "<=" | ">=" | "<>" | "!=" | "==" | "=" | "<" | ">"
    STRING: /"(\\.|[^"\\])*"/s | /'(\\.|[^'\\])*'/s
    QUOTED_NAME: /`([^`]|``)+`/
    NAME: /(?!(and|or|not|like|between|in)\b)[A-Za-z_][A-Za-z0-9_]*/i
    BARE_TIMESTAMP.3: /\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}/
    BARE_DATE.2: /\d{4}-\d{2}-\d{2}/
    INTEGER: /-?\s*\d+/
    %import common.WS
    %ignore WS
"""


@cache
def _parser() -> Lark:
    # Made when the first filter comes: its tables take a twentieth of the time that a server needs to start.
    return Lark(_GRAMMAR, parser="lalr", maybe_placeholders=False)


_OPPOSITES = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_UNSUPPORTED = "Filtering is supported only on partition keys of type string"
_LIKE_PARTS = re.compile(r"\\[%_]|\.\*|%|_|[^\\.%_]+|.", re.DOTALL)


def parse_filter(text: str | None, keys: Sequence[Column], *, escaped_literals: bool = False) -> PartitionFilter:
    """The tree of a filter, in whose texts characters may be escaped as in partitions' names. FilterError if it does
    not parse, names something else than a key, or compares unlike things.
    """
    if text is None or not text.strip():
        return EVERYTHING
    if len(text) > FILTER_CHARACTERS_MAX:
        raise FilterError(f"Error parsing partition filter; it has more than {FILTER_CHARACTERS_MAX} characters")
    if "\0" in text:
        raise FilterError("Error parsing partition filter; it has a NUL character, which no partition's value has")
    try:
        tree: PartitionFilter = _Builder(keys, escaped_literals).transform(_parser().parse(text))
        comparisons = _size(tree)
    except VisitError as error:
        if isinstance(error.orig_exc, FilterError):
            raise error.orig_exc from error
        raise FilterError(f"Error parsing partition filter {shortened(text)!r}; {error.orig_exc}") from error
    except (LarkError, RecursionError) as error:
        reason = str(error).splitlines()[0] or type(error).__name__
        raise FilterError(f"Error parsing partition filter {shortened(text)!r}; {reason}") from error
    if comparisons > COMPARISONS_MAX:
        raise FilterError(f"Error parsing partition filter; it has more than {COMPARISONS_MAX} comparisons")
    return tree


def filter_of_values(keys: Sequence[Column], values: Sequence[str]) -> PartitionFilter:
    """What selects the partitions with exactly these values, in the order of the keys; an empty one, or one that is
    missing at the end, stands for any.
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
            Absent(position=position) if form == NO_VALUE else Compared(position=position, operator="=", operand=form)
        )
        # 3 and 03 are the same number, and different partitions.
        exact = exact and kind in (KeyKind.TEXT, KeyKind.OTHER)
    return AllOf(parts=tuple(parts) if exact else (*parts, Named(pattern=tuple(pattern))))


def _extend(pattern: list[str], literal: str) -> None:
    if pattern and pattern[-1].startswith("\\"):
        pattern[-1] += literal
    else:
        pattern.append("\\" + literal)


class _Key:
    """A key of the table, and how literals become search forms of it."""

    def __init__(self, position: int, column: Column) -> None:
        self.position = position
        self.kind = kind_of_type(column.type)
        self._column = column

    def operand(self, literal: str | int) -> str:
        """The literal's search form. FilterError if the key's values cannot be compared with it."""
        if self.kind is KeyKind.OTHER:
            raise FilterError(f"Filter pushdown not supported for type {self._column.type}. {_UNSUPPORTED}")
        if self.kind is KeyKind.INTEGRAL:
            try:
                form = integral_form(int(literal))
            except ValueError:
                form = NO_VALUE
        elif isinstance(literal, int):
            raise FilterError(_UNSUPPORTED)
        elif self.kind is KeyKind.TEXT:
            return literal
        else:
            form = (date_form if self.kind is KeyKind.DATE else timestamp_form)(literal)
        if form == NO_VALUE:
            column = self._column
            raise FilterError(f"Cannot compare partition key {column.name} of type {column.type} with {literal!r}")
        return form

    def compared(self, operator: str, literal: str | int) -> PartitionFilter:
        """The comparison with a literal."""
        if self.kind not in (KeyKind.TEXT, KeyKind.OTHER) and literal == DEFAULT_PARTITION_NAME:
            if operator not in ("=", "<>"):
                raise FilterError(f"Cannot compare partition key {self._column.name} with {literal} but by = and !=")
            return Absent(position=self.position, negated=operator == "<>")
        return Compared(position=self.position, operator=operator, operand=self.operand(literal))

    def one_of(self, literals: Sequence[str | int]) -> PartitionFilter:
        """One of the literals."""
        return any_of([self.compared("=", literal) for literal in literals])


@v_args(inline=True)
class _Builder(Transformer[Token, Any]):
    """From lark's tree to ours."""

    def __init__(self, keys: Sequence[Column], escaped_literals: bool) -> None:
        super().__init__()
        self._escaped_literals = escaped_literals
        self._keys = {column.name.lower(): _Key(position, column) for position, column in enumerate(keys)}

    def key(self, token: Token) -> _Key:
        name = token[1:-1].replace("``", "`") if token.startswith("`") else str(token)
        found = self._keys.get(name.lower())
        if found is None:
            raise FilterError(f"Specified key <{shortened(name)}> is not a partitioning key for the table")
        return found

    def text(self, token: Token) -> str:
        literal = str(token[1:-1]).replace("\\" + token[0], token[0])
        return unescaped(literal) if self._escaped_literals else literal

    def date(self, _: Token, token: Token) -> str:
        return self._checked(token, date_form)

    def timestamp(self, _: Token, token: Token) -> str:
        return self._checked(token, timestamp_form)

    def _checked(self, token: Token, form: Any) -> str:
        literal = self.text(token)
        if form(literal) == NO_VALUE:
            raise FilterError(f"Error parsing partition filter; {literal!r} is no date or timestamp")
        return literal

    def bare(self, token: Token) -> str:
        return str(token)

    def integer(self, token: Token) -> int:
        digits = re.sub(r"\s", "", token)
        if len(digits) > 64:
            raise FilterError(f"Error parsing partition filter; {shortened(digits)} is no number of 64 bits")
        return int(digits)

    def disjunction(self, *parts: PartitionFilter) -> PartitionFilter:
        return any_of(parts)

    def conjunction(self, *parts: PartitionFilter) -> PartitionFilter:
        return AllOf(parts=tuple(parts))

    def negated(self, part: PartitionFilter) -> PartitionFilter:
        return opposite(part)

    def compared(self, key: _Key, comparison: Token, literal: str | int) -> PartitionFilter:
        return key.compared(_operator(comparison), literal)

    def compared_reversed(self, literal: str | int, comparison: Token, key: _Key) -> PartitionFilter:
        operator = _operator(comparison)
        return key.compared(_MIRRORED.get(operator, operator), literal)

    def like(self, key: _Key, *rest: Any) -> PartitionFilter:
        negative, (literal,) = _split_not(rest)
        if key.kind is not KeyKind.TEXT or isinstance(literal, int):
            raise FilterError(_UNSUPPORTED)
        return Like(position=key.position, pattern=like_pattern(literal), negated=negative)

    def like_reversed(self, _: str | int, key: _Key) -> PartitionFilter:
        raise FilterError("Value should be on the RHS for LIKE operator : Key <" + key._column.name + ">")

    def between(self, key: _Key, *rest: Any) -> PartitionFilter:
        negative, (low, high) = _split_not(rest)
        inside = AllOf(parts=(key.compared(">=", low), key.compared("<=", high)))
        return opposite(inside) if negative else inside

    def is_in(self, key: _Key, *rest: Any) -> PartitionFilter:
        negative, literals = _split_not(rest)
        found = key.one_of(literals)
        return opposite(found) if negative else found

    def keys(self, *keys: _Key) -> list[_Key]:
        return list(keys)

    def row(self, *rest: Any) -> list[str | int]:
        return [literal for literal in rest if not isinstance(literal, Token)]

    def rows_in(self, _: Token, keys: list[_Key], *rest: Any) -> PartitionFilter:
        negative, given = _split_not(rest)
        # The token of each STRUCT stands between them.
        rows = [row for row in given if isinstance(row, list)]
        if any(len(row) != len(keys) for row in rows):
            raise FilterError("Error parsing partition filter; a struct has another number of values than of keys")
        found = any_of(
            [AllOf(parts=tuple(key.compared("=", value) for key, value in zip(keys, row, strict=True))) for row in rows]
        )
        return opposite(found) if negative else found


def any_of(parts: Sequence[PartitionFilter]) -> PartitionFilter:
    """The disjunction, in which equalities of the same key are one: clients write lists of thousands that way."""
    equal: dict[int, set[str]] = {}
    rest: list[PartitionFilter] = []
    for part in parts:
        if isinstance(part, Compared) and part.operator == "=":
            equal.setdefault(part.position, set()).add(part.operand)
        elif isinstance(part, OneOf) and not part.negated:
            equal.setdefault(part.position, set()).update(part.operands)
        elif isinstance(part, AnyOf):
            rest.extend(part.parts)
        else:
            rest.append(part)
    merged: list[PartitionFilter] = [
        Compared(position=position, operator="=", operand=next(iter(operands)))
        if len(operands) == 1
        else OneOf(position=position, operands=frozenset(operands))
        for position, operands in equal.items()
    ]
    merged.extend(rest)
    return merged[0] if len(merged) == 1 else AnyOf(parts=tuple(merged))


def opposite(part: PartitionFilter) -> PartitionFilter:
    """What selects the others, but for those without a value."""
    if isinstance(part, Compared):
        return Compared(position=part.position, operator=_OPPOSITES[part.operator], operand=part.operand)
    if isinstance(part, OneOf):
        return OneOf(position=part.position, operands=part.operands, negated=not part.negated)
    if isinstance(part, Like):
        return Like(position=part.position, pattern=part.pattern, negated=not part.negated)
    if isinstance(part, Absent):
        return Absent(position=part.position, negated=not part.negated)
    if isinstance(part, AllOf):
        return any_of([opposite(each) for each in part.parts])
    if isinstance(part, Named):
        raise AssertionError("no filter's text asks for names")
    return AllOf(parts=tuple(opposite(each) for each in part.parts))


def like_pattern(text: str) -> tuple[str, ...]:
    """The parts of a LIKE's text: ANY_TEXT, ANY_CHARACTER, and literals, each of which begins with a backslash."""
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


def _operator(comparison: Token) -> str:
    return {"==": "=", "!=": "<>"}.get(str(comparison), str(comparison))


def _split_not(rest: tuple[Any, ...]) -> tuple[bool, tuple[Any, ...]]:
    if rest and isinstance(rest[0], Token) and rest[0].type == "NOT":
        return True, rest[1:]
    return False, rest


def _size(part: PartitionFilter) -> int:
    return sum(_size(each) for each in part.parts) if isinstance(part, AllOf | AnyOf) else 1
