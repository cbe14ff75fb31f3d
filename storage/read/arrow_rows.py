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
    """Rows that are read on demand, as a stream of Arrow batches."""

    @abstractmethod
    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of batches."""

    def to_arrow(self) -> pa.Table:
        """Return all rows as one Arrow table."""
        return self.to_arrow_batch_reader().read_all()

    def count(self) -> int:
        """Return the number of rows, which are read batch by batch."""
        return sum(batch.num_rows for batch in self.to_arrow_batch_reader())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        # The interface by which Polars, DuckDB, pandas and others take rows.
        reader: Any = self.to_arrow_batch_reader()
        return reader.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> "pd.DataFrame":
        """Return all rows as a pandas data frame; needs the extra `interbed[pandas]`."""
        load_extra("pandas", needed_by="to_pandas")
        return pandas_frame(self.to_arrow())

    @overload
    def to_polars(self, *, lazy: Literal[False] = False) -> "pl.DataFrame": ...

    @overload
    def to_polars(self, *, lazy: Literal[True]) -> "pl.LazyFrame": ...

    def to_polars(self, *, lazy: bool = False) -> "pl.DataFrame | pl.LazyFrame":
        """Return all rows as a Polars data frame, or with `lazy` a LazyFrame; needs the extra `interbed[polars]`.

        A lazy frame of a scan reads only the columns and rows that its query needs, with filters pushed down. Raises
        MissingExtraError.
        """
        polars = load_extra("polars", needed_by="to_polars")
        if lazy:
            # Imported here, because only Polars needs it.
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
        """Return a DuckDB relation of the rows; with `table_name` the connection, with a view of that name.

        The connection is the given one, or a new one. Columns and filters of a query are pushed down into a scan. Needs
        the extra `interbed[duckdb]`. Raises MissingExtraError, NotSupportedError for names that differ only in case.
        """
        library = load_extra("duckdb", needed_by="to_duckdb")
        # Imported here, because Arrow's datasets load slowly.
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
        """Return the first rows as an HTML table, for notebooks."""
        return html_table(_first(self.to_arrow_batch_reader(), SHOWN_ROWS + 1), repr(self))

    # -- the interface of engines --------------------------------------------------------------------------------------

    @property
    def _row_schema(self) -> pa.Schema:
        return self.to_arrow_batch_reader().schema

    @property
    def _row_fields(self) -> Sequence[DataField]:
        """The columns that predicates of `_narrowed` may use."""
        return ()

    def _pinned(self) -> "ArrowRows":
        """Return the same rows, independent of later commits."""
        return self

    def _narrowed(
        self, columns: Sequence[str] | None, predicate: Predicate | None, limit: int | None
    ) -> pa.RecordBatchReader:
        """Return some columns of the rows that may match a predicate; with a limit the first rows only."""
        reader = limited(self.to_arrow_batch_reader(), limit)
        if columns is None:
            return reader
        wanted = pa.schema([reader.schema.field(name) for name in columns])
        return pa.RecordBatchReader.from_batches(wanted, (batch.select(list(columns)) for batch in reader))


class SplitsRead(Protocol):
    """A read of the splits of a plan."""

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        ...

    def to_reader(self, splits: Sequence[Split]) -> pa.RecordBatchReader:
        """Return the rows of the splits as a stream of batches."""
        ...


def shown_query(columns: Sequence[str] | None, predicate: Predicate | None, limit: int | None) -> list[str]:
    """Return what a query asks for, as parts of a representation."""
    parts = ["all columns" if columns is None else f"columns {_short(', '.join(columns))}"]
    if predicate is not None:
        parts.append(f"filter {_short(str(predicate))}")
    if limit is not None:
        parts.append(f"limit {limit}")
    return parts


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def check_limit(limit: int | None) -> None:
    """Raise InvalidInputError for a negative limit."""
    if limit is not None and limit < 0:
        raise InvalidInputError(f"A limit is zero or more rows, not {limit}.")


def limited(reader: pa.RecordBatchReader, limit: int | None) -> pa.RecordBatchReader:
    """Return the first rows of a stream, all without a limit; reading stops after them."""
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
    """Return the first rows; no later rows are read."""
    return limited(reader, rows).read_all()


def html_table(rows: pa.Table, caption: str) -> str:
    """Return the rows as HTML with their columns and types, cut off after SHOWN_ROWS; all texts are escaped."""
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
    """Return names and values as HTML, one pair in a row."""
    body = "".join(_row("td", (_escape(name), _escape(value))) for name, value in facts)
    return f"<div><p><code>{_escape(caption)}</code></p><table><tbody>{body}</tbody></table></div>"


def _row(tag: str, cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"


def _cut(value: object) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def _escape(text: str) -> str:
    # Imported here, because only notebooks need it.
    from html import escape

    return escape(text)
