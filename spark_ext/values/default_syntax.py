"""Literals in the SQL of a column's default: what Spark's parser takes for a constant, without calls to evaluate.

`'it''s'`, `R'a'`, `X'ff00'`, `-5L`, `1.5`, `true`, `NULL`, `DATE '2026-01-31'`, `TIMESTAMP '…'`, `ARRAY(…)`, `MAP(…)`,
`STRUCT(…)`, `NAMED_STRUCT('x', …)`, `DOUBLE('NaN')`, and a text `CAST` to STRING or BINARY.
(Spark: "Literals" in the SQL reference.)
"""

import re
from dataclasses import dataclass
from enum import Enum, auto


class LiteralKind(Enum):
    """What a literal is, before it becomes a value of its column's type."""

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
    """A literal: its text without quotes and suffixes, of BINARY its bytes, of a nested one its parts.

    The parts of MAP are keys and values in turn. `is_exact` is false of numbers that Spark holds as FLOAT or DOUBLE.
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
    """The literal that the SQL is; raises ValueError for another expression, with what it has that no literal has."""
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
    """The tokens of a default, read one after another."""

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
        """`DOUBLE('NaN')`, the way to write what no number is."""
        arguments = self._arguments()
        if [argument.kind for argument in arguments] != [LiteralKind.TEXT]:
            raise ValueError(f"{name} takes a text")
        return SqlLiteral(LiteralKind.NUMBER, arguments[0].text, is_exact=False)

    def _joined(self, kind: str, text: str) -> str:
        """The text of quoted literals beside each other, which are one."""
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
