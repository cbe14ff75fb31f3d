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
from interbed.storage.base.predicate.operands import InnerReference, Instant, Reference, column_of
from interbed.storage.base.row.values import has_zone, parse_literal, parse_timestamp_nanos, whole_date
from interbed.storage.base.types.data_type import AtomicType, DataField, TypeRoot

MADE_OF = "lark 1.3.1, grammar f8c60f3f"
TABLES = (
    "eNrtW/lTG8kV5pCEDg5jMDa2ucQlcQkkZHxhkEBgGBBewHsEWHkMA5Ksg4yktb2BXe9ultibyW42Nfn3UpVUJZXrp/wFed09Gj2NRpQuO7/ELv"
    "PR1/e+9/p1T0s9fmP84x2ujv45lx2S4YhP8zL5zXTKiylBpL9bY8IrQQwdJhPHtGxJC2I8kuBjKflAdpzLUv2izNWlzuWwlatn0MCgkYGBgZGB"
    "iUETAzMDCwMrAxuDZgYtDFoZtDG4wqCdwVUGHQw6GVxj0MXgOoMbDLoZ3EwJkilykkiKAvgiWUOhtdXg1nYgNC3zUstJSBROhFeh4xh/kgIXJU"
    "smJYSev04LKfldNizp16cCjITopIVX6QwfkyVziNaGQrJk2SCdlkjoMpKNBTUXSaOYiQlKFEHNLSbqNoMeBr0M+hj0MxhgYGcwyGCIwTCDEQaj"
    "DBwMnAzGGIwzmGAwyWCKgYvBNIMZBm4GHgazDLwM7jCYY3CXwT0G9xk8YPCQwTyDRwwWGCwy8DHwM1hisMwgwGCFwSqDxwzWGKwz4BhsMNiEuT"
    "am0ryYhoCHBV6dDjaDhhgfE+XwhGR9QqvZnIUb6WpIJ18IiRSZM8gCw27g012Zq5cMwacbGzLXIJmCTzf9gW2Za5SMK76NnYDMGSTL7tpmYGfX"
    "t/lE5owwaPspVJukplgE1g+kCdcEldBF5sySyb8W9G1/JnMWybDs24U6q9SwBYQ2yTAUCC7LXLNk2H7ig5oWqdFHKlol49LW5qZP5tok89aTwL"
    "Zvlwy4InWGQkeRVDSTOExHkokQ8RjSmWuXGoNbIPsqEO185Je5DsmwQRk7pYa1oMxdg/IaB6a7pCZ/YPeTQAAqr0PbjszdkBqXyeBu6EMH35Ss"
    "kSMhkY4cR2CX4G5JLctbT/0bgdBHT7d2AyDvtmQ6TMYy8YTM9UgWyPijCJEjc72S1e9b4rL9+iCKPhKEfsmcEE541mmAeAGD8r2YkTm7dJU2MD"
    "ZW7Za5QcmGesvcUFjghiUbioPMjUiGVFo4hXVogmFkDdPpPIeFDX+nL+QUV09q6qHkvoBpBWy+YK19gI2AE4AGQBugEbAb0AQ4CdgEOABoBjQA"
    "WgAtF3KGa8CspPdqGexFWUliclYima5kaLLhQjMutKBChjOQkdmqZdyZFlpxwYoLNlxoQ4UMZ2Rq6rgVaLoC+Bj178E2emh/0zlhqOOGSdibsg"
    "GagX7tgC7SxQxdriqDHqRIPwsW7sOkPizch4X7sHAfFu6jQqznueZb1IoNW1nCVpawlSVsZQlbWcJWlqiVZsy5gDkXMOcC5lzAnAuYc4FytuAE"
    "GMCdB7CBAZwAA3RkKxlJEtEDTeWme9GEbCOsrVDqoNbruPuk9gpW6cIqXVilC6t0YWcDVHI7SQb41wG8DWSWOvSWKvHpRjU+dGK1/VhtP1bbj9"
    "X2U4HX8MgRPHIEjxzBI0foyK7sbDTWcjauE9ZOKN2E2muER1lb/YBdgPWA1wGbAG8AOi7YimwF7AYMolScwf7MYH9msD8z1J8bxHK2fROn9yZt"
    "78ZrIYDJArhzAK+FABbAMuKmkg12kg23cPRHcedRbGAUqx2lNLfxyGk8chqPnMYjp3F+rlCaHkxzJ0VjjgotuNCOC2240I0LN3DhOi504kIXLj"
    "Tjgg0VMlwvVjiHFc5hhXNY4RxWOIcVzmGFc1jhHFY4hxXOYYVzWOEcVdiHE2MRd17EibGIE2MR0yxiuYuUs59wkvR/oKS9j6qr466S1gFs0Y8t"
    "+rFFP7boxxb92KKfWrRnl/NcLZfzIHoY3qWPqSFihyzoe9DvJqAf8BZgL+BtwOu58XShBAB7AFuQjqz9rN1ewB5F321F1xWkpw9wR8evfsCnyg"
    "ZsInqHibqsqiwrUbWAVCpsGW6EzUMdx6FA9+L56MVR76WBHj1nj5llEg0HYcja0fBTHU4yxInXgAevAQ9eAx68Bjx4ij14DXjwGvDgNeDBa8CD"
    "14AHO+XBTnmoU2Nonu/ReR5HNfdpzQTO2hVMuIKzdgVn7Qo2xbasyXOZxryLcE4hK4+oFdc5m+ZrpDCNAzeJuSax/UkcxUlqZQaPHMYjh/HIYT"
    "xymI50YzdXcedV7OYqdnMVG1jFM7dKOT1YzSDuPIgNDGI1g3TkLB7pwCMdeKQDj3TQkV4ycgAiOXLBAj6EBPfhwX2Yto8OvkPnpY7bJrMwlz1h"
    "3YV+dsB15aQ1S7rereTDi3bDIQt4C2889z7kNkO2kc4Stht1m7mPZ8WJw+fEgXXiWXHSwD5QPvetkcA+vMzJQcBF5CwR6f2Ae6vq7Dx2dgw7O4"
    "adHcPOjlFnH5UyiVm/iL/GCvwbAmxHfg4DWqvxd4Gozh5NtUfSIez/EPZ/CPs/RP1fxJFbw53XMM0a7ezLPsCXavkA92MJbvzocWO9bvzoceMN"
    "zI0fPW786HHjR48bP3rc+NHjxn67sd9u6veS8jzYJStiGcu14852TGPH2u2UJvAhcq3KtURzc5SoXSlX7eb/YuWvEpVkw2+jDz72ACAb/zxpfZ"
    "z97uUhmqbbeJpu05lZw3M6hed0CneewnM6RUeuaz/a3yK13Pt4NJBYf1yLmG2gE81DeqLZxP4/xi4/xsF4TF0Oks7E6BNFnFlxZlwxNqiIm1Kc"
    "GQMcAbyjiNwgLFv4s/AGPrZsUCtPkMh5KvIjLHIC65rAiifwJE1Qrm08chbvMLO48yzeYWbxDjOLd5hZvMPM4h1mFu8ws3iHmcUKZ7H2WapwBy"
    "v0YoVerNCLFXqxQi9W6MUKvVihFyv0YoVerNCLFXqpwt1yzlAk1T4qZe9/ik+y6/i8uo71rGM961TPx3gkh0dyeCSHR5JCJiM106uOkPpVd1iA"
    "g71kFRJHeXXtqUx4Qmojdx6RxMmKSK6xEkdyJjz9/1upD3Ur1ZQ8JVcUKXYneCQ8z5zI78gthRg5TMNvbS8E4TTEx2Ih5R7qnWRNi4IQOozxqZ"
    "QclIyH/GFYgOoW+kvoROTjcV6EiqbTZCodE17JwXBjOCwZ6Z2lHB6XbGmRT6SOk2IcysGwwK7EzKdiJClG0q9lyZSANnKbaeHjzyMnGVpp4DPp"
    "pCwZ6b0o0HecislT/gTSKQSGIswLEKzcGIPk5/zhC+KYdDXOv34O3WL8oRBOxo4EkfRsFY4i6VDuQjkYdnB1Yec7qTkpQhcBklVIp+S3UnMkfp"
    "qEfD7l02FyYyrZUsmMeCjQCgiBGZgzJxEaRJLRhg1efCFnJENciCezNz0OyZDg44KMLswgQnwa7CdY8L/gYxlov+ZYuP9w/uzR/NnDR2cD8PPs"
    "0dm8ExxnV8FgvlHkX4JZU+hl5AgEHNB9o0EAy5YnjHA7IGeiw4Y62D6g1rar+LgsHMPCJjdN0XvQqN4dRh8Y6CV8dJ7UevbGJw8WHHvTk/cOxh"
    "37U/SXMefCmfLruNOxJwQOaC+lYkGOLsDQAznqIwxeVwUULjnqpxzgzQ+WOuVPPbgVXYb6nD/RACnSqy3mBrsUzXeiedSx9/nowdnoqHNsNF9d"
    "qwu3IbMNpZhtzJmlt6X5ZltJ3X5qbJQYyBmW6iMyz6y3u/K7uCI5AabiAhpUAQbkN7nC1QggdYUCop8BqAry+5StwKgqQPfM+TI61IbLtXS5dD"
    "piQbZSBJlyGa1cZuerMX96iQSb61Mdu42l2G3KTQW9SM63at37fP+T/aOD/ZdjenZbXLl2bLmk5DerlvGNtmYJPIM0f3Zw9uyZc/yZdgngNldJ"
    "bueMW1Tjmpt3jX072LAfnNntznG71j5uK9e+NWs/PKqZ571+S3OL9WBca22vfz+9f7wv7icOxsvdZ2yqtZf51shLEjrzarRvbdsjytscdDfeSY"
    "tyAW2zSvtlPi19xUKH12SHBkoc/VlPZ4tK+JWGkLx7oUsIDZcQtqqEv8onrJ/Ij2+jfcJelKVNZfm1JnxrO/rhW9u5RNQVlS6RT8deiNEhbLKT"
    "lkso21XKb7QKg0UUBi+hu6rSvdGEzaENm6N42DpUltcaFqeWxVmcpVNl+S6fRX3LRsc/q11pvMTJayrxt5ppoO/x6E4DabmEskulFDWU9PUlXU"
    "rScgnldZXyNJ9SeVNKh9Nsp02XkN5QSb/XzMyUdmamis9Mt8pyoWHZ07LsFWe5qbJ8rWE50LIcFGe5Rd8zg7M3nGFldW9X3lcj58dgMpE9QsKx"
    "1iK8OoXzO3mx6UDtHv4Z6P5M6HjJSM/P5KVFIx+L8HCyjnYr4noA4ZMBZTiakd9SKUGpLS3E4XQOR3l2sobTbQvUpF+HIomjyCF8YHQSHduZmL"
    "ClfF6hB21SoVykR/+kmKDi816/yiqL/oXt+7le+MWtbC/Vo/NsjRD9Kw1Y9G9EbL4v0b/DT8WN6D/oz3/CT5Ab/RcZC/hvGuSesjRmO0X/Q5Rk"
    "I8t01Felo7dQh14UCmKVe0OuIFA/1jRQfWUJVANVZ6xxoPoLdBSGQBul8FeS9TgSg4d+KJlJy28hR825lXMJUV7kpCbaLhzJFUofKF26qvyHmg"
    "bPXqAAvYdZNHpvoq0wixC1aJsRJZj+SkEPyLxRNUnCwUr0q6+daiWiz/xU67sCD9U3czUJUa8kxGEyfsqLQqUJMVSROwWi1JCfFXFDGwDFiwbm"
    "xRXFi1A8IopJsfL8Hq7p7MDBVDft4ISpl1iNypREUqFEJhar1IeRilbIu5LFf1WWUwbmlI04lUxX5dhobSfnmyJ+FNsriiftTyXuHEYWC1NciD"
    "+HY0yFYXBUEoboDnqKVRqC6Cd6JPq+mqiv0V9AVYV+Oms73cXS9sOnQRNLAytZD9WlwlhFqfBCbxZrFJ7oaekpYmYpkqo8RcZrmyLfFfE1VdDz"
    "y1KTQ3HVoqz8l5F0GD4KVejuxIdZEd+VnfnlhsOKVkB1IZmsbUi+LRKSeP6xRHHDxtwwxCIvKj5ATX2YOS3iWPaGQ8+7ZuadmUxSNR66yvAQfV"
    "OTp1f56NCiLCM+9pJ/napU0HQlgk51BbUyQcaE8EXlu/hMBXoKMkAR1KakJLnSq1SPu0CP1pg2OL/RqKjuI5KnVPslrIfvi+Q9/o9++p+MTJFE"
    "CjpVGsTZGjpxUWRR/6Gg59e6D9qGmnjkLfBIL4ja1JDy95aaJMidipT8VldJdd9GzFWk5K2ukoaqlNwtUML+Y2jR/SN7Q1/76blXphS9Z1BNZu"
    "d+uULYvXvtJ+dB2RGh9+96QhqrEvKw3CzJ3nrrSTFUJWW+PClFTgTKR2pDWsxUvLE9KlOJ/lHApBwFjvlYqmIpCwVSCo7QWjXJ97CCF8uW8f4W"
    "sa/8kHzxHpawv3wZ6fewgJfKl/HL97B4l8uXkdGVYaxKRqB8GeJli7eqbWSlfDH6O0lTLXaS1fLVJHTVmJXQVPPN7WOtmNwVaMEX0S+LHHZ/X/"
    "Jd4LsSFK2Voei84Jhdqsb6qjSuF2j8sajGIt/AhH9X06hxZSj6sdRviQo0Vhe1jQKNPxXV+Ksyv7eqLnqbZSgr/C65iNboG1PuC9daBDCTmfov"
    "Gi+pGA=="
)


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
