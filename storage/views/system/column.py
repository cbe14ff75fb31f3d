"""The columns of system tables, and how rows, times and statistics are shown in them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from interbed.storage.base.row.binary_row import decode_row
from interbed.storage.base.row.values import render_text
from interbed.storage.base.types.data_type import DataType
from interbed.storage.meta.store import TableStore

Row = tuple[Any, ...]


def text(name: str, *, nullable: bool = False) -> "pa.Field[Any]":
    """A column of text."""
    return pa.field(name, pa.string(), nullable)


def bigint(name: str, *, nullable: bool = False) -> "pa.Field[Any]":
    """A column of 64-bit integers."""
    return pa.field(name, pa.int64(), nullable)


def integer(name: str, *, nullable: bool = False) -> "pa.Field[Any]":
    """A column of 32-bit integers."""
    return pa.field(name, pa.int32(), nullable)


def moment(name: str, *, nullable: bool = False) -> "pa.Field[Any]":
    """A column of wall-clock times in milliseconds, of this machine's zone as Paimon has them."""
    return pa.field(name, pa.timestamp("ms"), nullable)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTableKind:
    """One system table: its columns, and what makes its rows from a table."""

    columns: "tuple[pa.Field[Any], ...]"
    rows: Callable[[TableStore], Sequence[Row]]


def wall_clock(epoch_millis: int) -> datetime:
    """The local time of milliseconds since the epoch, without a zone."""
    return datetime.fromtimestamp(epoch_millis / 1000)


def noted_wall_clock(millis: int) -> datetime:
    """The time that a file's metadata note, which is wall-clock time already."""
    return datetime.fromtimestamp(millis / 1000, UTC).replace(tzinfo=None)


def value_text(value: object, data_type: DataType) -> str:
    """A value as a cast to text has it; `null` for none."""
    return "null" if value is None else render_text(value, data_type, legacy=False)


def bound_text(value: object, data_type: DataType) -> str:
    """A value as it is stored: dates as days, times as milliseconds, bytes in hexadecimal; `null` for none."""
    if value is None:
        return "null"
    return value.hex() if isinstance(value, bytes) else render_text(value, data_type, legacy=True)


def row_text(row: bytes, types: Sequence[DataType]) -> str:
    """A serialised row in braces: `{2026-01-31, 7}`."""
    return f"{{{', '.join(map(value_text, decode_row(row, types), types))}}}"


def list_text(row: bytes, types: Sequence[DataType]) -> str:
    """The bounds of a key in brackets: `[20484, 7]`."""
    return f"[{', '.join(map(bound_text, decode_row(row, types), types))}]"


def map_text(values: Mapping[str, str]) -> str:
    """Texts by name, as Java shows a sorted map: `{a=1, b=null}`."""
    return f"{{{', '.join(f'{name}={values[name]}' for name in sorted(values))}}}"
