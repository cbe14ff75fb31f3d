"""The forms in which the rows of a query can be had."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from interbed.storage.scan.split import Split

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl


class ArrowRows(ABC):
    """Rows that are read when asked for, as a stream of Arrow batches."""

    @abstractmethod
    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream of batches."""

    def to_arrow(self) -> pa.Table:
        """All rows as one Arrow table."""
        return self.to_arrow_batch_reader().read_all()

    def to_pandas(self) -> "pd.DataFrame":
        """All rows as a pandas data frame; needs the extra `interbed[pandas]`."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> "pl.DataFrame":
        """All rows as a polars data frame; needs the extra `interbed[polars]`."""
        # polars is an optional dependency and slow to import.
        import polars

        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def to_duckdb(self, table_name: str, connection: Any = None) -> "duckdb.DuckDBPyConnection":
        """A DuckDB connection (the one given, or a new one) in which the rows are a view of that name."""
        # duckdb is an optional dependency and slow to import.
        import duckdb

        target: duckdb.DuckDBPyConnection = connection or duckdb.connect()
        target.register(table_name, self.to_arrow())
        return target


class SplitsRead(Protocol):
    """Reads the splits of a plan."""

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        ...

    def to_reader(self, splits: Sequence[Split]) -> pa.RecordBatchReader:
        """The rows of the splits as a stream of batches."""
        ...


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
