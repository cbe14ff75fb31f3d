"""Columns as text: `id BIGINT NOT NULL`, `tags ARRAY<STRING> COMMENT 'of the shop'`, `"unit price" DECIMAL(10, 2)`.

Types are written as in Paimon's SQL: atomic ones by name, `ARRAY<T>`, `MULTISET<T>`, `MAP<K, V>` and `ROW<name T, …>`,
each with an optional `NOT NULL` after it.
"""

import re
from collections.abc import Iterable

from interbed.storage.base.errors import CorruptFileError, InvalidInputError
from interbed.storage.base.shown_text import did_you_mean
from interbed.storage.base.types.data_type import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    parse_atomic,
    type_to_json,
)
from interbed.storage.meta.schema.apply import numbered

_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>`(?:[^`]|``)+`|"(?:[^"]|"")+")|(?P<text>'(?:[^']|'')*')|(?P<word>\w+)|(?P<sign>\S))"""
)
_NAMES = (*TypeRoot, "STRING", "BYTES", "ARRAY", "MAP", "ROW", "MULTISET")


def parse_column(text: str) -> DataField:
    """Return the column, with the field id 0; raise InvalidInputError with the text and its problem."""
    parser = _Parser(text)
    field = parser.column()
    if parser.kind:
        raise parser.error(f"what is {parser.rest!r}?")
    return field


def numbered_columns(columns: Iterable[DataField]) -> tuple[DataField, ...]:
    """Return the columns with field ids as Paimon assigns them: those of nested fields come after all columns."""
    given = list(columns)
    highest, result = len(given) - 1, []
    for number, column in enumerate(given):
        data_type, highest = numbered(column.type, highest)
        result.append(DataField(id=number, name=column.name, type=data_type, description=column.description))
    return tuple(result)


def type_text(data_type: DataType) -> str:
    """Return the type as text for `parse_column`."""
    suffix = "" if data_type.nullable else " NOT NULL"
    match data_type:
        case ArrayType(element=element):
            return f"ARRAY<{type_text(element)}>{suffix}"
        case MultisetType(element=element):
            return f"MULTISET<{type_text(element)}>{suffix}"
        case MapType(key=key, value=value):
            return f"MAP<{type_text(key)}, {type_text(value)}>{suffix}"
        case RowType(fields=fields):
            return f"ROW<{', '.join(map(column_text, fields))}>{suffix}"
        case _:
            return str(type_to_json(data_type))


def column_text(column: DataField) -> str:
    """Return the column as text for `parse_column`."""
    name = column.name if re.fullmatch(r"[^\W\d]\w*", column.name) else '"' + column.name.replace('"', '""') + '"'
    comment = "" if column.description is None else f" COMMENT {_quoted(column.description)}"
    return f"{name} {type_text(column.type)}{comment}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class _Parser:
    """Parser of a column from left to right; `kind` is that of the current token, empty at the end of the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._start = self._end = 0
        self.kind = self._value = ""
        self._next()

    def column(self) -> DataField:
        name = self._name()
        data_type = self._type(name)
        description = None
        if self._word("COMMENT"):
            if self.kind != "text":
                raise self.error("COMMENT is followed by a text in single quotes")
            description = self._value[1:-1].replace("''", "'")
            self._next()
        return DataField(id=0, name=name, type=data_type, description=description)

    @property
    def rest(self) -> str:
        return self._text[self._start :].strip()

    def error(self, what: str) -> InvalidInputError:
        return InvalidInputError(f"Not a column: {self._text!r}: {what}. Write NAME TYPE [NOT NULL] [COMMENT 'text'].")

    def _name(self) -> str:
        if self.kind not in ("word", "quoted"):
            raise self.error("it has no name" if not self.kind else f"{self._value!r} is no name")
        value = self._value
        self._next()
        if value[0] in '`"' and len(value) > 1:
            return value[1:-1].replace(value[0] * 2, value[0])
        return value

    def _type(self, name: str) -> DataType:
        start, word = self._start, self._value.upper()
        if self.kind != "word":
            raise self.error(f"the column {name!r} has no type")
        self._next()
        if self._value != "<":
            return self._atomic(start, word)
        self._next()
        nested: DataType
        match word:
            case "ARRAY":
                nested = ArrayType(self._type("element"))
            case "MULTISET":
                nested = MultisetType(self._type("element"))
            case "MAP":
                key = self._type("key").with_nullable(False)
                self._sign(",")
                nested = MapType(key, self._type("value"))
            case "ROW":
                fields = [self.column()]
                while self._value == ",":
                    self._next()
                    fields.append(self.column())
                nested = RowType(tuple(fields))
            case _:
                raise self.error(f"{word} has no '<'.{did_you_mean(word, ('ARRAY', 'MULTISET', 'MAP', 'ROW'))}")
        self._sign(">")
        if self._word("NOT"):
            if not self._word("NULL"):
                raise self.error("NOT is followed by NULL")
            return nested.with_nullable(False)
        return nested

    def _atomic(self, start: int, word: str) -> AtomicType:
        depth = 0
        while self.kind and (depth or (self._value not in (",", ">") and self._value.upper() != "COMMENT")):
            depth += {"(": 1, ")": -1}.get(self._value, 0)
            self._next()
        end = self._start if self.kind else len(self._text)
        written = self._text[start:end].strip()
        try:
            return parse_atomic(written)
        except CorruptFileError:
            raise self.error(f"there is no type {written!r}.{did_you_mean(word, _NAMES)}") from None

    def _sign(self, sign: str) -> None:
        if self._value != sign:
            raise self.error(f"a {sign!r} is missing before {self.rest!r}")
        self._next()

    def _word(self, word: str) -> bool:
        if self.kind == "word" and self._value.upper() == word:
            self._next()
            return True
        return False

    def _next(self) -> None:
        found = _TOKEN.match(self._text, self._end)
        if found is None:
            self.kind = self._value = ""
            self._start = self._end = len(self._text)
            return
        self.kind = found.lastgroup or ""
        self._value = found[self.kind]
        self._start, self._end = found.start(self.kind), found.end()
