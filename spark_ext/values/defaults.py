"""Defaults of columns: Spark stores a SQL expression, a schema file the text of a literal (`types.default_value`).

Only literals have a counterpart: an expression such as current_date() would have to be evaluated by every writer. The
JVM adds the offset of the session's time zone to timestamps (DefaultLiterals), before it sends them.

`parse_literal` reads the literals that Spark's parser takes for constants, without calls to evaluate: `'it''s'`,
`R'a'`, `X'ff00'`, `-5L`, `1.5`, `true`, `NULL`, `DATE '2026-01-31'`, `TIMESTAMP '…'`, `ARRAY(…)`, `MAP(…)`,
`STRUCT(…)`, `NAMED_STRUCT('x', …)`, `DOUBLE('NaN')`, and a text `CAST` to STRING or BINARY.
(Spark: "Literals" in the SQL reference.)
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from enum import Enum, auto
from typing import Any

from interbed.storage.base.clock import instant_of
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.row.python_values import python_value
from interbed.storage.base.types.data_type import (
    BINARIES,
    STRINGS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    RowType,
    TypeRoot,
)
from interbed.storage.base.types.default_value import default_scalar


class LiteralKind(Enum):
    """Kind of a literal in SQL."""

    NULL = auto()
    BOOLEAN = auto()
    NUMBER = auto()
    TEXT = auto()
    BINARY = auto()
    DATE = auto()
    TIMESTAMP = auto()
    ARRAY = auto()
    MAP = auto()
    STRUCT = auto()


@dataclass(frozen=True, slots=True)
class SqlLiteral:
    """A literal: its text without quotes and suffixes, the bytes of BINARY, or the parts of a nested literal.

    The parts of MAP are keys and values in turn. `is_exact` is false for numbers that are FLOAT or DOUBLE in Spark.
    """

    kind: LiteralKind
    text: str = ""
    content: bytes = b""
    parts: tuple["SqlLiteral", ...] = ()
    is_exact: bool = True


_TOKEN = re.compile(
    r"""\s*(?:
        (?P<raw>R'[^']*'|R"[^"]*")
      | (?P<hexadecimal>X'[^']*'|X"[^"]*")
      | (?P<quoted>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:E[+-]?\d+)?(?:BD|[LSYDF])?(?![\w.]))
      | (?P<word>[A-Z_]\w*)
      | (?P<mark>[(),+-])
    )\s*""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_SUFFIX = re.compile(r"(?:BD|[LSYDF])$", re.IGNORECASE)
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_WORDS = {
    "NULL": SqlLiteral(LiteralKind.NULL),
    "TRUE": SqlLiteral(LiteralKind.BOOLEAN, "true"),
    "FALSE": SqlLiteral(LiteralKind.BOOLEAN, "false"),
}
_TIMES = {
    "DATE": LiteralKind.DATE,
    "TIMESTAMP": LiteralKind.TIMESTAMP,
    "TIMESTAMP_NTZ": LiteralKind.TIMESTAMP,
    "TIMESTAMP_LTZ": LiteralKind.TIMESTAMP,
}
_CALLS = {"ARRAY": LiteralKind.ARRAY, "MAP": LiteralKind.MAP, "STRUCT": LiteralKind.STRUCT}

_FLOATS = ("FLOAT", "DOUBLE")


def parse_literal(sql: str) -> SqlLiteral:
    """Parse the SQL of a literal. Raises ValueError for another expression, with the part that is no literal."""
    parser = _Parser(_tokens(sql))
    literal = parser.literal()
    parser.end()
    return literal


def _tokens(sql: str) -> list[tuple[str, str]]:
    tokens = []
    at = 0
    while at < len(sql):
        found = _TOKEN.match(sql, at)
        if found is None:
            raise ValueError(f"{sql[at:].strip()[:20]!r} is no part of a literal")
        kind = found.lastgroup or ""
        tokens.append((kind, found[kind]))
        at = found.end()
    return tokens


class _Parser:
    """Recursive-descent parser of the tokens of a default."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0

    def literal(self) -> SqlLiteral:
        kind, text = self._take()
        match kind:
            case "quoted" | "raw":
                return SqlLiteral(LiteralKind.TEXT, self._joined(kind, text))
            case "hexadecimal":
                digits = text[2:-1]
                return SqlLiteral(
                    LiteralKind.BINARY, content=bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2))
                )
            case "number":
                return _number(text, "")
            case "mark" if text in "+-" and self._kind() == "number":
                return _number(self._take()[1], text)
            case "word":
                return self._named(text)
        raise ValueError(f"{text!r} does not begin a literal")

    def end(self) -> None:
        """Raise ValueError unless all tokens are read."""
        if self._at < len(self._tokens):
            raise ValueError(f"{self._tokens[self._at][1]!r} is behind the literal")

    def _named(self, word: str) -> SqlLiteral:
        name = word.upper()
        if name in _TIMES and self._kind() in ("quoted", "raw"):
            return SqlLiteral(_TIMES[name], _text(*self._take()))
        if name in _WORDS:
            return _WORDS[name]
        if self._next() != ("mark", "("):
            raise ValueError(f"{word!r} is no literal")
        if name == "CAST":
            return self._cast()
        if name in _CALLS:
            return SqlLiteral(_CALLS[name], parts=self._arguments())
        if name == "NAMED_STRUCT":
            return SqlLiteral(LiteralKind.STRUCT, parts=self._arguments()[1::2])
        if name in _FLOATS:
            return self._float(name)
        raise ValueError(f"{word!r} would have to be evaluated")

    def _arguments(self) -> tuple[SqlLiteral, ...]:
        self._expect("(")
        arguments: list[SqlLiteral] = []
        while self._next() != ("mark", ")"):
            if arguments:
                self._expect(",")
            arguments.append(self.literal())
        self._expect(")")
        return tuple(arguments)

    def _cast(self) -> SqlLiteral:
        self._expect("(")
        literal = self.literal()
        between, to = self._take()[1], self._take()[1]
        self._expect(")")
        match to.upper(), literal.kind:
            case _ if between.upper() != "AS":
                raise ValueError(f"{between!r} is behind the literal")
            case _, LiteralKind.NULL:
                return literal
            case "BINARY", LiteralKind.TEXT:
                return SqlLiteral(LiteralKind.BINARY, content=literal.text.encode())
            case ("BINARY", LiteralKind.BINARY) | ("STRING", LiteralKind.TEXT):
                return literal
        raise ValueError(f"a CAST to {to} would have to be evaluated")

    def _float(self, name: str) -> SqlLiteral:
        """Parse `DOUBLE('NaN')`, the form of values without a number literal."""
        arguments = self._arguments()
        if [argument.kind for argument in arguments] != [LiteralKind.TEXT]:
            raise ValueError(f"{name} takes a text")
        return SqlLiteral(LiteralKind.NUMBER, arguments[0].text, is_exact=False)

    def _joined(self, kind: str, text: str) -> str:
        """Return the text of adjacent quoted literals, which are one."""
        whole = _text(kind, text)
        while self._kind() in ("quoted", "raw"):
            whole += _text(*self._take())
        return whole

    def _next(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("", "")

    def _kind(self) -> str:
        return self._next()[0]

    def _take(self) -> tuple[str, str]:
        if self._at == len(self._tokens):
            raise ValueError("it ends within a literal")
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, mark: str) -> None:
        _, text = self._take()
        if text != mark:
            raise ValueError(f"{text!r} is where a literal has {mark!r}")


def _number(text: str, sign: str) -> SqlLiteral:
    suffix = _SUFFIX.search(text)
    digits = text if suffix is None else text[: suffix.start()]
    kind = "" if suffix is None else suffix[0].upper()
    is_exact = kind == "BD" or (kind not in ("D", "F") and "E" not in digits.upper())
    return SqlLiteral(LiteralKind.NUMBER, sign + digits, is_exact=is_exact)


def _text(kind: str, text: str) -> str:
    if kind == "raw":
        return text[2:-1]
    quote = text[0]
    return _ESCAPED.sub(_unescaped, text[1:-1].replace(quote * 2, quote))


def _unescaped(found: re.Match[str]) -> str:
    short, long, octal, letter = found.groups()
    if octal:
        return chr(int(octal, 8))
    return chr(int(short or long, 16)) if short or long else _ESCAPES.get(letter, letter)


_ROUNDING = Context(prec=100, rounding=ROUND_HALF_UP)
"""Rounding of Spark."""
_OFFSET = re.compile(r"(?:Z|[+-]\d{2}:\d{2}(?::\d{2})?)$")
_TIME_WORDS = {TypeRoot.DATE: "DATE", TypeRoot.TIMESTAMP: "TIMESTAMP_NTZ", TypeRoot.TIMESTAMP_LTZ: "TIMESTAMP_LTZ"}


def default_from_spark(sql: str, data_type: DataType, *, column: str) -> str | None:
    """Translate a default in SQL to the text of a schema file; None for NULL. Raises NotSupportedError."""
    try:
        literal = parse_literal(sql)
        if literal.kind is LiteralKind.NULL:
            return None
        text = _stored(literal, data_type)
        default_scalar(text, data_type, column=column)
    except (ValueError, ArithmeticError, InvalidInputError) as error:
        raise NotSupportedError(
            f"The default of the column '{column}' is a literal of the column's type, not {sql}: "
            f"{str(error).rstrip('.')}. Write the value itself, or let each INSERT give it."
        ) from error
    return text


def default_to_spark(text: str, data_type: DataType, *, column: str) -> str | None:
    """Translate the default of a schema file to Spark's SQL; None for a text that no writer could use."""
    try:
        return _literal(python_value(default_scalar(text, data_type, column=column)), data_type)
    except InvalidInputError:
        return None


def _stored(literal: SqlLiteral, data_type: DataType, *, is_nested: bool = False) -> str:
    """Return the literal in the syntax of `default_value`. Raises ValueError for a literal of another type."""
    if literal.kind is LiteralKind.NULL:
        return "null"
    match literal.kind, data_type:
        case LiteralKind.ARRAY, ArrayType(element=element):
            return f"ARRAY({_joined((part, element) for part in literal.parts)})"
        case LiteralKind.MAP, MapType(key=key, value=value):
            return f"MAP({_joined((part, value if i % 2 else key) for i, part in enumerate(literal.parts))})"
        case LiteralKind.STRUCT, RowType(fields=fields):
            if len(fields) != len(literal.parts):
                raise ValueError(f"it has {len(literal.parts)} fields, not {len(fields)}")
            return f"STRUCT({_joined(zip(literal.parts, (f.type for f in fields), strict=True))})"
        case _, AtomicType():
            text = _stored_atomic(literal, data_type)
            if is_nested and "'" in text[1:-1]:
                raise ValueError("a nested text with a single quote can't be stored")
            return text
    raise ValueError(f"it is no {data_type.with_nullable(True)}")


def _joined(parts: Iterable[tuple[SqlLiteral, DataType]]) -> str:
    return ", ".join(_stored(part, data_type, is_nested=True) for part, data_type in parts)


def _stored_atomic(literal: SqlLiteral, data_type: AtomicType) -> str:
    root = data_type.root
    match literal.kind:
        case LiteralKind.TEXT if root is not TypeRoot.TIMESTAMP_LTZ:
            return f"'{literal.text}'"
        case LiteralKind.BINARY if root in BINARIES:
            try:
                return f"'{literal.content.decode()}'"
            except UnicodeDecodeError as error:
                raise ValueError("a default is stored as text in UTF-8, which these bytes are not") from error
        case LiteralKind.BOOLEAN if root is TypeRoot.BOOLEAN or root in STRINGS:
            return literal.text
        case LiteralKind.NUMBER if root is TypeRoot.DECIMAL:
            number = Decimal(literal.text).quantize(Decimal(1).scaleb(-(data_type.scale or 0)), context=_ROUNDING)
            return f"{number:f}"
        case LiteralKind.NUMBER if root in STRINGS:
            if not literal.is_exact:
                raise ValueError("the text of a FLOAT or DOUBLE is written in quotes")
            return f"{Decimal(literal.text):f}"
        case LiteralKind.NUMBER if root not in BINARIES:
            return literal.text
        case LiteralKind.DATE if root in (TypeRoot.DATE, TypeRoot.TIMESTAMP):
            return f"'{literal.text}'"
        case LiteralKind.TIMESTAMP if root is TypeRoot.TIMESTAMP:
            return f"'{_OFFSET.sub('', literal.text)}'"
        case LiteralKind.TIMESTAMP if root is TypeRoot.TIMESTAMP_LTZ:
            return f"'{_instant(literal.text)}'"
        case _ if root is TypeRoot.TIMESTAMP_LTZ:
            raise ValueError("an instant is written as TIMESTAMP '…'")
    raise ValueError(f"it is no {data_type.with_nullable(True)}")


def _instant(text: str) -> str:
    """Return the text of an instant, without its offset if that is the local zone's, as Java Paimon reads it."""
    given = datetime.fromisoformat(text)
    local = given.replace(tzinfo=None)
    return _OFFSET.sub("", text) if given.tzinfo is None or instant_of(local) == instant_of(given) else text


def _literal(value: Any, data_type: DataType) -> str:
    if value is None:
        return "NULL"
    match data_type:
        case ArrayType(element=element):
            return f"ARRAY({', '.join(_literal(v, element) for v in value)})"
        case MapType(key=key, value=item):
            return f"MAP({', '.join(f'{_literal(k, key)}, {_literal(v, item)}' for k, v in value)})"
        case RowType(fields=fields):
            parts = (f"'{_escaped(f.name)}', {_literal(value[f.name], f.type)}" for f in fields)
            return f"NAMED_STRUCT({', '.join(parts)})"
        case AtomicType():
            return _atomic(value, data_type)
        case _:
            raise InvalidInputError(f"Columns of the type {data_type} have no defaults.")


def _atomic(value: Any, data_type: AtomicType) -> str:
    root = data_type.root
    if root in STRINGS:
        return f"'{_escaped(value)}'"
    if root in BINARIES:
        return f"X'{value.hex()}'"
    if root is TypeRoot.TIME:
        # Spark holds times as milliseconds of the day.
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return str(seconds * 1000 + value.microsecond // 1000)
    if root in _TIME_WORDS:
        return f"{_TIME_WORDS[root]} '{value}'"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{root.name}('{value}')"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
