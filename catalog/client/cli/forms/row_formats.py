"""Rows on the way out: a table for people, JSON lines, CSV, Parquet; and on the way in: rows and bad lines of a file.

Rows are written batch by batch, so that memory is bounded. In CSV a null is an empty field and an empty text is `""`;
nested values are JSON and bytes base64. Columns of equal names are numbered in all forms. The row kinds of changes are
+I, -U, +U and -D.

Rows of a file have their line numbers. The first line that does not fit a table ends the import, or all such lines are
left out and written to a file. That file has one object in a line: `{"file": "orders.csv", "line": 3, "column":
"amount", "reason": "…", "text": "1,two"}`. Rows of files without lines (Parquet, ORC, Arrow) have `row`, counted from
0, instead of `line`.
"""

import base64
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import click
import pyarrow as pa
from rich.console import Console
from rich.table import Table as RichTable

from interbed.catalog.client.cli.group import ROWS_SHOWN
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.row.python_values import python_rows, python_values
from interbed.storage.base.shown_text import escaped
from interbed.storage.base.terminal import print_line, readable
from interbed.storage.base.types.column_names import numbered_names
from interbed.storage.base.types.far_times import FarDate, FarTimestamp

_WITH_PARTS = frozenset({dict, list, tuple, FarDate, FarTimestamp})

_TEXT_MAX = 200


def print_changes(reader: pa.RecordBatchReader, limit: int | None, *, as_json: bool) -> None:
    """Print the rows as they come; at most `limit`, by default ROWS_SHOWN, or all of them as JSON."""
    from interbed.storage.views.changes import ROW_KIND

    rows = _rows(reader)
    if as_json:
        for row in itertools.islice(rows, limit):
            click.echo(json_line(row))
        return
    shown = ROWS_SHOWN if limit is None else limit
    table = RichTable()
    for name in (ROW_KIND, *(n for n in reader.schema.names if n != ROW_KIND)):
        table.add_column("" if name == ROW_KIND else escaped(name))
    for row in itertools.islice(rows, shown):
        kind = row.pop(ROW_KIND)
        table.add_row(
            kind, *("" if v is None else escaped(v if isinstance(v, str) else shown_value(v)) for v in row.values())
        )
    if not table.row_count and shown:
        print_line("no changes")
        return
    Console(width=None if Console().is_terminal else 120, markup=False).print(table)
    if next(rows, None) is not None:
        print_line(f"only the first {shown} rows are shown; --limit shows more")


def json_line(row: object) -> str:
    """Return a row, or a value, as JSON in one line: bytes in base64, dates, times and decimals as text."""
    return json.dumps(_plain(row), default=_text)


def _rows(reader: pa.RecordBatchReader) -> Iterator[dict[str, Any]]:
    """Yield the rows one by one, as they are printed."""
    from interbed.storage.read.change_read import ROW_KIND

    for batch in reader:
        for row in python_rows(batch):
            yield {ROW_KIND: RowKind(row.pop(ROW_KIND)).short, **row}


def shown_value(value: object) -> str:
    """Return a value as JSON for people."""
    return json.dumps(_plain(value), default=_text, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Return the value with far dates and timestamps, which are integers for JSON, as text."""
    kind = type(value)
    if kind is dict:
        return {name: _plain(item) if type(item) in _WITH_PARTS else item for name, item in value.items()}
    if kind is list or kind is tuple:
        return [_plain(item) if type(item) in _WITH_PARTS else item for item in value]
    return str(value) if kind is FarDate or kind is FarTimestamp else value


def _text(value: object) -> str:
    """Return the text of a value without a type in JSON: bytes in base64, others as Python writes them."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def write_rows(reader: pa.RecordBatchReader, form: str, output: Path | None, *, limited: bool) -> None:
    """Write the rows in a form of group.FORMATS, to standard output or a file; then print their number to standard
    error.

    A table for people has ROWS_SHOWN rows and a line that says so, unless the number of rows is `limited` already. A
    file is complete or missing.
    """
    names = numbered_names(reader.schema.names)
    if names != reader.schema.names:
        reader = pa.RecordBatchReader.from_batches(_renamed(reader.schema, names), _all_renamed(reader, names))
    if form == "table" and output is None:
        _show(reader, None if limited else ROWS_SHOWN)
        return
    with file_sink(output) as sink:
        rows = _WRITERS[form](reader, sink)
    if output is not None:
        print_line(f"{rows} {'row' if rows == 1 else 'rows'} in {output}", err=True)


def _renamed(schema: pa.Schema, names: list[str]) -> pa.Schema:
    return pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)])


def _all_renamed(reader: pa.RecordBatchReader, names: list[str]) -> Iterator[pa.RecordBatch]:
    with reader:
        for batch in reader:
            yield pa.RecordBatch.from_arrays(batch.columns, schema=_renamed(batch.schema, names))


@contextmanager
def file_sink(output: Path | None) -> Iterator[IO[bytes]]:
    """Open a file for writing, which is complete or missing at the end; without a path standard output."""
    if output is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    partial = output.with_name(f".{output.name}.{os.getpid()}.tmp")
    try:
        try:
            with open(partial, "wb") as stream:
                yield stream
            os.replace(partial, output)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        if error.filename is None:
            raise
        raise click.ClickException(f"Can't write {output}: {error.strerror}.") from error


def _show(reader: pa.RecordBatchReader, most: int | None) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*map(escaped, reader.schema.names))
    shown, more = 0, False
    # Row by row, as a table is drawn; there are few rows.
    for batch in reader:
        for row in python_rows(batch):
            more = most is not None and shown == most
            if more:
                break
            table.add_row(*map(_cell, row.values()))
            shown += 1
        if more:
            break
    if not reader.schema.names:
        print_line(f"{shown} rows without columns")
        return
    terminal = Console().is_terminal
    # A pipe has no width: one line for each row, so that programs can split it into fields.
    Console(width=None if terminal else max(80, _widest(table)), markup=False, highlight=False).print(table)
    rows = "1 row" if shown == 1 else f"{shown} rows"
    print_line(f"the first {rows}; --limit shows more" if more else rows)


def _widest(table: Any) -> int:
    cells = [
        len(line) for column in table.columns for cell in (column.header, *column.cells) for line in cell.split("\n")
    ]
    return len(table.columns) * (max(cells, default=0) * 2 + 3) + 1


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return readable(value)
    return escaped(_bare(shown_value(value)) if isinstance(value, dict | list | bytes | bool) else str(value))


def _write_json(reader: pa.RecordBatchReader, sink: IO[bytes]) -> int:
    rows = 0
    for batch in reader:
        # Row by row: Arrow has no writer of JSON.
        for row in python_rows(batch):
            sink.write(json_line(row).encode() + b"\n")
        rows += batch.num_rows
    return rows


def _write_csv(reader: pa.RecordBatchReader, sink: IO[bytes]) -> int:
    from pyarrow.csv import CSVWriter, WriteOptions

    from interbed.storage.base.types.casting.formatting import has_far_times, text_of_times

    plain = pa.schema([pa.field(f.name, pa.string() if _is_foreign(f.type) else f.type) for f in reader.schema])
    rows = 0
    with CSVWriter(sink, plain) as writer:
        for batch in reader:
            columns = [
                _as_text(c) if _is_foreign(c.type) else text_of_times(c) if has_far_times(c) else c
                for c in batch.columns
            ]
            written = pa.RecordBatch.from_arrays(columns, names=plain.names)
            if written.schema.equals(plain):
                writer.write_batch(written)
            else:
                # Arrow has no text for far dates and timestamps, so these values are written as texts.
                with CSVWriter(sink, written.schema, write_options=WriteOptions(include_header=False)) as other:
                    other.write_batch(written)
            rows += batch.num_rows
    return rows


def _is_foreign(arrow: pa.DataType) -> bool:
    """Return whether CSV has no form of its own for the type."""
    return pa.types.is_nested(arrow) or pa.types.is_binary(arrow) or pa.types.is_fixed_size_binary(arrow)


def _as_text(column: "pa.Array[Any]") -> "pa.Array[Any]":
    # Value by value: nested values have no kernel that writes them.
    texts = [None if v is None else v if isinstance(v, str) else _bare(shown_value(v)) for v in python_values(column)]
    return pa.array(texts, pa.string())


def _bare(text: str) -> str:
    return text[1:-1] if text.startswith('"') else text


def _write_parquet(reader: pa.RecordBatchReader, sink: IO[bytes]) -> int:
    from pyarrow.parquet import ParquetWriter

    rows = 0
    with ParquetWriter(sink, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


_WRITERS: dict[str, Callable[[pa.RecordBatchReader, IO[bytes]], int]] = {
    "json": _write_json,
    "csv": _write_csv,
    "parquet": _write_parquet,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """A bad line, or a bad row if the format has no lines; `reason` is its problem, and begins in lower case."""

    path: Path
    number: int
    reason: str
    text: str
    column: str | None = None
    unit: str = "line"

    def __str__(self) -> str:
        counted = " (counted from 0)" if self.unit == "row" else ""
        column = "" if self.column is None else f", column '{self.column}'"
        return f"{self.path}, {self.unit} {self.number}{counted}{column}: {self.reason.rstrip('.')}"

    def to_json(self) -> dict[str, object]:
        """Return the object for the file of rejected lines, with the whole text."""
        place: dict[str, object] = {"file": str(self.path), self.unit: self.number}
        return {**place, "column": self.column, "reason": self.reason, "text": self.text}


class BadLines:
    """Handler of bad lines: without `skip` the first raises an error, otherwise they are counted and
    written to `sink`.
    """

    def __init__(self, *, skip: bool, sink: IO[bytes] | None = None) -> None:
        self._sink = sink
        self.skip = skip
        self.count = 0
        self.first: BadLine | None = None

    def add(self, found: Iterable[BadLine]) -> None:
        """Add bad lines of one file; raise InvalidInputError for the first of them unless they are skipped."""
        for line in sorted(found, key=lambda each: each.number):
            if not self.skip:
                shown = shortened(line.text)
                raise InvalidInputError(
                    f"{line}. The {line.unit}: {shown}. Nothing was written; --skip-bad leaves out such "
                    f"{line.unit}s, --rejects FILE lists them."
                )
            self.first = self.first or line
            self.count += 1
            if self._sink is not None:
                self._sink.write(json.dumps(line.to_json()).encode() + b"\n")


def shortened(text: str) -> str:
    """Return a text for an error, in one line."""
    shown = text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…"
    return repr(shown)


class FileLine(Protocol):
    """A record of a text file."""

    @property
    def data(self) -> bytes:
        """The bytes of the record."""
        ...

    @property
    def line(self) -> int:
        """The line in which it begins."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBatch:
    """A batch, and the places of its rows in the file: lines, which `find` returns, or row numbers from `first` on."""

    batch: pa.RecordBatch
    path: Path
    unit: str
    find: Callable[[], Sequence[FileLine]] | None = None
    first: int = 0

    @staticmethod
    def without_rows(path: Path, schema: pa.Schema) -> "FileBatch":
        """Return a batch that has only columns."""
        return FileBatch(batch=pa.RecordBatch.from_pylist([], schema=schema), path=path, unit="row")

    def bad(self, row: int, reason: str, column: str | None = None) -> BadLine:
        """Return the place of a row that does not fit."""
        return self.bad_lines({row: (column, reason)})[0]

    def bad_lines(self, reasons: dict[int, tuple[str | None, str]]) -> list[BadLine]:
        """Return the places of rows that do not fit, with the reason, and the column if it is the
        value of one column.
        """
        found = []
        lines = None if self.find is None else self.find()
        for row, (column, reason) in reasons.items():
            if lines is None:
                number, text = self.first + row, _row_text(self.batch, row)
            else:
                number, text = lines[row].line, lines[row].data.decode(errors="backslashreplace")
            found.append(
                BadLine(path=self.path, number=number, reason=reason, text=text, column=column, unit=self.unit)
            )
        return found


def _row_text(batch: pa.RecordBatch, row: int) -> str:
    [values] = python_rows(batch.slice(row, 1))
    try:
        return json_line(values)
    except TypeError:
        # Keys of maps may be of types that JSON keys can't have.
        return json.dumps({name: str(value) for name, value in values.items()})
