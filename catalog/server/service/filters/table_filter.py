"""The filter language of get_table_names_by_filter: `hive_filter_field_owner__ = "me" and hive_filter_field_params__k
like "x.*"`.

A filter compares three fields: the owner, a parameter (the rest of the name is its key; a table without it is not
selected) and the time of the last access in seconds. Operators are =, !=, <>, <, <=, >, >= and LIKE, joined by AND, OR,
NOT and parentheses. Parameters and owners are compared as text, the time as a number. In LIKE `.*` matches any text and
`.` any character; every other character matches itself.
"""

import operator
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import LarkError, VisitError

from interbed.catalog.server.service.errors import BadFilterError, MetastoreError
from interbed.catalog.server.service.model import MetastoreTable
from interbed.catalog.server.service.names import check_pattern_length, shortened

TablePredicate = Callable[[MetastoreTable], bool]

FIELD_OWNER = "hive_filter_field_owner__"
FIELD_PARAMETERS = "hive_filter_field_params__"
FIELD_LAST_ACCESS = "hive_filter_field_last_access__"

FILTER_CHARACTERS_MAX = 100_000
"""Characters in a filter; longer ones are refused."""
COMPARISONS_MAX = 100
"""Comparisons in a filter, each of which is made with every table of the database."""

_GRAMMAR = r"""
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
def _parser() -> Lark:
    # Made when the first filter comes: its tables take a twentieth of the time that a server needs to start.
    return Lark(_GRAMMAR, parser="lalr", maybe_placeholders=False)


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
        tree = _parser().parse(text)
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
