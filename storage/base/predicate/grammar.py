"""The grammar of filters (conditions.py), read by lark, and the predicates that its trees become."""

import base64
import io
import re
import zlib
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

import lark
from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken, VisitError

from interbed.storage.base.errors import FilterError, InvalidInputError
from interbed.storage.base.predicate.expr import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Like,
    Not,
    NotIn,
    Op,
    Or,
    Predicate,
    between,
    bind,
)
from interbed.storage.base.predicate.grammar_tables import MADE_OF, TABLES
from interbed.storage.base.predicate.operands import InnerReference, Instant, Reference, column_of
from interbed.storage.base.row.values import has_zone, parse_literal, parse_timestamp_nanos, whole_date
from interbed.storage.base.types.data_type import AtomicType, DataField, TypeRoot

_DATE, _TIME = AtomicType(TypeRoot.DATE), AtomicType(TypeRoot.TIME, precision=3)

_GRAMMAR = r"""
?start: disjunction
?disjunction: conjunction ("OR"i conjunction)*
?conjunction: negation ("AND"i negation)*
?negation: "NOT"i negation -> negated
    | condition
?condition: "(" disjunction ")"
    | column OPERATOR literal -> compare
    | literal OPERATOR column -> compare_mirrored
    | column "IS"i "NULL"i -> is_null
    | column "IS"i "NOT"i "NULL"i -> is_not_null
    | column "IN"i "(" literal ("," literal)* ")" -> member
    | column "NOT"i "IN"i "(" literal ("," literal)* ")" -> not_member
    | column "BETWEEN"i literal "AND"i literal -> within
    | column "NOT"i "BETWEEN"i literal "AND"i literal -> not_within
    | column "LIKE"i TEXT -> like
    | column "NOT"i "LIKE"i TEXT -> not_like
    | "TRUE"i -> always
    | "FALSE"i -> never
    | column -> flag

?column: identifier
    | column "." identifier -> inside
    | column "[" step "]" -> inside
?identifier: NAME | BACKQUOTED | DOUBLE_QUOTED
?step: NUMBER | TEXT | DATE | TIME | BINARY
    | "TRUE"i -> true
    | "FALSE"i -> false
?literal: NUMBER | TEXT | DATE | TIME | TIMESTAMP | BINARY
    | "TRUE"i -> true
    | "FALSE"i -> false
    | "NULL"i -> null

OPERATOR: "<=" | ">=" | "<>" | "!=" | "<" | ">" | "="
NUMBER: /[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?/
TEXT: /'([^']|'')*'/
DATE.2: /DATE\s*'[^']*'/i
TIME.2: /TIME\s*'[^']*'/i
TIMESTAMP.2: /TIMESTAMP\s*'[^']*'/i
BINARY.2: /X'[^']*'/i
NAME: /[^\W\d]\w*/i
BACKQUOTED: /`([^`]|``)+`/
DOUBLE_QUOTED: /"([^"]|"")+"/
%ignore /[ \t\f\r\n]+/
"""

_OPERATORS = {"=": Op.EQ, "<>": Op.NE, "!=": Op.NE, "<": Op.LT, "<=": Op.LE, ">": Op.GT, ">=": Op.GE}
_MIRRORED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_LITERALS = ("NUMBER", "BINARY", "DATE", "TIME", "TIMESTAMP", "TRUE", "FALSE")
_EXPECTED = {
    **dict.fromkeys(_LITERALS, "a literal"),
    **dict.fromkeys(("NAME", "BACKQUOTED", "DOUBLE_QUOTED"), "a column"),
    "TEXT": "a text in quotes",
    "OPERATOR": "a comparison",
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "'['",
    "RSQB": "']'",
    "DOT": "'.'",
    "COMMA": "','",
    "$END": "the end",
}
_MAX_LENGTH = 1 << 20
_OF_OTHERS = {
    "==": "equality is written `=`",
    "&&": "write AND",
    "||": "write OR",
    "!": "write NOT, or `<>` between two values",
    "=~": "write LIKE, with % for any text and _ for one character",
    "~": "write LIKE, with % for any text and _ for one character",
    "&": "write AND",
    "|": "write OR",
}
"""Operators of other languages, and their form here."""
_NULLS = frozenset({"none", "nil", "na", "nan"})


def parse_filter(text: str, fields: Sequence[DataField]) -> Predicate:
    """Return the predicate of a condition, bound to the columns.

    Raises FilterError: with the position and the expected tokens for a text that is not a condition; naming the column
    for an unknown column, and for a literal of another type.
    """
    if len(text) > _MAX_LENGTH:
        raise FilterError(f"The filter has {len(text)} characters; at most {_MAX_LENGTH} are read.")
    try:
        tree: Any = _parser().parse(text)
        predicate: Predicate = _ToPredicate().transform(tree)
        return bind(predicate, fields)
    except UnexpectedInput as error:
        raise FilterError(_syntax_message(text, error)) from None
    except VisitError as error:
        if isinstance(error.orig_exc, FilterError):
            raise error.orig_exc from None
        raise
    except RecursionError:
        raise FilterError("The filter is nested too deeply.") from None


@lru_cache(maxsize=1)
def _parser() -> Lark:
    # Another version of lark may read the tables in another way.
    return loaded_parser() if made_of() == MADE_OF else new_parser()


def loaded_parser() -> Lark:
    """Return the parser, loaded from its tables."""
    return Lark.load(io.BytesIO(zlib.decompress(base64.b64decode(TABLES))))


def new_parser() -> Lark:
    """Return the parser, built from the grammar; that takes longer than planning a read."""
    return Lark(_GRAMMAR, parser="lalr", maybe_placeholders=False)


def made_of() -> str:
    """Return the version of the parser's tables: the version of lark and the CRC-32 of the grammar."""
    return f"lark {lark.__version__}, grammar {zlib.crc32(_GRAMMAR.encode()):08x}"


def _syntax_message(text: str, error: UnexpectedInput) -> str:
    position = error.pos_in_stream if isinstance(error.pos_in_stream, int) else len(text)
    allowed: set[str] = set()
    found = "it ends"
    if isinstance(error, UnexpectedToken):
        allowed = set(error.accepts or error.expected)
        if error.token.type == "$END":
            position = len(text)
        else:
            found = f"there is {str(error.token)!r}"
    elif isinstance(error, UnexpectedCharacters):
        allowed = set(error.allowed or ())
        found = f"there is {text[position : position + 1]!r}"
    elif isinstance(error, UnexpectedEOF):
        allowed = set(error.expected)
    names = sorted({_EXPECTED.get(name, name) for name in allowed})
    expected = f"; expected {' or '.join(names)}" if names else ""
    hint = _hint(text, position)
    where = f"{found} at position {position + 1}{expected}"
    return f"The filter is not a condition: {where}.{hint}\n  {text}\n  {' ' * position}^"


def _hint(text: str, position: int) -> str:
    """Return a hint on the correct form of another language's operator or literal at that position."""
    for begin in (position - 1, position):
        for sign, instead in _OF_OTHERS.items():
            if begin >= 0 and text.startswith(sign, begin) and (len(sign) > 1 or begin == position):
                return f" For `{sign}`: {instead}."
    word = re.match(r"\w+", text[position:])
    is_compared = text[:position].rstrip().endswith(("=", "<", ">"))
    if word is not None and is_compared:
        if word[0].lower() in _NULLS:
            return f" For `{word[0]}`: rows without a value are found by `IS NULL`."
        return f" Texts are written in single quotes: '{word[0]}'."
    if is_compared and text[position : position + 1] == '"':
        return " Names are written in double quotes, texts in single ones: 'text'."
    return ""


class _ToPredicate(Transformer[Any, Predicate]):
    """Transformer of lark's tree to a predicate; its methods have the names of the grammar's rules and terminals."""

    def disjunction(self, children: list[Predicate]) -> Predicate:
        return Or(tuple(children))

    def conjunction(self, children: list[Predicate]) -> Predicate:
        return And(tuple(children))

    def negated(self, children: list[Predicate]) -> Predicate:
        return Not(children[0])

    def compare(self, children: list[Any]) -> Predicate:
        column, operator, value = children
        return Comparison(_OPERATORS[str(operator)], column, value)

    def compare_mirrored(self, children: list[Any]) -> Predicate:
        value, operator, column = children
        op = _OPERATORS[str(operator)]
        return Comparison(_MIRRORED.get(op, op), column, value)

    def is_null(self, children: list[Reference]) -> Predicate:
        return IsNull(children[0])

    def is_not_null(self, children: list[Reference]) -> Predicate:
        return IsNotNull(children[0])

    def member(self, children: list[Any]) -> Predicate:
        return In(children[0], tuple(children[1:]))

    def not_member(self, children: list[Any]) -> Predicate:
        return NotIn(children[0], tuple(children[1:]))

    def within(self, children: list[Any]) -> Predicate:
        return between(*children)

    def not_within(self, children: list[Any]) -> Predicate:
        return Not(between(*children))

    def like(self, children: list[Any]) -> Predicate:
        return Like(children[0], children[1])

    def not_like(self, children: list[Any]) -> Predicate:
        return Not(Like(children[0], children[1]))

    def always(self, _: list[Any]) -> Predicate:
        return AlwaysTrue()

    def never(self, _: list[Any]) -> Predicate:
        return AlwaysFalse()

    def flag(self, children: list[Reference]) -> Predicate:
        return Comparison(Op.EQ, children[0], True)

    def inside(self, children: list[Any]) -> Any:
        outer, step = children
        steps = outer.steps if isinstance(outer, InnerReference) else ()
        return InnerReference(column_of(outer), (*steps, step))

    def true(self, _: list[Any]) -> Any:
        return True

    def false(self, _: list[Any]) -> Any:
        return False

    def null(self, _: list[Any]) -> Any:
        return None

    def NAME(self, token: Token) -> str:  # noqa: N802 (lark's name of a terminal, as those below)
        return str(token)

    def BACKQUOTED(self, token: Token) -> str:  # noqa: N802
        return token[1:-1].replace("``", "`")

    def DOUBLE_QUOTED(self, token: Token) -> str:  # noqa: N802
        return token[1:-1].replace('""', '"')

    def NUMBER(self, token: Token) -> int | Decimal:  # noqa: N802
        if re.fullmatch(r"[+-]?[0-9]{1,4000}", token):
            return int(token)
        try:
            return Decimal(str(token))
        except InvalidOperation:
            raise FilterError(f"The filter's literal {token[:50]} is out of the range of numbers.") from None

    def TEXT(self, token: Token) -> str:  # noqa: N802
        return token[1:-1].replace("''", "'")

    def DATE(self, token: Token) -> object:  # noqa: N802
        return _literal(token, lambda t: parse_literal(t, _DATE), "a date as 2024-01-31")

    def TIME(self, token: Token) -> object:  # noqa: N802
        return _literal(token, lambda t: parse_literal(t, _TIME), "a time as 12:34:56.789")

    def TIMESTAMP(self, token: Token) -> object:  # noqa: N802
        expected = "a timestamp as 2024-01-31 12:34:56.789"
        return _literal(token, _instant, expected)

    def BINARY(self, token: Token) -> object:  # noqa: N802
        return _literal(token, bytes.fromhex, "bytes as X'00ff'")


def _literal(token: Token, read: Any, expected: str) -> object:
    text = token[token.index("'") + 1 : -1]
    try:
        return read(text.strip())
    except (ValueError, InvalidInputError):
        raise FilterError(f"The filter's literal {token!s} is not {expected}.") from None


def _instant(text: str) -> Instant:
    whole = whole_date(text)
    return Instant(parse_timestamp_nanos(whole), has_zone(whole))
