"""The grammars of the filter languages: that of partitions (expression.py) with the transformation of a parsed filter
to a tree, and that of get_table_names_by_filter.

Imported when the first filter comes: the parser library takes a tenth of the time that a server needs to start.

A filter of tables, `hive_filter_field_owner__ = "me" and hive_filter_field_params__k like "x.*"`, compares three
fields: the owner, a parameter (the rest of the name is its key; a table without it is not selected) and the time of the
last access in seconds. Operators are =, !=, <>, <, <=, >, >= and LIKE, joined by AND, OR, NOT and parentheses.
Parameters and owners are compared as text, the time as a number. In LIKE `.*` matches any text and `.` any character;
every other character matches itself.
"""

import operator
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import LarkError, VisitError

from interbed.catalog.server.service.errors import BadFilterError, MetastoreError
from interbed.catalog.server.service.filters.tree import (
    NO_VALUE,
    AllOf,
    EmptyText,
    KeyComparison,
    KeyKind,
    LikePattern,
    MissingValue,
    PartitionFilter,
    all_of,
    any_of,
    date_form,
    integral_form,
    kind_of_type,
    like_pattern,
    opposite,
    timestamp_form,
)
from interbed.catalog.server.service.model import MetastoreColumn, MetastoreTable
from interbed.catalog.server.service.names import DEFAULT_PARTITION_NAME, check_pattern_length, shortened, unescaped

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
    return Lark(_GRAMMAR, parser="lalr", maybe_placeholders=False)


_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_UNSUPPORTED = "Filtering is supported only on partition keys of type string"


def parse(text: str, keys: Sequence[MetastoreColumn], *, escaped_literals: bool) -> PartitionFilter:
    """Parse a filter into its tree; BadFilterError as parse_filter raises it."""
    try:
        tree: PartitionFilter = _Builder(keys, escaped_literals).transform(_parser().parse(text))
    except VisitError as error:
        if isinstance(error.orig_exc, BadFilterError):
            raise error.orig_exc from error
        raise BadFilterError(f"Error parsing partition filter {shortened(text)!r}; {error.orig_exc}") from error
    except (LarkError, RecursionError) as error:
        reason = str(error).splitlines()[0] or type(error).__name__
        raise BadFilterError(f"Error parsing partition filter {shortened(text)!r}; {reason}") from error
    return tree


_OF_EMPTY_TEXT = {"=": False, "<=": False, "<>": True, ">": True}
"""Comparisons with the empty text that hold for it alone, or for all texts but it."""


class _Key:
    """A key of the table, and the conversion of literals to its search forms."""

    def __init__(self, position: int, column: MetastoreColumn) -> None:
        self.position = position
        self.kind = kind_of_type(column.type)
        self._column = column

    def operand(self, literal: str | int) -> str:
        """Return the literal's search form. BadFilterError if the key's values cannot be compared with it."""
        if self.kind is KeyKind.OTHER:
            raise BadFilterError(f"Filter pushdown not supported for type {self._column.type}. {_UNSUPPORTED}")
        if self.kind is KeyKind.INTEGRAL:
            try:
                form = integral_form(int(literal))
            except ValueError:
                form = NO_VALUE
        elif isinstance(literal, int):
            raise BadFilterError(_UNSUPPORTED)
        elif self.kind is KeyKind.TEXT:
            return literal
        else:
            form = (date_form if self.kind is KeyKind.DATE else timestamp_form)(literal)
        if form == NO_VALUE:
            column = self._column
            raise BadFilterError(f"Cannot compare partition key {column.name} of type {column.type} with {literal!r}")
        return form

    def compared(self, operator: str, literal: str | int) -> PartitionFilter:
        """Return the comparison with a literal."""
        if self.kind not in (KeyKind.TEXT, KeyKind.OTHER) and literal == DEFAULT_PARTITION_NAME:
            if operator not in ("=", "<>"):
                raise BadFilterError(f"Cannot compare partition key {self._column.name} with {literal} but by = and !=")
            return MissingValue(position=self.position, negated=operator == "<>")
        if self.kind is KeyKind.TEXT and not literal and isinstance(literal, str) and operator in _OF_EMPTY_TEXT:
            return EmptyText(position=self.position, negated=_OF_EMPTY_TEXT[operator])
        return KeyComparison(position=self.position, operator=operator, operand=self.operand(literal))

    def one_of(self, literals: Sequence[str | int]) -> PartitionFilter:
        """Return the condition that the key equals one of the literals."""
        return any_of([self.compared("=", literal) for literal in literals])


@v_args(inline=True)
class _Builder(Transformer[Token, Any]):
    """Transformer from lark's tree to that of tree.py."""

    def __init__(self, keys: Sequence[MetastoreColumn], escaped_literals: bool) -> None:
        super().__init__()
        self._escaped_literals = escaped_literals
        self._keys = {column.name.lower(): _Key(position, column) for position, column in enumerate(keys)}

    def key(self, token: Token) -> _Key:
        name = token[1:-1].replace("``", "`") if token.startswith("`") else str(token)
        found = self._keys.get(name.lower())
        if found is None:
            raise BadFilterError(f"Specified key <{shortened(name)}> is not a partitioning key for the table")
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
            raise BadFilterError(f"Error parsing partition filter; {literal!r} is no date or timestamp")
        return literal

    def bare(self, token: Token) -> str:
        return str(token)

    def integer(self, token: Token) -> int:
        digits = re.sub(r"\s", "", token)
        if len(digits) > 64:
            raise BadFilterError(f"Error parsing partition filter; {shortened(digits)} is no number of 64 bits")
        return int(digits)

    def disjunction(self, *parts: PartitionFilter) -> PartitionFilter:
        return any_of(parts)

    def conjunction(self, *parts: PartitionFilter) -> PartitionFilter:
        return all_of(parts)

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
            raise BadFilterError(_UNSUPPORTED)
        try:
            check_pattern_length(literal)
        except MetastoreError as error:
            raise BadFilterError(f"Error parsing partition filter; {error}") from error
        if not literal:
            return EmptyText(position=key.position, negated=negative)
        return LikePattern(position=key.position, pattern=like_pattern(literal), negated=negative)

    def like_reversed(self, _: str | int, key: _Key) -> PartitionFilter:
        raise BadFilterError("Value should be on the RHS for LIKE operator : Key <" + key._column.name + ">")

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
        # The token of each STRUCT is between them.
        rows = [row for row in given if isinstance(row, list)]
        if any(len(row) != len(keys) for row in rows):
            raise BadFilterError("Error parsing partition filter; a struct has another number of values than of keys")
        found = any_of(
            [AllOf(parts=tuple(key.compared("=", value) for key, value in zip(keys, row, strict=True))) for row in rows]
        )
        return opposite(found) if negative else found


def _operator(comparison: Token) -> str:
    return {"==": "=", "!=": "<>"}.get(str(comparison), str(comparison))


def _split_not(rest: tuple[Any, ...]) -> tuple[bool, tuple[Any, ...]]:
    if rest and isinstance(rest[0], Token) and rest[0].type == "NOT":
        return True, rest[1:]
    return False, rest


TablePredicate = Callable[[MetastoreTable], bool]

FIELD_OWNER = "hive_filter_field_owner__"
FIELD_PARAMETERS = "hive_filter_field_params__"
FIELD_LAST_ACCESS = "hive_filter_field_last_access__"

FILTER_CHARACTERS_MAX = 100_000
"""Characters in a filter; longer ones are refused."""
COMPARISONS_MAX = 100
"""Comparisons in a filter, each of which is made with every table of the database."""

_TABLE_GRAMMAR = r"""
    ?start: disjunction
    ?disjunction: conjunction ("or"i conjunction)*
    ?conjunction: negation ("and"i negation)*
    ?negation: "not"i negation -> negated
             | predicate
    ?predicate: "(" disjunction ")"
              | NAME COMPARISON literal -> compared
              | literal COMPARISON NAME -> compared_reversed
              | NAME "like"i literal -> like
    ?literal: STRING -> text
            | INTEGER -> integer
    COMPARISON: "<=" | ">=" | "<>" | "!=" | "==" | "=" | "<" | ">"
    STRING: /"(\\.|[^"\\])*"/ | /'(\\.|[^'\\])*'/
    NAME: /(?!(and|or|not|like)\b)[A-Za-z_][A-Za-z0-9_.\-]*/i
    INTEGER: /-?\d+/
    %import common.WS
    %ignore WS
"""


@cache
def _table_parser() -> Lark:
    # Made when the first filter comes: its tables take a twentieth of the time that a server needs to start.
    return Lark(_TABLE_GRAMMAR, parser="lalr", maybe_placeholders=False)


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_REVERSED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def compile_table_filter(text: str) -> TablePredicate:
    """Return the predicate of a filter; BadFilterError if it cannot be understood."""
    if len(text) > FILTER_CHARACTERS_MAX:
        raise BadFilterError(f"the filter has {len(text)} characters; at most {FILTER_CHARACTERS_MAX} are read")
    try:
        tree = _table_parser().parse(text)
        comparisons = sum(1 for _ in tree.scan_values(_is_field))
        if comparisons > COMPARISONS_MAX:
            raise BadFilterError(f"the filter has {comparisons} comparisons; at most {COMPARISONS_MAX} are allowed")
        predicate: TablePredicate = _Compiler().transform(tree)
    except VisitError as error:
        if isinstance(error.orig_exc, BadFilterError):
            raise error.orig_exc from error
        raise BadFilterError(f"Error parsing filter {shortened(text)}: {error.orig_exc}") from error
    except (LarkError, RecursionError) as error:
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise BadFilterError(f"Error parsing filter {shortened(text)}: {first_line}") from error
    return predicate


def _is_field(value: Any) -> bool:
    return isinstance(value, Token) and value.type == "NAME"


@v_args(inline=True)
class _Compiler(Transformer[Token, TablePredicate]):
    """From the syntax tree to a predicate, bottom up."""

    def text(self, token: Token) -> str:
        return re.sub(r"\\(.)", r"\1", token[1:-1])

    def integer(self, token: Token) -> int:
        return int(token)

    def compared(self, name: Token, comparison: Token, literal: str | int) -> TablePredicate:
        return _comparison(str(name), str(comparison), literal)

    def compared_reversed(self, literal: str | int, comparison: Token, name: Token) -> TablePredicate:
        return _comparison(str(name), _REVERSED.get(str(comparison), str(comparison)), literal)

    def like(self, name: Token, literal: str | int) -> TablePredicate:
        value = _reader(str(name))
        if str(name) == FIELD_LAST_ACCESS:
            raise BadFilterError(f"LIKE cannot be used with {FIELD_LAST_ACCESS}, which is a number")
        try:
            check_pattern_length(str(literal))
        except MetastoreError as error:
            raise BadFilterError(f"Error parsing filter: {error}") from error
        matcher = _like(str(literal))
        return lambda table: (text := value(table)) is not None and matcher.fullmatch(str(text)) is not None

    def negated(self, inner: TablePredicate) -> TablePredicate:
        return lambda table: not inner(table)

    def conjunction(self, *parts: TablePredicate) -> TablePredicate:
        return lambda table: all(part(table) for part in parts)

    def disjunction(self, *parts: TablePredicate) -> TablePredicate:
        return lambda table: any(part(table) for part in parts)


def _comparison(name: str, comparison: str, literal: str | int) -> TablePredicate:
    value = _reader(name)
    compare = _COMPARISONS[comparison]
    wanted: str | int = str(literal)
    if name == FIELD_LAST_ACCESS:
        try:
            wanted = int(literal)
        except ValueError as error:
            raise BadFilterError(f"{FIELD_LAST_ACCESS} is compared with a number, not with {literal!r}") from error

    def predicate(table: MetastoreTable) -> bool:
        found = value(table)
        return found is not None and compare(found, wanted)

    return predicate


def _reader(name: str) -> Callable[[MetastoreTable], str | int | None]:
    if name == FIELD_OWNER:
        return lambda table: table.owner
    if name == FIELD_LAST_ACCESS:
        return lambda table: table.last_access_time
    if name.startswith(FIELD_PARAMETERS) and len(name) > len(FIELD_PARAMETERS):
        key = name.removeprefix(FIELD_PARAMETERS)
        return lambda table: table.parameters.get(key)
    raise BadFilterError(
        f"Invalid key name in filter: {shortened(name)}; use {FIELD_OWNER}, {FIELD_PARAMETERS}<key> or "
        f"{FIELD_LAST_ACCESS}"
    )


def _like(pattern: str) -> re.Pattern[str]:
    # Each part between two stars is an atomic group, so that no pattern takes more than quadratic time.
    parts = ["".join("." if char == "." else re.escape(char) for char in part) for part in pattern.split(".*")]
    if len(parts) == 1:
        return re.compile(parts[0], re.DOTALL)
    middle = "".join(f"(?>.*?{part})" for part in parts[1:-1])
    return re.compile(f"{parts[0]}{middle}.*{parts[-1]}", re.DOTALL)
