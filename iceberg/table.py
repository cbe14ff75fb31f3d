"""The public object of an Iceberg table."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table as Metadata
from pyiceberg.table.snapshots import Snapshot

from interbed.iceberg.commit.home import TableHome, home_of
from interbed.iceberg.meta.table_metadata import readable_fields, schema_to_arrow
from interbed.iceberg.query import IcebergExplanation, IcebergScan, explain
from interbed.iceberg.upkeep import IcebergUpkeep, millis_of
from interbed.storage.base.errors import (
    BranchNotFoundError,
    InvalidInputError,
    SnapshotNotFoundError,
    TagNotFoundError,
)
from interbed.storage.base.predicate.conditions import bound_filter
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.base.types.column_names import check_asked_once
from interbed.storage.read.arrow_rows import ArrowRows

_MAIN = "main"


class IcebergTable(IcebergUpkeep, ArrowRows):
    """A table in Iceberg's format, of versions 1 to 3, with position deletes, deletion vectors and equality deletes.

    It is the state at the time of loading, or of the last own commit. Rows are read; files are rewritten. `metadata` is
    pyiceberg's table, of any catalog: `IcebergTable("db.t", rest_catalog.load_table("db.t"))`. `home` is where commits
    go, by default that catalog.
    """

    def __init__(self, name: str, metadata: Metadata, home: TableHome | None = None) -> None:
        self.name = name
        self.metadata = metadata
        self.home = home_of(metadata) if home is None else home

    def __repr__(self) -> str:
        return f"IcebergTable({self.name!r}, {self.location!r})"

    @property
    def location(self) -> str:
        """The directory of the table."""
        return self.metadata.location()

    @property
    def format_version(self) -> int:
        """The version of Iceberg's format: 1, 2 or 3."""
        return self.metadata.metadata.format_version

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties of the table."""
        return dict(self.metadata.properties)

    @property
    def field_names(self) -> list[str]:
        """The names of the columns."""
        return [field.name for field in self.metadata.schema().fields]

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns as Arrow types. Raises NotSupportedError for a column that cannot be read."""
        return schema_to_arrow(self.metadata.schema())

    def snapshots(self) -> list[Snapshot]:
        """Return the snapshots, in the order of their commits."""
        return list(self.metadata.metadata.snapshots)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: "str | Predicate | None" = None,  # noqa: A002 - the field's word for it
        limit: int | None = None,
        snapshot_id: int | None = None,
        *,
        timestamp: datetime | int | None = None,
        branch: str | None = None,
        tag: str | None = None,
        threads: int | None = None,
    ) -> IcebergScan:
        """Return a query, as for interbed's own tables: `scan(columns=["id"], filter="amount > 5",
        limit=10).to_arrow()`.

        `timestamp` (a datetime, in UTC if it has no time zone, or milliseconds since the epoch) selects the snapshot of
        that time. Older snapshots and tags have the columns of their time, branches the present ones. Raises
        FilterError, InvalidInputError for an unknown column, SnapshotNotFoundError, BranchNotFoundError and
        TagNotFoundError.
        """
        snapshot, schema = self._version(snapshot_id, timestamp, branch, tag)
        names = [field.name for field in schema.fields]
        check_asked_once(columns)
        unknown = [name for name in columns or () if name not in names]
        if unknown:
            raise InvalidInputError(f"The table '{self.name}' has no column {unknown[0]!r}; it has {', '.join(names)}.")
        predicate = None if filter is None else bound_filter(filter, readable_fields(schema))
        chosen = None if columns is None else tuple(columns)
        return IcebergScan(self.metadata, snapshot, schema, chosen, predicate, limit, threads)

    def explain(
        self,
        filter: "str | Predicate | None" = None,  # noqa: A002 - the field's word for it
        snapshot_id: int | None = None,
    ) -> IcebergExplanation:
        """Return the plan of a scan with that filter: what was pruned, and which deletes apply to which files."""
        return explain(self.name, self.scan(filter=filter, snapshot_id=snapshot_id).plan)

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """Return all rows of the newest snapshot as a stream of batches."""
        return self.scan().to_arrow_batch_reader()

    def count(self) -> int:
        """Return the number of rows of the newest snapshot."""
        return self.scan().count()

    def _pinned(self) -> IcebergScan:
        return self.scan()

    def _version(
        self, snapshot_id: int | None, timestamp: datetime | int | None, branch: str | None, tag: str | None
    ) -> tuple[Snapshot | None, Schema]:
        """Return the requested snapshot, None for a table without any, and the columns of its rows."""
        given = [value for value in (snapshot_id, timestamp, branch, tag) if value is not None]
        if len(given) > 1:
            raise InvalidInputError("A scan takes one of snapshot_id, timestamp, branch and tag.")
        metadata = self.metadata.metadata
        if not given or branch == _MAIN:
            return metadata.current_snapshot(), metadata.schema()
        if branch is not None or tag is not None:
            return self._named(branch, tag)
        if snapshot_id is not None:
            found = metadata.snapshot_by_id(snapshot_id)
            if found is None:
                raise SnapshotNotFoundError(f"The table '{self.name}' has no snapshot {snapshot_id}.")
            return found, self._schema_of(found)
        assert timestamp is not None
        found = self.metadata.snapshot_as_of_timestamp(millis_of(timestamp))
        if found is None:
            raise SnapshotNotFoundError(f"The table '{self.name}' has no snapshot that is as old as {timestamp}.")
        return found, self._schema_of(found)

    def _named(self, branch: str | None, tag: str | None) -> tuple[Snapshot, Schema]:
        metadata, name = self.metadata.metadata, branch or tag
        kind = "branch" if branch is not None else "tag"
        ref = metadata.refs.get(str(name))
        if ref is None or ref.snapshot_ref_type.value != kind:
            error = BranchNotFoundError if branch is not None else TagNotFoundError
            raise error(f"The table '{self.name}' has no {kind} '{name}'.")
        found = metadata.snapshot_by_id(ref.snapshot_id)
        if found is None:
            raise SnapshotNotFoundError(f"The {kind} '{name}' of '{self.name}' names a snapshot that does not exist.")
        return found, metadata.schema() if branch is not None else self._schema_of(found)

    def _schema_of(self, snapshot: Snapshot) -> Schema:
        metadata = self.metadata.metadata
        number = snapshot.schema_id
        found = None if number is None else metadata.schema_by_id(number)
        return metadata.schema() if found is None else found
