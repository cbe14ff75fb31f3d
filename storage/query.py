"""A query over one snapshot of a table, and the forms in which its rows can be had."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from interbed.storage.errors import InvalidInputError
from interbed.storage.predicate.expr import Predicate
from interbed.storage.read.table_read import TableRead
from interbed.storage.scan.plan import Plan
from interbed.storage.scan.scan import TableScan
from interbed.storage.store import TableStore

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl


@dataclass(frozen=True)
class TableQuery:
    """What `Table.scan` returns: rows of one snapshot, projected, filtered and limited; read when asked for.

    The plan is made once, on first use, so that every form of the same query shows the same snapshot.
    """

    store: TableStore
    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    limit: int | None = None
    snapshot_id: int | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 0:
            raise InvalidInputError(f"A limit is zero or more rows, not {self.limit}.")

    @cached_property
    def plan(self) -> Plan:
        """The splits to read and what was pruned."""
        scan = TableScan(self.store, predicate=self.predicate, limit=self.limit, snapshot_id=self.snapshot_id)
        return scan.plan()

    @cached_property
    def _read(self) -> TableRead:
        return TableRead(self.store, self.columns, self.predicate)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self._read.schema

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream of batches, in memory bounded by some blocks of a few splits."""
        reader = self._read.to_reader(self.plan.splits, threads=self.threads)
        return reader if self.limit is None else self.limited(reader, self.limit)

    @staticmethod
    def limited(reader: pa.RecordBatchReader, limit: int) -> pa.RecordBatchReader:
        """The first rows of a stream; reading stops where they end."""
        return pa.RecordBatchReader.from_batches(reader.schema, _head(reader, limit))

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

    def count(self) -> int:
        """The number of rows."""
        narrow = TableQuery(self.store, (), self.predicate, None, self.plan.snapshot_id)
        total = sum(batch.num_rows for batch in narrow.to_arrow_batch_reader())
        return total if self.limit is None else min(total, self.limit)


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
