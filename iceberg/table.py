"""The public object of an Iceberg table, a query over one snapshot of it, its plan explained, and loading of tables.

The explanation has the files that are left after pruning, the deletes that apply to them, and the reads of delete
files. A table is loaded from a directory, or from a metadata file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError, ValidationError
from pyiceberg.schema import Schema
from pyiceberg.table import Table as Metadata
from pyiceberg.table.snapshots import Snapshot

from interbed.iceberg.commit.home import DirectoryHome, TableHome, home_of
from interbed.iceberg.meta.live_files import LiveFile
from interbed.iceberg.meta.table_metadata import readable_fields, schema_to_arrow, with_dropped
from interbed.iceberg.plan import FilePlan, plan_read
from interbed.iceberg.read.files import OURS_ALONE, STORE_OPTIONS, TableFiles, static_table, store_options
from interbed.iceberg.read.task_read import TaskRead
from interbed.iceberg.upkeep import IcebergUpkeep
from interbed.storage.base.clock import moment_millis
from interbed.storage.base.errors import (
    BranchNotFoundError,
    CorruptFileError,
    InterbedError,
    InvalidInputError,
    NotSupportedError,
    SnapshotNotFoundError,
    StorageAccessError,
    TagNotFoundError,
    plain_errors,
)
from interbed.storage.base.predicate.conditions import bound_filter
from interbed.storage.base.predicate.expr import Predicate, and_
from interbed.storage.base.types.column_names import check_asked_once
from interbed.storage.base.types.data_type import DataField
from interbed.storage.io.resolve import file_io_for
from interbed.storage.read.arrow_rows import ArrowRows, check_limit, limited


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergFileExplanation:
    """A data file to read, and the paths of the delete files that apply to it. Sizes in bytes."""

    path: str
    rows: int
    bytes: int
    sequence_number: int
    vector: str | None
    position_deletes: tuple[str, ...]
    equality_deletes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergTaskExplanation:
    """Files that are read together; `delete_file_reads` is the number of delete files that are read for them."""

    files: tuple[IcebergFileExplanation, ...]
    delete_file_reads: int


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergExplanation:
    """The plan of a scan of an Iceberg table. `str` for people, `to_json` for programs."""

    table: str
    snapshot_id: int | None
    manifests_total: int
    manifests_read: int
    files_total: int
    files: int
    delete_file_reads: int
    tasks: tuple[IcebergTaskExplanation, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as a JSON object."""
        return asdict(self)

    def __str__(self) -> str:
        if self.snapshot_id is None:
            return f"{self.table} has no snapshot; nothing to read"
        lines = [
            f"{self.table} at snapshot {self.snapshot_id}",
            f"  manifests     {self.manifests_read} read of {self.manifests_total}",
            f"  files         {self.files} to read of {self.files_total}",
            f"  delete files  {self.delete_file_reads} reads",
        ]
        for number, task in enumerate(self.tasks, 1):
            lines.append(f"  task {number}: {len(task.files)} files, {task.delete_file_reads} delete files")
            lines += [f"    {_line(file)}" for file in task.files]
        return "\n".join(lines)


def explain(table: str, plan: FilePlan) -> IcebergExplanation:
    """Return the explanation of a plan."""
    return IcebergExplanation(
        table=table,
        snapshot_id=plan.snapshot_id,
        manifests_total=plan.manifests_total,
        manifests_read=plan.manifests_read,
        files_total=plan.files_total,
        files=plan.files,
        delete_file_reads=plan.delete_file_reads,
        tasks=tuple(
            IcebergTaskExplanation(
                delete_file_reads=len(task.delete_files),
                files=tuple(
                    IcebergFileExplanation(
                        path=file.file.path,
                        rows=file.file.records,
                        bytes=file.file.size,
                        sequence_number=file.file.sequence_number,
                        vector=None if file.deletes.vector is None else file.deletes.vector.path,
                        position_deletes=_paths(file.deletes.positions),
                        equality_deletes=_paths(file.deletes.equality),
                    )
                    for file in task.files
                ),
            )
            for task in plan.tasks
        ),
    )


def _paths(files: tuple[LiveFile, ...]) -> tuple[str, ...]:
    return tuple(file.path for file in files)


def _line(file: IcebergFileExplanation) -> str:
    deletes = [
        *(["a vector"] if file.vector is not None else []),
        *([f"{len(file.position_deletes)} position delete files"] if file.position_deletes else []),
        *([f"{len(file.equality_deletes)} equality delete files"] if file.equality_deletes else []),
    ]
    without = f", without what {', '.join(deletes)} delete" if deletes else ""
    return f"{file.path}: {file.rows:,} rows, {file.bytes / 1024:,.0f} KiB{without}"


@dataclass(frozen=True, repr=False)
class IcebergScan(ArrowRows):
    """Result of `IcebergTable.scan`: rows of one snapshot, projected, filtered and limited; read on use.

    `row_schema` are the columns that rows may have; the predicate is over some of them. Planned once, on first use.
    With a `directory`, files elsewhere are refused.
    """

    table: Metadata
    snapshot: Snapshot | None
    row_schema: Schema
    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    limit: int | None = None
    threads: int | None = None
    directory: str | None = None

    def __repr__(self) -> str:
        parts = [self.table.location(), "all columns" if self.columns is None else f"columns {', '.join(self.columns)}"]
        if self.predicate is not None:
            parts.append(f"filter {self.predicate}")
        if self.limit is not None:
            parts.append(f"limit {self.limit}")
        return f"IcebergScan({'; '.join(parts)})"

    def __post_init__(self) -> None:
        check_limit(self.limit)

    @cached_property
    def plan(self) -> FilePlan:
        """The tasks to read, and the numbers of pruning."""
        return plan_read(self.table.metadata, self._files.io, self.snapshot, self.row_schema, self.predicate)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self._read.schema

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of batches. Memory is bounded by some batches of a few files, and the deletes."""
        return limited(self._read.to_reader(self.plan.tasks, threads=self.threads), self.limit)

    def count(self) -> int:
        """Return the number of rows. Without a filter, that of files without deletes is in the metadata."""
        known = 0
        tasks = list(self.plan.tasks)
        if self.predicate is None:
            whole = [file.file for task in tasks for file in task.files if not file.deletes.files]
            known = sum(file.records for file in whole)
            tasks = [replace(task, files=tuple(f for f in task.files if f.deletes.files)) for task in tasks]
        narrow = TaskRead(self._files, self._known_schema, (), self.predicate)
        total = known + sum(batch.num_rows for batch in narrow.to_reader(tasks, threads=self.threads))
        return total if self.limit is None else min(total, self.limit)

    @cached_property
    def _files(self) -> TableFiles:
        return TableFiles.of(self.table.metadata, self.table.io.properties, self.directory)

    @cached_property
    def _known_schema(self) -> Schema:
        return with_dropped(self.row_schema, self.table.metadata.schemas)

    @cached_property
    def _read(self) -> TaskRead:
        names = [f.name for f in self.row_schema.fields] if self.columns is None else self.columns
        by_name = {field.name: field.field_id for field in self.row_schema.fields}
        return TaskRead(self._files, self._known_schema, [by_name[name] for name in names], self.predicate)

    @property
    def _row_schema(self) -> pa.Schema:
        return self.schema

    @property
    def _row_fields(self) -> Sequence[DataField]:
        return readable_fields(self.row_schema)

    def _narrowed(
        self, columns: Sequence[str] | None, predicate: Predicate | None, limit: int | None
    ) -> pa.RecordBatchReader:
        if self.limit is not None:
            # The first rows must not depend on the requested columns and filters.
            return super()._narrowed(columns, None, limit)
        names = self.columns if columns is None else tuple(columns)
        both = self.predicate if predicate is None else and_(self.predicate, predicate)
        return replace(self, columns=names, predicate=both, limit=limit).to_arrow_batch_reader()


_MAIN = "main"


class IcebergTable(IcebergUpkeep, ArrowRows):
    """A table in Iceberg's format, of versions 1 to 3, with position deletes, deletion vectors and equality deletes.

    It is the state at the time of loading, or of the last own commit. Rows are read; files are rewritten. `metadata` is
    pyiceberg's table, of any catalog: `IcebergTable("db.t", rest_catalog.load_table("db.t"))`. `home` is where commits
    go, by default that catalog. With a `directory`, scans refuse files elsewhere.
    """

    def __init__(
        self, name: str, metadata: Metadata, home: TableHome | None = None, *, directory: str | None = None
    ) -> None:
        self.name = name
        self.metadata = metadata
        self.directory = directory
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
        timestamp: datetime | int | str | None = None,
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
        return IcebergScan(self.metadata, snapshot, schema, chosen, predicate, limit, threads, self.directory)

    def fields_of(
        self,
        snapshot_id: int | None = None,
        *,
        timestamp: datetime | int | None = None,
        branch: str | None = None,
        tag: str | None = None,
    ) -> Sequence[DataField]:
        """Return the columns of a version as interbed's types, without those that cannot be read. Errors as by scan."""
        return readable_fields(self._version(snapshot_id, timestamp, branch, tag)[1])

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
        self, snapshot_id: int | None, timestamp: datetime | int | str | None, branch: str | None, tag: str | None
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
        found = self.metadata.snapshot_as_of_timestamp(moment_millis(timestamp, UTC))
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


_NEWEST_VERSION = 3
_METADATA_FILE = (".metadata.json", ".metadata.json.gz")


def load_iceberg_table(
    location: str,
    properties: Mapping[str, str] | None = None,
    *,
    name: str | None = None,
    directory: str | None = None,
) -> IcebergTable:
    """Load the table at a location: its directory, or one of its metadata files. With a `directory` only a metadata
    file in it is read, and of its files only those in it.

    `properties` are pyiceberg's of the object store. A directory has its metadata in files with the numbers of their
    versions, as tables of a Hadoop catalog do. Raises StorageAccessError, CorruptFileError, and NotSupportedError for
    an unknown version of the format.
    """
    given = dict(properties or {})
    home: TableHome | None = None
    try:
        if directory is not None or location.endswith(_METADATA_FILE):
            found: Metadata = static_table(location, given, directory)
        else:
            file_io, path = file_io_for(location, store_options(given))
            home = DirectoryHome(location, given, file_io, path)
            found = home.load()
    except (FileNotFoundError, NoSuchTableError) as error:
        raise StorageAccessError(f"There is no Iceberg table at {location}: {error}") from error
    except OSError as error:
        raise StorageAccessError(f"Can't read {location}: {error.strerror or error}.") from error
    except (ValidationError, ValueError) as error:
        raise _unreadable(location, error) from error
    return IcebergTable(name or location.rstrip("/").rpartition("/")[2], found, home, directory=directory)


def store_properties(options: Mapping[str, str]) -> dict[str, str]:
    """Return pyiceberg's properties of the object store for a catalog's options, and interbed's own options."""
    return {
        STORE_OPTIONS.get(key, key): value
        for key, value in options.items()
        if key in STORE_OPTIONS or key.startswith(OURS_ALONE)
    }


def _unreadable(location: str, error: Exception) -> InterbedError:
    if "Unsupported field type" in str(error):
        return NotSupportedError(f"{location} has a column of a type that is not known: {error}")
    if "format version" in str(error).lower() or "format-version" in str(error):
        return NotSupportedError(
            f"{location} is of an unknown version of Iceberg's format; up to {_NEWEST_VERSION} are read: {error}"
        )
    return CorruptFileError(f"{location} is no table metadata of Iceberg: {error}")
