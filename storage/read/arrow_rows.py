"""The forms of the rows of a query: Arrow, pandas, Polars, DuckDB, and HTML for notebooks."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

import pyarrow as pa

from interbed.storage.base.errors import InvalidInputError, load_extra
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.base.row.python_values import pandas_frame, python_values
from interbed.storage.base.types.data_type import DataField
from interbed.storage.scan.split import Split

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl


SHOWN_ROWS = 20
"""Rows in an HTML table. One more is read to know whether there are more."""

_SHOWN_CHARACTERS = 80


class ArrowRows(ABC):
    """Rows that are read when asked for, as a stream of Arrow batches."""

    @abstractmethod
    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream of batches."""

    def to_arrow(self) -> pa.Table:
        """All rows as one Arrow table."""
        return self.to_arrow_batch_reader().read_all()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        # What Polars, DuckDB, pandas and others take rows by.
        reader: Any = self.to_arrow_batch_reader()
        return reader.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> "pd.DataFrame":
        """All rows as a pandas data frame; needs the extra `interbed[pandas]`."""
        load_extra("pandas", needed_by="to_pandas")
        return pandas_frame(self.to_arrow())

    @overload
    def to_polars(self, *, lazy: Literal[False] = False) -> "pl.DataFrame": ...

    @overload
    def to_polars(self, *, lazy: Literal[True]) -> "pl.LazyFrame": ...

    def to_polars(self, *, lazy: bool = False) -> "pl.DataFrame | pl.LazyFrame":
        """All rows as a Polars data frame, or with `lazy` a LazyFrame; needs the extra `interbed[polars]`.

        A lazy frame of a scan reads the columns, the rows and as much of a filter as its query needs. Raises
        MissingExtraError.
        """
        polars = load_extra("polars", needed_by="to_polars")
        if lazy:
            # Loaded here, because it loads what only Polars needs.
            from interbed.storage.read.polars_scan import lazy_frame

            pinned = self._pinned()
            return lazy_frame(pinned._row_schema, pinned._row_fields, pinned._narrowed)
        frame: pl.DataFrame = polars.from_arrow(self.to_arrow())
        return frame

    @overload
    def to_duckdb(self, table_name: None = None, connection: Any = None) -> "duckdb.DuckDBPyRelation": ...

    @overload
    def to_duckdb(self, table_name: str, connection: Any = None) -> "duckdb.DuckDBPyConnection": ...

    def to_duckdb(
        self, table_name: str | None = None, connection: Any = None
    ) -> "duckdb.DuckDBPyConnection | duckdb.DuckDBPyRelation":
        """A DuckDB relation of the rows; with `table_name` the connection, in which they are a view of that name.

        The connection is the one given, or a new one. Columns and filters of a query are pushed down into a scan. Needs
        the extra `interbed[duckdb]`. Raises MissingExtraError, NotSupportedError for columns apart by case alone.
        """
        library = load_extra("duckdb", needed_by="to_duckdb")
        # Loaded here, because Arrow's datasets load slowly.
        from interbed.storage.base.types.column_names import check_apart_without_case
        from interbed.storage.read.duckdb_scan import RowsDataset

        target: duckdb.DuckDBPyConnection = library.connect() if connection is None else connection
        pinned = self._pinned()
        check_apart_without_case(pinned._row_schema, "the table")
        rows = RowsDataset(pinned._row_schema, pinned._row_fields, pinned._narrowed)
        if table_name is None:
            return target.from_arrow(rows)
        target.register(table_name, rows)
        return target

    def _repr_html_(self) -> str:
        """The first rows as a table, for notebooks."""
        return html_table(_first(self.to_arrow_batch_reader(), SHOWN_ROWS + 1), repr(self))

    # -- what engines ask for --------------------------------------------------------------------------------------

    @property
    def _row_schema(self) -> pa.Schema:
        return self.to_arrow_batch_reader().schema

    @property
    def _row_fields(self) -> Sequence[DataField]:
        """The columns that predicates of `_narrowed` may look at."""
        return ()

    def _pinned(self) -> "ArrowRows":
        """The same rows, whatever is committed from now on."""
        return self

    def _narrowed(
        self, columns: Sequence[str] | None, predicate: Predicate | None, limit: int | None
    ) -> pa.RecordBatchReader:
        """Some columns of the rows that may fulfil a predicate; with a limit that many at most, and no predicate."""
        reader = limited(self.to_arrow_batch_reader(), limit)
        if columns is None:
            return reader
        wanted = pa.schema([reader.schema.field(name) for name in columns])
        return pa.RecordBatchReader.from_batches(wanted, (batch.select(list(columns)) for batch in reader))


class SplitsRead(Protocol):
    """Reads the splits of a plan."""

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        ...

    def to_reader(self, splits: Sequence[Split]) -> pa.RecordBatchReader:
        """The rows of the splits as a stream of batches."""
        ...


def check_limit(limit: int | None) -> None:
    """Raise InvalidInputError for a number of rows that none can be."""
    if limit is not None and limit < 0:
        raise InvalidInputError(f"A limit is zero or more rows, not {limit}.")


def limited(reader: pa.RecordBatchReader, limit: int | None) -> pa.RecordBatchReader:
    """The first rows of a stream, all without a limit; reading stops where they end."""
    return reader if limit is None else pa.RecordBatchReader.from_batches(reader.schema, _head(reader, limit))


def _head(reader: pa.RecordBatchReader, limit: int) -> Iterator[pa.RecordBatch]:
    left = limit
    try:
        while left > 0:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            yield batch.slice(0, left)
            left -= min(left, batch.num_rows)
    finally:
        reader.close()


def _first(reader: pa.RecordBatchReader, rows: int) -> pa.Table:
    """The first rows; no more are read than they need."""
    return limited(reader, rows).read_all()


def html_table(rows: pa.Table, caption: str) -> str:
    """The rows with their columns and types, cut off after SHOWN_ROWS."""
    heads = (f"{_escape(f.name)}<br><small>{_escape(str(f.type))}</small>" for f in rows.schema)
    shown = rows.slice(0, SHOWN_ROWS)
    cells = zip(*(python_values(column) for column in shown.columns), strict=True) if shown.num_columns else ()
    body = "".join(_row("td", (_escape(_cut(value)) for value in row)) for row in cells)
    more = "<p>…</p>" if rows.num_rows > SHOWN_ROWS else ""
    return (
        f"<div><p><code>{_escape(caption)}</code></p><table><thead>{_row('th', heads)}</thead><tbody>{body}</tbody>"
        f"</table>{more}</div>"
    )


def html_facts(facts: Iterable[tuple[str, str]], caption: str) -> str:
    """Names and values, one pair a row."""
    body = "".join(_row("td", (_escape(name), _escape(value))) for name, value in facts)
    return f"<div><p><code>{_escape(caption)}</code></p><table><tbody>{body}</tbody></table></div>"


def _row(tag: str, cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"


def _cut(value: object) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def _escape(text: str) -> str:
    # Loaded here, because only notebooks need it.
    from html import escape

    return escape(text)
