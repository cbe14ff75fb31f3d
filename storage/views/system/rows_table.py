"""A read-only table whose rows are made when they are read: what system tables of tables and of catalogs share.

Its columns, and how rows, times and statistics are shown in them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NoReturn

import pyarrow as pa

from interbed.storage.base.arrow_values import array_of
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.predicate.conditions import bound_filter
from interbed.storage.base.predicate.evaluate import mask
from interbed.storage.base.predicate.expr import Predicate, columns_of
from interbed.storage.base.row.binary_row import decode_row
from interbed.storage.base.row.values import render_text
from interbed.storage.base.types.arrow import FieldIds, fields_from_arrow
from interbed.storage.base.types.column_names import check_asked_once
from interbed.storage.base.types.data_type import DataField, DataType, RowType
from interbed.storage.meta.file_store import FileStore
from interbed.storage.read.arrow_rows import ArrowRows, limited
from interbed.storage.views.builder.rows_read import RowsReadBuilder

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
    rows: Callable[[FileStore], Sequence[Row]]


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


class RowsTable(ABC):
    """A table of rows that are made when they are asked for."""

    name: str

    @property
    @abstractmethod
    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""

    @abstractmethod
    def rows(self, wanted: Collection[str]) -> Sequence[Row]:
        """The rows, with all columns; those that are not `wanted` may be None."""

    @property
    def fields(self) -> list[DataField]:
        """The columns."""
        return list(fields_from_arrow(list(self.arrow_schema), FieldIds()))

    @property
    def field_names(self) -> list[str]:
        """The columns' names."""
        return list(self.arrow_schema.names)

    @property
    def primary_keys(self) -> list[str]:
        """There are none."""
        return []

    @property
    def partition_keys(self) -> list[str]:
        """There are none."""
        return []

    def row_type(self) -> RowType:
        """The columns as one type, as in pypaimon."""
        return RowType(self.fields, nullable=False)

    def new_read_builder(self) -> RowsReadBuilder:
        """pypaimon's read builder."""
        return RowsReadBuilder(self)

    def new_batch_write_builder(self) -> NoReturn:
        """Refused: what it shows is written by other means."""
        raise NotSupportedError(f"The system table '{self.name}' is read only.")

    new_stream_write_builder = new_batch_write_builder

    def new_stream_read_builder(self) -> NoReturn:
        """Refused: what it shows is made when it is read."""
        raise NotSupportedError(f"The system table '{self.name}' is no stream; read it again to see what is new.")

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | Predicate | None = None,  # noqa: A002 - the field's word for it
        limit: int | None = None,
    ) -> "RowsQuery":
        """A query, as Table.scan; raises FilterError and InvalidInputError for an unknown column."""
        check_asked_once(columns)
        unknown = [name for name in columns or () if name not in self.field_names]
        if unknown:
            raise InvalidInputError(
                f"The system table '{self.name}' has no column {unknown[0]!r}; it has {', '.join(self.field_names)}."
            )
        predicate = None if filter is None else bound_filter(filter, tuple(self.fields))
        return RowsQuery(self, None if columns is None else tuple(columns), predicate, limit)


@dataclass(frozen=True)
class RowsQuery(ArrowRows):
    """What `RowsTable.scan` returns; what it shows is read when it is asked for."""

    table: RowsTable
    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    limit: int | None = None

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        schema = self.table.arrow_schema
        return schema if self.columns is None else pa.schema([schema.field(name) for name in self.columns])

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream of batches."""
        return limited(pa.RecordBatchReader.from_batches(self.schema, self._batches()), self.limit)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        schema = self.table.arrow_schema
        needed = set(self.schema.names) | (set() if self.predicate is None else columns_of(self.predicate))
        rows = self.table.rows(needed)
        columns = [
            array_of([row[i] for row in rows], field.type) if field.name in needed else pa.nulls(len(rows), field.type)
            for i, field in enumerate(schema)
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        if self.predicate is not None:
            batch = batch.filter(mask(self.predicate, batch))
        if batch.num_rows:
            # Selected, because that keeps the number of rows when no column is asked for.
            yield batch.select(self.schema.names)
