"""Rows for people, as a table, and for programs, as JSON lines; the row kinds of changes are +I, -U, +U and -D."""

import base64
import itertools
import json
from collections.abc import Iterator
from typing import Any

import click
import pyarrow as pa
from rich.console import Console
from rich.table import Table as RichTable

from interbed.catalog.client.cli.row_options import ROWS_SHOWN
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.row.python_values import python_rows
from interbed.storage.base.shown_text import escaped
from interbed.storage.base.terminal import print_line
from interbed.storage.base.types.far_times import FarDate, FarTimestamp


def print_changes(reader: pa.RecordBatchReader, limit: int | None, *, as_json: bool) -> None:
    """Print the rows as they come; at most `limit`, by default ROWS_SHOWN, or all of them as JSON."""
    from interbed.storage.views.change_query import ROW_KIND

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
    """A row, or a value, as JSON in one line: bytes in base 64, dates, times and decimals as text."""
    return json.dumps(_plain(row), default=_text)


def _rows(reader: pa.RecordBatchReader) -> Iterator[dict[str, Any]]:
    """The rows one by one, which is how they are printed."""
    from interbed.storage.views.change_query import ROW_KIND

    for batch in reader:
        for row in python_rows(batch):
            yield {ROW_KIND: RowKind(row.pop(ROW_KIND)).short, **row}


def shown_value(value: object) -> str:
    """A value as JSON for people."""
    return json.dumps(_plain(value), default=_text, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """The value with far dates and timestamps, which are integers for JSON, as text."""
    kind = type(value)
    if kind is dict:
        return {name: _plain(item) if type(item) in _WITH_PARTS else item for name, item in value.items()}
    if kind is list or kind is tuple:
        return [_plain(item) if type(item) in _WITH_PARTS else item for item in value]
    return str(value) if kind is FarDate or kind is FarTimestamp else value


_WITH_PARTS = frozenset({dict, list, tuple, FarDate, FarTimestamp})


def _text(value: object) -> str:
    """What JSON has no type for: bytes in base 64, the rest as Python writes it."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
