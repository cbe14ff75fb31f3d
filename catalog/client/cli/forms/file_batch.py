"""Rows of a file with their line numbers, and the lines that do not fit a table.

The first bad line ends the import, or all are left out and written to a file. That file has one object in a line:
`{"file": "orders.csv", "line": 3, "column": "amount", "reason": "…", "text": "1,two"}`. Rows of files without lines
(Parquet, ORC, Arrow) have `row`, counted from 0, instead of `line`.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

import pyarrow as pa

from interbed.catalog.client.cli.forms.row_formats import json_line
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.row.python_values import python_rows

_TEXT_MAX = 200


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
