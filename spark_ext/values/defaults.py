"""Defaults of columns: Spark keeps a SQL expression, a schema file a literal's text (`types.default_value`).

Only literals have a counterpart: an expression such as current_date() would have to be evaluated by every writer. The
JVM adds the offset of the session's time zone to timestamps (DefaultLiterals), before it sends them.
"""

import math
import re
from collections.abc import Iterable
from datetime import datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from interbed.spark_ext.values.default_syntax import LiteralKind, SqlLiteral, parse_literal
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

_ROUNDING = Context(prec=100, rounding=ROUND_HALF_UP)
"""As Spark rounds."""
_OFFSET = re.compile(r"(?:Z|[+-]\d{2}:\d{2}(?::\d{2})?)$")
_WORDS = {TypeRoot.DATE: "DATE", TypeRoot.TIMESTAMP: "TIMESTAMP_NTZ", TypeRoot.TIMESTAMP_LTZ: "TIMESTAMP_LTZ"}


def default_from_spark(sql: str, data_type: DataType, *, column: str) -> str | None:
    """The text for a schema file of a default given in SQL; None for NULL. Raises NotSupportedError."""
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
    """The default as SQL that Spark takes for the type; None for text that no writer could use."""
    try:
        return _literal(python_value(default_scalar(text, data_type, column=column)), data_type)
    except InvalidInputError:
        return None


def _stored(literal: SqlLiteral, data_type: DataType, *, is_nested: bool = False) -> str:
    """The literal as `default_value` reads it; raises ValueError for one that the type does not have."""
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
    """The text of an instant: without its offset where the machine's zone has it, as Java Paimon reads it."""
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
    if root in _WORDS:
        return f"{_WORDS[root]} '{value}'"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{root.name}('{value}')"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
