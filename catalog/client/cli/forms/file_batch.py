"""Rows of a file, with the places in it that they come from."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from interbed.catalog.client.cli.forms.bad_lines import BadLine
from interbed.catalog.client.cli.forms.row_output import json_line
from interbed.storage.base.row.python_values import python_rows


class FileLine(Protocol):
    """A record of a text file."""

    @property
    def data(self) -> bytes:
        """Its bytes."""
        ...

    @property
    def line(self) -> int:
        """The line that it begins in."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBatch:
    """A batch, and where its rows are in the file: in lines, which `find` returns, or from row `first` on."""

    batch: pa.RecordBatch
    path: Path
    unit: str
    find: Callable[[], Sequence[FileLine]] | None = None
    first: int = 0

    @staticmethod
    def without_rows(path: Path, schema: pa.Schema) -> "FileBatch":
        """A batch that only says which columns there are."""
        return FileBatch(batch=pa.RecordBatch.from_pylist([], schema=schema), path=path, unit="row")

    def bad(self, row: int, reason: str, column: str | None = None) -> BadLine:
        """The place of a row that can't be taken."""
        return self.bad_lines({row: (column, reason)})[0]

    def bad_lines(self, reasons: dict[int, tuple[str | None, str]]) -> list[BadLine]:
        """The places of rows that can't be taken, with the column, if it is one column's value, and the reason."""
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
        # Keys of maps may be what JSON has no keys of.
        return json.dumps({name: str(value) for name, value in values.items()})
