"""The rows of a JSON file with an object in each line, its bad lines, and types guessed from its values.

A guessed type loses no digit of a number. Numbers are guessed from their texts as those of a CSV file are
(`text_values`), also within objects and lists.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from interbed.catalog.client.cli.forms.row_formats import BadLine, BadLines, FileBatch
from interbed.catalog.client.cli.forms.text_values import (
    VALUE_ERRORS,
    GuessedColumn,
    JsonNumber,
    json_converter,
    misfit,
    no_value,
    not_utf8,
)
from interbed.catalog.client.cli.group import check_columns
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.types.data_type import DataField, DataType

_DIGITS = 38

BATCH_ROWS = 10_000
"""The number of lines of a batch."""


class GuessedJson:
    """The common type of the values of a column so far; JsonNumber keeps the text of a number."""

    def __init__(self) -> None:
        self._kind: str | None = None
        self._has_digits = False
        self._numbers = GuessedColumn()
        self._items: GuessedJson | None = None
        self._fields: dict[str, GuessedJson] = {}

    def add(self, values: Iterable[Any]) -> None:
        """Add values; raise ValueError when they have no common type."""
        found = [value for value in values if value is not None]
        for kind in {_kind_of(value) for value in found}:
            if self._kind is not None and kind != self._kind:
                raise ValueError(f"{self._kind} and {kind}")
            self._kind = kind
        if self._kind == "numbers":
            self._add_numbers(found)
        elif self._kind == "lists":
            self._items = self._items or GuessedJson()
            self._items.add(item for value in found for item in value)
        elif self._kind == "objects":
            for name in dict.fromkeys(name for value in found for name in value):
                self._fields.setdefault(name, GuessedJson()).add(value.get(name) for value in found)

    @property
    def type(self) -> pa.DataType:
        """The type of all values; null without values. Raises ValueError for numbers that no type holds."""
        match self._kind:
            case "truth values":
                return pa.bool_()
            case "texts":
                return pa.string()
            case "lists":
                return pa.list_(pa.null() if self._items is None else self._items.type)
            case "objects":
                return pa.struct([(name, field.type) for name, field in self._fields.items()])
            case "numbers":
                return self._type_of_numbers()
        return pa.null()

    def _add_numbers(self, numbers: list[Any]) -> None:
        # Python's JSON takes NaN and Infinity, which are floats without digits.
        self._has_digits = self._has_digits or any(type(number) is not float for number in numbers)
        texts = [_plain(getattr(number, "text", str(number))) for number in numbers]
        self._numbers.add(pa.array(texts, pa.string()), pa.null())

    def _type_of_numbers(self) -> pa.DataType:
        if not self._has_digits:
            return pa.float64()
        kind = self._numbers.type
        if pa.types.is_string(kind):
            raise ValueError("their digits fit into no DOUBLE and no DECIMAL")
        return kind


def _plain(text: str) -> str:
    """Return the same number without an exponent, unless it then has too many digits for any type; 5e-1 is a DECIMAL,
    too.
    """
    if "e" not in text and "E" not in text:
        return text
    number = Decimal(text)
    return format(number, "f") if -_DIGITS <= number.adjusted() <= _DIGITS else text


def _kind_of(value: Any) -> str:
    match value:
        case bool():
            return "truth values"
        case int() | float():
            return "numbers"
        case dict():
            return "objects"
        case list():
            return "lists"
    return "texts"


@dataclass(frozen=True, slots=True)
class _JsonLine:
    data: bytes
    line: int
    row: dict[str, Any]


def json_batches(
    source: Iterable[bytes], path: Path, table: str, fields: Sequence[DataField], schema: pa.Schema, bad: BadLines
) -> Iterator[FileBatch]:
    """Yield the rows for a table of these columns, of which `schema` has the Arrow types; raise the errors of
    BadLines.add.
    """
    reading = _JsonReader(path, table, fields, schema)
    block: list[_JsonLine] = []
    for data, number in _numbered(source):
        line = reading.line(data, number)
        if isinstance(line, BadLine):
            bad.add([line])
            continue
        block.append(line)
        if len(block) == BATCH_ROWS:
            yield reading.batch(block, bad)
            block = []
    if block:
        yield reading.batch(block, bad)


def inferred_json_schema(source: Iterable[bytes], path: Path, given: Collection[str] = ()) -> pa.Schema:
    """Return the columns of a file with types that hold all its values; those of `given` are not guessed."""
    columns: dict[str, GuessedJson] = {}
    for rows in _blocks_of_rows(source, path):
        for name in dict.fromkeys(name for row in rows for name in row):
            column = columns.setdefault(name, GuessedJson())
            if name not in given:
                with _naming_column(path, name):
                    column.add(row.get(name) for row in rows)
    if not columns:
        raise InvalidInputError(f"{path} has no rows to take columns of.")
    found: list[tuple[str, pa.DataType]] = []
    for name, column in columns.items():
        with _naming_column(path, name):
            kind = pa.string() if name in given else column.type
        if (place := _unknown(kind, name)) is not None:
            raise InvalidInputError(
                f"{path}: all values of '{place}' are null or empty, so that its type is not known; give the type of "
                f"'{name}' by --column, or import the file into a table that has it."
            )
        found.append((name, kind))
    return pa.schema(found)


def _unknown(kind: pa.DataType, name: str) -> str | None:
    """Return the column, or the field in it, that has no type; None if all have one."""
    if isinstance(kind, pa.ListType):
        return _unknown(kind.value_type, name)
    if isinstance(kind, pa.StructType):
        parts = (_unknown(field.type, f"{name}.{field.name}") for field in kind)
        return next((part for part in parts if part is not None), None) if len(kind) else name
    return name if pa.types.is_null(kind) else None


def _blocks_of_rows(source: Iterable[bytes], path: Path) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    for data, number in _numbered(source):
        try:
            rows.append(_object_of(data))
        except ValueError as error:
            raise InvalidInputError(f"{path}, line {number}: {error}.") from error
        if len(rows) == BATCH_ROWS:
            yield rows
            rows = []
    if rows:
        yield rows


@contextmanager
def _naming_column(path: Path, name: str) -> Iterator[None]:
    """Add the file and the column to errors of GuessedJson."""
    try:
        yield
    except VALUE_ERRORS as error:
        raise InvalidInputError(
            f"{path}: the values of '{name}' are of no one type ({error}); give its type by --column, or "
            "import the file into a table that has it."
        ) from error


class _JsonReader:
    """Reader of one file with the types of a table."""

    def __init__(self, path: Path, table: str, fields: Sequence[DataField], schema: pa.Schema) -> None:
        self._path = path
        self._table = table
        self._schema = schema
        self._types: dict[str, DataType] = {f.name: f.type for f in fields}
        self._converters = {f.name: convert for f in fields if (convert := json_converter(f.type)) is not None}

    def line(self, data: bytes, number: int) -> _JsonLine | BadLine:
        """Return the row of a line, or its problem."""
        try:
            row = _object_of(data)
        except ValueError as error:
            return self._bad(data, number, None, str(error))
        if not row.keys() <= self._types.keys():
            try:
                check_columns(self._table, self._schema.names, row)
            except InvalidInputError as error:
                return self._bad(data, number, None, str(error))
        for name, convert in self._converters.items():
            value = row.get(name)
            if value is not None:
                try:
                    row[name] = convert(value)
                except VALUE_ERRORS as error:
                    is_said = isinstance(error, InvalidInputError) or type(error) is ValueError
                    reason = str(error) if is_said else f"{no_value(value, self._types[name])}: {error}"
                    return self._bad(data, number, name, reason)
        return _JsonLine(data, number, row)

    def batch(self, block: list[_JsonLine], bad: BadLines) -> FileBatch:
        """Return the rows that Arrow accepts; the others are bad."""
        try:
            batch = self._made(block)
        except VALUE_ERRORS:
            misfits = [self._misfit(line) for line in block]
            bad.add(misfit for misfit in misfits if misfit is not None)
            block = [line for line, misfit in zip(block, misfits, strict=True) if misfit is None]
            batch = self._made(block)
        return FileBatch(batch=batch, path=self._path, unit="line", find=lambda: block)

    def _made(self, block: list[_JsonLine]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([line.row for line in block], schema=self._schema)

    def _misfit(self, line: _JsonLine) -> BadLine | None:
        for name, kind in self._types.items():
            value = line.row.get(name)
            reason = None if value is None else misfit(value, kind)
            if reason is not None:
                return self._bad(line.data, line.line, name, reason)
        return None

    def _bad(self, data: bytes, number: int, column: str | None, reason: str) -> BadLine:
        text = data.decode(errors="backslashreplace")
        return BadLine(path=self._path, number=number, column=column, reason=reason, text=text)


def _numbered(source: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield the lines that are not blank, with their numbers from 1."""
    for number, data in enumerate(source, 1):
        line = data.removeprefix(b"\xef\xbb\xbf") if number == 1 else data
        if line.strip():
            yield line.rstrip(b"\r\n"), number


def _object_of(data: bytes) -> dict[str, Any]:
    """Return the object of a line; raise ValueError if it is none."""
    try:
        row = json.loads(data.decode(), parse_float=JsonNumber, object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is {not_utf8(error)}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(row, dict):
        raise ValueError("it is no object; each line holds a row")
    return row


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"it has the key {next(n for n in names if names.count(n) > 1)!r} twice")
    return found
