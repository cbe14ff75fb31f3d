"""Syntax of text files, as the options `csv.…`, `json.…` and `text.…` of a format table define it.

Keys, older keys and defaults are Paimon's (paimon-format `csv.CsvOptions`, `json.JsonOptions`, `text.TextOptions`).
Java Paimon takes the first character of a longer delimiter when it reads and the whole when it writes; here an option
of one character has one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from interbed.storage.base.errors import InvalidOptionError

STANDARD_DELIMITERS = ("\n", "\r\n", "\r")
"""Delimiters of lines for which a line ends with any of them."""

BYTE_ORDER_MARK = "\ufeff"
"""Character that is skipped at the beginning of a file."""

NO_CHARACTER = "\0"
"""The value of `csv.quote-character` and `csv.escape-character` that switches it off."""

OLDER_KEYS: Mapping[str, tuple[str, ...]] = {
    "csv.field-delimiter": ("field-delimiter", "seq", "delimiter"),
    "csv.line-delimiter": ("lineSep",),
    "csv.quote-character": ("quote",),
    "csv.escape-character": ("escape",),
    "csv.include-header": ("header",),
    "csv.null-literal": ("nullvalue",),
    "csv.mode": ("mode",),
    "text.line-delimiter": ("lineSep",),
}
"""Keys that Paimon reads where the first one is not set."""


class MalformedMode(StrEnum):
    """Treatment of a field that is no value of its column: null, a row left out, or an error."""

    PERMISSIVE = "permissive"
    DROP = "dropmalformed"
    FAIL = "failfast"


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvOptions:
    """Syntax of CSV files. `quote` and `escape` are None where there is no such character.

    `null_literal` is None where no text means null. With `escapes_all` an escape character stands before any character,
    as in Hive's LazySimpleSerDe. With `blank_rows` a line of blanks is a row like others. `header_lines` are skipped in
    each file.
    """

    delimiter: str = ","
    line_delimiter: str = "\n"
    quote: str | None = '"'
    escape: str | None = "\\"
    null_literal: str | None = ""
    header_lines: int = 0
    mode: MalformedMode = MalformedMode.PERMISSIVE
    escapes_all: bool = False
    blank_rows: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonOptions:
    """Syntax of JSON files, which have an object a line; `any_case` finds fields whatever their case."""

    line_delimiter: str = "\n"
    ignores_errors: bool = False
    any_case: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOptions:
    """Syntax of files whose lines are the values of their only column."""

    line_delimiter: str = "\n"


TextFileOptions = CsvOptions | JsonOptions | LineOptions


def text_syntax(file_format: str, options: Mapping[str, str]) -> TextFileOptions | None:
    """Return the syntax of files of a text format; None for another format. Raises InvalidOptionError."""
    match file_format:
        case "csv":
            return _csv(options)
        case "json":
            return _json(options)
        case "text":
            return LineOptions(line_delimiter=_delimiter(options, "text.line-delimiter"))
    return None


def _csv(options: Mapping[str, str]) -> CsvOptions:
    syntax = CsvOptions(
        delimiter=_character(options, "csv.field-delimiter", ",") or "",
        line_delimiter=_delimiter(options, "csv.line-delimiter"),
        quote=_character(options, "csv.quote-character", '"', optional=True),
        escape=_character(options, "csv.escape-character", "\\", optional=True),
        null_literal=_given(options, "csv.null-literal", ""),
        header_lines=int(_boolean(options, "csv.include-header")),
        mode=_mode(options),
    )
    characters = [c for c in (syntax.delimiter, syntax.quote, syntax.escape) if c is not None]
    if len(set(characters)) < len(characters) or any(c in "\r\n" for c in characters):
        raise InvalidOptionError(
            "Options 'csv.field-delimiter', 'csv.quote-character' and 'csv.escape-character' take different characters "
            f"that end no line, not {', '.join(map(repr, characters))}."
        )
    return syntax


def _json(options: Mapping[str, str]) -> JsonOptions:
    return JsonOptions(
        line_delimiter=_delimiter(options, "json.line-delimiter"),
        ignores_errors=_boolean(options, "json.ignore-parse-errors"),
    )


def _given(options: Mapping[str, str], key: str, default: str) -> str:
    return next((options[k] for k in (key, *OLDER_KEYS.get(key, ())) if k in options), default)


def _delimiter(options: Mapping[str, str], key: str) -> str:
    value = _given(options, key, "\n")
    if not value:
        raise InvalidOptionError(f"Option '{key}' must not be empty.")
    return value


def _character(options: Mapping[str, str], key: str, default: str, *, optional: bool = False) -> str | None:
    value = _given(options, key, default)
    if optional and value == NO_CHARACTER:
        return None
    if len(value) != 1 or value == NO_CHARACTER:
        raise InvalidOptionError(f"Option '{key}' takes one character, not {value!r}.")
    return value


def _boolean(options: Mapping[str, str], key: str) -> bool:
    value = _given(options, key, "false")
    if value.lower() not in ("true", "false"):
        raise InvalidOptionError(f"Option '{key}' takes true or false, not '{value}'.")
    return value.lower() == "true"


def _mode(options: Mapping[str, str]) -> MalformedMode:
    value = _given(options, "csv.mode", MalformedMode.PERMISSIVE)
    try:
        return MalformedMode(value.lower())
    except ValueError:
        known = ", ".join(MalformedMode)
        raise InvalidOptionError(f"Option 'csv.mode' takes one of {known}, not '{value}'.") from None
