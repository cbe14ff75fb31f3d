"""The rows of a JSON file, which has an object in a line, and the lines that hold none."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from interbed.catalog.client.cli.forms.bad_lines import BadLine, BadLines
from interbed.catalog.client.cli.forms.file_batch import FileBatch
from interbed.catalog.client.cli.forms.guessed_json import GuessedJson
from interbed.catalog.client.cli.forms.text_values import VALUE_ERRORS, JsonNumber, json_converter, misfit, no_value
from interbed.catalog.client.cli.near_names import check_columns
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.types.data_type import DataField, DataType

BATCH_ROWS = 10_000
"""Lines that make a batch."""


@dataclass(frozen=True, slots=True)
class _JsonLine:
    data: bytes
    line: int
    row: dict[str, Any]


def json_batches(
    source: Iterable[bytes], path: Path, table: str, fields: Sequence[DataField], schema: pa.Schema, bad: BadLines
) -> Iterator[FileBatch]:
    """The rows for a table of these columns, of which `schema` has the Arrow types; raises what BadLines.add raises."""
    reading = _Reading(path, table, fields, schema)
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
    """The columns of a file with types that hold all its values; those with a `given` type are not looked at."""
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
            found.append((name, pa.string() if name in given else column.type))
    return pa.schema(found)


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
    """Name the file and the column in what GuessedJson raises."""
    try:
        yield
    except VALUE_ERRORS as error:
        raise InvalidInputError(
            f"{path}: the values of '{name}' are of no one type ({error}); give its type by --column, or "
            "import the file into a table that has it."
        ) from error


class _Reading:
    """One file, for a table."""

    def __init__(self, path: Path, table: str, fields: Sequence[DataField], schema: pa.Schema) -> None:
        self._path = path
        self._table = table
        self._schema = schema
        self._types: dict[str, DataType] = {f.name: f.type for f in fields}
        self._converters = {f.name: convert for f in fields if (convert := json_converter(f.type)) is not None}

    def line(self, data: bytes, number: int) -> _JsonLine | BadLine:
        """The row of a line, or what is wrong with it."""
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
        """The rows that Arrow takes; the others are bad."""
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
    """The lines that are not blank, with their numbers from 1."""
    for number, data in enumerate(source, 1):
        line = data.removeprefix(b"\xef\xbb\xbf") if number == 1 else data
        if line.strip():
            yield line.rstrip(b"\r\n"), number


def _object_of(data: bytes) -> dict[str, Any]:
    """The object of a line; raises ValueError saying what it is instead."""
    try:
        row = json.loads(data.decode(), parse_float=JsonNumber, object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8: byte 0x{data[error.start]:02x} at position {error.start}") from None
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
