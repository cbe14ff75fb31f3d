"""Defaults of columns: Spark keeps a SQL expression, a schema file a literal's text (`storage.types.default_value`).

Only literals have a counterpart: an expression such as current_date() would have to be evaluated by every writer.
"""

import re
from decimal import Decimal
from typing import Any

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

_TYPED = re.compile(r"^(?:DATE|TIMESTAMP(?:_NTZ|_LTZ)?)\s*(?P<text>'[^']*'|\"[^\"]*\")$", re.IGNORECASE)
_NUMBER = re.compile(r"^(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:E[+-]?\d+)?)(?:L|S|Y|D|F|BD)?$", re.IGNORECASE)
_QUOTED = re.compile(r"""^(?:'(?P<single>(?:[^'\\]|\\.|'')*)'|"(?P<double>(?:[^"\\]|\\.|"")*)")$""", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0"}
_WORDS = {TypeRoot.DATE: "DATE", TypeRoot.TIMESTAMP: "TIMESTAMP_NTZ", TypeRoot.TIMESTAMP_LTZ: "TIMESTAMP_LTZ"}


def default_from_spark(sql: str, data_type: DataType, *, column: str) -> str | None:
    """The text for a schema file of a default given in SQL; None for NULL. Raises NotSupportedError."""
    text = sql.strip()
    if text.upper() == "NULL":
        return None
    typed = _TYPED.match(text)
    number = _NUMBER.match(text)
    quoted = _QUOTED.match(text if typed is None else typed["text"])
    if quoted is not None:
        text = f"'{_unescaped(quoted)}'"
    elif number is not None:
        text = number["number"]
    try:
        default_scalar(text, data_type, column=column)
    except InvalidInputError as error:
        raise NotSupportedError(
            f"The default of the column '{column}' is a literal of the column's type, not {sql}: {error}"
        ) from error
    return text


def default_to_spark(text: str, data_type: DataType, *, column: str) -> str | None:
    """The default as SQL that Spark takes for the type; None for text that no writer could use."""
    try:
        return _literal(python_value(default_scalar(text, data_type, column=column)), data_type)
    except InvalidInputError:
        return None


def _unescaped(quoted: re.Match[str]) -> str:
    single, double = quoted["single"], quoted["double"]
    text = double.replace('""', '"') if single is None else single.replace("''", "'")
    return _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), text)


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
    if root in _WORDS:
        return f"{_WORDS[root]} '{value}'"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
