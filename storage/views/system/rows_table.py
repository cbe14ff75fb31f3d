"""The base class of system tables and object tables: a read-only table whose rows are computed on demand.

The module also has their column types, and the text forms of rows, times and statistics.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, NoReturn

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
    """Return a column of type STRING."""
    return pa.field(name, pa.string(), nullable)


def bigint(name: str, *, nullable: bool = False) -> "pa.Field[Any]":
    """Return a column of type BIGINT."""
    return pa.field(name, pa.int64(), nullable)


def integer(name: str, *, nullable: bool = False) -> "pa.Field[Any]":
    """Return a column of type INT."""
    return pa.field(name, pa.int32(), nullable)


def moment(name: str, *, nullable: bool = False) -> "pa.Field[Any]":
    """Return a column of local times in milliseconds, in the zone of this machine as in Paimon."""
    return pa.field(name, pa.timestamp("ms"), nullable)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTableKind:
    """A kind of system table: its columns, and the function that computes its rows."""

    columns: "tuple[pa.Field[Any], ...]"
    rows: Callable[[FileStore], Sequence[Row]]


def wall_clock(epoch_millis: int) -> datetime:
    """Return the local time of milliseconds since the epoch, without a zone."""
    return datetime.fromtimestamp(epoch_millis / 1000)


def file_wall_clock(millis: int) -> datetime:
    """Return the time in the metadata of a file, which is local time already."""
    return datetime.fromtimestamp(millis / 1000, UTC).replace(tzinfo=None)


def value_text(value: object, data_type: DataType) -> str:
    """Return a value as a cast to text renders it; `null` for None."""
    return "null" if value is None else render_text(value, data_type, legacy=False)


def bound_text(value: object, data_type: DataType) -> str:
    """Return a value as stored: dates as days, times as milliseconds, bytes in hexadecimal; `null` for None."""
    if value is None:
        return "null"
    return value.hex() if isinstance(value, bytes) else render_text(value, data_type, legacy=True)


def row_text(row: bytes, types: Sequence[DataType]) -> str:
    """Return a serialized row in braces: `{2026-01-31, 7}`."""
    return f"{{{', '.join(map(value_text, decode_row(row, types), types))}}}"


def list_text(row: bytes, types: Sequence[DataType]) -> str:
    """Return a bound of a key in brackets: `[20484, 7]`."""
    return f"[{', '.join(map(bound_text, decode_row(row, types), types))}]"


def map_text(values: Mapping[str, str]) -> str:
    """Return texts by name in the form of a sorted map in Java: `{a=1, b=null}`."""
    return f"{{{', '.join(f'{name}={values[name]}' for name in sorted(values))}}}"


class RowsTable(ABC):
    """A read-only table whose rows are computed on demand."""

    noun: ClassVar[str] = "system table"
    """The kind of table in messages."""
    name: str

    @property
    @abstractmethod
    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""

    @abstractmethod
    def rows(self, wanted: Collection[str]) -> Sequence[Row]:
        """Return the rows with all columns; values of columns that are not `wanted` may be None."""

    def parts(self, wanted: Collection[str]) -> Iterator[Sequence[Row]]:
        """Yield the rows of `rows`, in one or several parts."""
        yield self.rows(wanted)

    @property
    def fields(self) -> list[DataField]:
        """The columns of the table."""
        return list(fields_from_arrow(list(self.arrow_schema), FieldIds()))

    @property
    def field_names(self) -> list[str]:
        """The names of the columns."""
        return list(self.arrow_schema.names)

    @property
    def primary_keys(self) -> list[str]:
        """No columns: such tables have no keys and no partitions."""
        return []

    @property
    def partition_keys(self) -> list[str]:
        """No columns: such tables have no keys and no partitions."""
        return []

    def row_type(self) -> RowType:
        """Return the columns as one type, as in pypaimon."""
        return RowType(self.fields, nullable=False)

    def new_read_builder(self) -> RowsReadBuilder:
        """Return pypaimon's read builder."""
        return RowsReadBuilder(self)

    def new_batch_write_builder(self) -> NoReturn:
        """Raise NotSupportedError, because such tables are read-only."""
        raise NotSupportedError(f"The {self.noun} '{self.name}' is read only.")

    new_stream_write_builder = new_batch_write_builder

    def new_stream_read_builder(self) -> NoReturn:
        """Raise NotSupportedError, because such tables have no stream of changes."""
        raise NotSupportedError(f"The {self.noun} '{self.name}' has no stream; read it again to see new rows.")

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | Predicate | None = None,  # noqa: A002 - the field's word for it
        limit: int | None = None,
    ) -> "RowsQuery":
        """Return a query, as Table.scan does; raises FilterError and InvalidInputError for an unknown column."""
        check_asked_once(columns)
        unknown = [name for name in columns or () if name not in self.field_names]
        if unknown:
            raise InvalidInputError(
                f"The {self.noun} '{self.name}' has no column {unknown[0]!r}; it has {', '.join(self.field_names)}."
            )
        predicate = None if filter is None else bound_filter(filter, tuple(self.fields))
        return RowsQuery(self, None if columns is None else tuple(columns), predicate, limit)


@dataclass(frozen=True)
class RowsQuery(ArrowRows):
    """The result of `RowsTable.scan`, whose rows are computed on demand."""

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
        """Return the rows as a stream of batches."""
        return limited(pa.RecordBatchReader.from_batches(self.schema, self._batches()), self.limit)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        schema = self.table.arrow_schema
        needed = set(self.schema.names) | (set() if self.predicate is None else columns_of(self.predicate))
        for rows in self.table.parts(needed):
            columns = [
                array_of([row[i] for row in rows], field.type)
                if field.name in needed
                else pa.nulls(len(rows), field.type)
                for i, field in enumerate(schema)
            ]
            batch = pa.RecordBatch.from_arrays(columns, schema=schema)
            if self.predicate is not None:
                batch = batch.filter(mask(self.predicate, batch))
            if batch.num_rows:
                # A selection, which keeps the number of rows even without columns.
                yield batch.select(self.schema.names)
