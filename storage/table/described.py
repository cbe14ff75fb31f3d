"""Columns and rows of tables of all kinds, as their schemas and scans have them; and the base class of their parts."""

from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from interbed.storage.base.types.data_type import DataField

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from interbed.storage.meta.schema.table_schema import TableSchema

from interbed.storage.meta.file_store import FileStore


class _WithSchema(Protocol):
    @property
    def schema(self) -> "TableSchema": ...


class _WithScan(Protocol):
    def scan(self) -> Any: ...


class DescribedTable:
    """The columns of a table, by its schema."""

    @property
    def fields(self: _WithSchema) -> list[DataField]:
        """The columns, with names, types and comments."""
        return list(self.schema.fields)

    @property
    def field_names(self: _WithSchema) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    @property
    def arrow_schema(self: _WithSchema) -> "pa.Schema":
        """The Arrow schema of the rows."""
        return self.schema.arrow

    @property
    def primary_keys(self: _WithSchema) -> list[str]:
        """Names of the primary-key columns; empty for a table without a key."""
        return list(self.schema.primary_keys)

    @property
    def partition_keys(self: _WithSchema) -> list[str]:
        """Names of the partition columns."""
        return list(self.schema.partition_keys)


class ScannedRows:
    """All rows of a table, by its method `scan`."""

    def __arrow_c_stream__(self: _WithScan, requested_schema: object = None) -> object:
        # The interface by which Polars, DuckDB, pandas and others read rows.
        return self.scan().__arrow_c_stream__(requested_schema)

    def to_arrow(self: _WithScan) -> "pa.Table":
        """Return all rows of the newest snapshot as one Arrow table; scan() reads some of them, or batch by batch."""
        found: pa.Table = self.scan().to_arrow()
        return found

    def to_pandas(self: _WithScan) -> "pd.DataFrame":
        """Return all rows of the newest snapshot as a pandas data frame; see Scan.to_pandas."""
        return self.scan().to_pandas()

    @overload
    def to_polars(self: _WithScan, *, lazy: Literal[False] = False) -> "pl.DataFrame": ...

    @overload
    def to_polars(self: _WithScan, *, lazy: Literal[True]) -> "pl.LazyFrame": ...

    def to_polars(self: _WithScan, *, lazy: bool = False) -> "pl.DataFrame | pl.LazyFrame":
        """Return all rows of the newest snapshot as a Polars frame, or lazily; see Scan.to_polars."""
        found: pl.DataFrame | pl.LazyFrame = self.scan().to_polars(lazy=lazy)
        return found

    @overload
    def to_duckdb(self: _WithScan, table_name: None = None, connection: Any = None) -> "duckdb.DuckDBPyRelation": ...

    @overload
    def to_duckdb(self: _WithScan, table_name: str, connection: Any = None) -> "duckdb.DuckDBPyConnection": ...

    def to_duckdb(
        self: _WithScan, table_name: str | None = None, connection: Any = None
    ) -> "duckdb.DuckDBPyConnection | duckdb.DuckDBPyRelation":
        """Return all rows of the newest snapshot as a DuckDB relation or view; see Scan.to_duckdb."""
        found: duckdb.DuckDBPyConnection | duckdb.DuckDBPyRelation = self.scan().to_duckdb(table_name, connection)
        return found

    def count(self: _WithScan) -> int:
        """Return the number of rows of the newest snapshot."""
        return int(self.scan().count())


class PartedTable(Protocol):
    """The table that a part works on."""

    name: str
    store: FileStore

    def refresh(self) -> None:
        """Take the newest schema."""
        ...


class TablePart:
    """Operations of one kind on a table. The table creates the object at each access."""

    def __init__(self, table: PartedTable) -> None:
        self._table = table

    @property
    def name(self) -> str:
        """The name of the table."""
        return self._table.name

    @property
    def store(self) -> FileStore:
        """The table's files and metadata, with its newest schema."""
        return self._table.store

    def _announce(self) -> None:
        """Call the listeners of the table's versions after a change."""
        self.store.hooks.after_change(self.store)
