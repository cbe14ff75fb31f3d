"""Columns and rows of tables of all kinds, as their schemas and scans have them; the base class of their parts; and
`Table.access`, the part that the catalog and the Spark side need, which is not in the public API.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import CorruptFileError
from interbed.storage.base.types.data_type import DataField
from interbed.storage.io.api import FileIO
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.meta.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from interbed.storage.base.predicate.expr import Predicate
    from interbed.storage.commit.stream_commits import EpochCommit
    from interbed.storage.scan.live_files import FileSum, RestoredBuckets
    from interbed.storage.scan.partition_filter import PartitionChoice
    from interbed.storage.scan.split import Plan


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


class TableAccess(TablePart):
    """The files, snapshots, schemas and partitions of a table, for the layers above storage."""

    @property
    def storage_io(self) -> FileIO:
        """The file system of the table; `file_io` is the same under pypaimon's names."""
        return self.store.file_io

    @property
    def branch_name(self) -> str:
        """The name of the branch, `main` for the table itself."""
        return self.store.paths.branch

    @property
    def dynamic_options(self) -> dict[str, str]:
        """The options that were given when the table was opened, or by `copy`, in addition to those of its schema."""
        return dict(self.store.dynamic_options)

    # -- snapshots and schemas -------------------------------------------------------------------------------------

    @property
    def falls_back(self) -> bool:
        """Whether partitions that the table lacks are read from another branch: `scan.fallback-branch`."""
        from interbed.storage.scan.scan import fallback_of

        return fallback_of(self.store) is not None

    @property
    def travels(self) -> bool:
        """Whether the options name a snapshot of the past."""
        from interbed.storage.scan.starting_point import travels

        return travels(self.store)

    def starting_snapshot(self, snapshot_id: int | None = None) -> Snapshot | None:
        """Return the snapshot that a read sees: of that id, of the options, or the newest; None without any.

        Raises SnapshotNotFoundError and TagNotFoundError naming those that exist, InvalidOptionError.
        """
        from interbed.storage.scan.starting_point import starting_snapshot

        return starting_snapshot(self.store, snapshot_id)

    def latest_snapshot_of(self, commit_user: str) -> Snapshot | None:
        """Return the newest snapshot that the user has committed, None without any."""
        return self.store.snapshots.latest_of_user(commit_user)

    def schema_of(self, schema_id: int) -> TableSchema:
        """Return the schema of that id as it is stored, without dynamic options."""
        return self.store.schemas.schema(schema_id)

    # -- partitions and places -------------------------------------------------------------------------------------

    def partition_of(self, spec: Mapping[str, object]) -> bytes:
        """Return the partition of a complete specification as a serialised BinaryRow; raise InvalidInputError."""
        return self.store.paths.parse_partition_spec(spec)

    def partition_spec(self, partition: bytes) -> dict[str, str]:
        """Return the text of the value of each partition column, not escaped; null is the default name."""
        return self.store.paths.partition_spec(partition)

    def partition_sums(self) -> "dict[bytes, FileSum]":
        """Return the sums of rows, bytes and files of the newest snapshot by partition; one partition without partition
        columns.
        """
        from interbed.storage.scan.live_files import partition_sums

        latest = self.store.newest_snapshot()
        return {} if latest is None else partition_sums(self.store, latest)

    def directory_of(self, bucket_id: BucketId) -> str:
        """Return the directory of the data files of a bucket."""
        return self.store.paths.bucket_directory(bucket_id)

    @property
    def snapshot_directory(self) -> str:
        """The directory of the snapshots of this branch."""
        return self.store.paths.snapshot_directory

    # -- reads and writes ------------------------------------------------------------------------------------------

    def restore_buckets(self, partition_filter: "PartitionChoice" = None) -> "RestoredBuckets":
        """Return the files of the newest snapshot, bucket by bucket; see scan.live_files."""
        from interbed.storage.scan.live_files import restore_buckets

        return restore_buckets(self.store, partition_filter=partition_filter)

    def new_epoch_commit(self, query: str) -> "EpochCommit":
        """Return the committer of the micro-batches of a streaming query, which commits each once."""
        from interbed.storage.commit.stream_commits import EpochCommit

        return EpochCommit(self.store, query)

    def plan(
        self, *, predicate: "Predicate | None" = None, limit: int | None = None, snapshot_id: int | None = None
    ) -> "Plan":
        """Return the splits of the rows of the table, including those of its fallback branch; see TableScan.plan."""
        from interbed.storage.scan.scan import plan_rows

        return plan_rows(self.store, predicate=predicate, limit=limit, snapshot_id=snapshot_id)

    def identity(self) -> str | None:
        """Return the creation time of the first schema, in which a table that is created again differs, or None."""
        try:
            made = self.store.schemas.schema(0).time_millis
        except CorruptFileError:
            return None
        return None if made is None else str(made)

    def bucket_unit(self) -> int:
        """Return a common divisor of the numbers of buckets of the partitions of a table with postponed buckets; 0 for
        others.

        Rows of one bucket have the same hash modulo this number, so that it can divide a batch among tasks. Also 0
        where batches wait like streams. Raises InvalidOptionError.
        """
        from interbed.storage.write.bucket_strategy import bucket_unit

        return bucket_unit(self.store)
