"""Open table of the storage layer: its schema, options, paths, snapshots and file system."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import (
    BranchNotFoundError,
    CommitError,
    CommitFailedError,
    CommitStateUnknownError,
    InterbedError,
    InvalidInputError,
    NotSupportedError,
    SnapshotNotFoundError,
)
from interbed.storage.base.path_name import entry_name
from interbed.storage.base.types.data_type import DataField
from interbed.storage.io.api import FileIO
from interbed.storage.io.local import LocalFileIO
from interbed.storage.io.parallel import both
from interbed.storage.io.resolve import check_exclusive, file_io_for, normalize_path, respelled, scheme_of
from interbed.storage.meta.options.core import BUCKET, DATA_FILE_PREFIX, CoreOptions
from interbed.storage.meta.options.format import COMMIT_SYNC, CommitSync
from interbed.storage.meta.options.log import LogConsistency, LogSystem
from interbed.storage.meta.paths import MAIN_BRANCH, TablePaths
from interbed.storage.meta.schema.manager import SchemaManager, was_dropped
from interbed.storage.meta.schema.system_fields import with_stored_row_ids
from interbed.storage.meta.schema.table_schema import OptionRules, TableSchema
from interbed.storage.meta.snapshot.manager import SnapshotManager
from interbed.storage.meta.snapshot.snapshot import ExclusiveCreatePublisher, SnapshotPublisher
from interbed.storage.meta.store_environment import StoreEnvironment as StoreEnvironment
from interbed.storage.meta.store_environment import VersionKeeper as VersionKeeper

if TYPE_CHECKING:
    from interbed.storage.meta.manifest.index_manifest import IndexFileMeta
    from interbed.storage.meta.paths import DataFilePlace, NewFile
    from interbed.storage.meta.schema.change import SchemaChange
    from interbed.storage.meta.snapshot.snapshot import Snapshot
    from interbed.storage.meta.store_environment import WriteLog

_BRANCH = "branch"
"""The dynamic option that opens a branch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreHooks:
    """Callbacks of higher layers: see `interbed.storage.table.opening`, which opens stores with them.

    `check_options` holds the rules for combinations of options. `after_commit` is called when a commit has made its
    snapshots, and `after_change` when tags, the history of snapshots or expiry changed its versions; failures do not
    affect the change, so they raise nothing. `log_of_writes` returns the log to which a writer sends its rows before
    they are committed, None for most tables. `log_ends` returns the end offsets of such a log, by partition, None when
    unknown; it raises nothing.
    """

    check_options: OptionRules
    after_commit: Callable[["FileStore"], None]
    after_change: Callable[["FileStore"], None]
    log_of_writes: "Callable[[FileStore], WriteLog | None]"
    log_ends: Callable[["FileStore"], Mapping[str, int] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStore:
    """Table at a location. `options` are those of `schema` with the caller's dynamic options on top.

    `told_location` is for programs that read it by other metadata: the location with the scheme with which the table
    was opened, `s3a://…` where `location` is `s3://…`.
    """

    location: str
    told_location: str
    file_io: FileIO
    schema: TableSchema
    options: CoreOptions
    paths: TablePaths
    schemas: SchemaManager
    snapshots: SnapshotManager
    publisher: SnapshotPublisher
    hooks: StoreHooks
    dynamic_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    environment: StoreEnvironment = field(default_factory=StoreEnvironment)

    def with_options(self, dynamic_options: Mapping[str, object]) -> "FileStore":
        """Return the same table with more dynamic options; None resets an option to its default.

        Raises InvalidOptionError for an option that can't be dynamic, or that contradicts others.
        """
        from interbed.storage.meta.schema.option_changes import check_dynamic_removal, check_together, dynamic_option

        given = {key: None if value is None else dynamic_option(key, value) for key, value in dynamic_options.items()}
        removed = [key for key, value in given.items() if value is None]
        check_dynamic_removal(self.schema, removed)
        kept = {key: value for key, value in self.schema.options.items() if key not in removed}
        schema = self.schema if len(kept) == len(self.schema.options) else replace(self.schema, options=kept)
        dynamic = {key: value for key, value in {**self.dynamic_options, **given}.items() if value is not None}
        check_together(schema, dynamic, self.hooks.check_options)
        return self._opened(schema, dynamic)

    def with_schema(self, schema: TableSchema) -> "FileStore":
        """Return the same table at another of its schemas, with the same dynamic options."""
        return self._opened(schema, self.dynamic_options)

    def with_stored_row_ids(self) -> "FileStore":
        """Return the same table for rows that move to another file: in a table that tracks rows, with their ids."""
        schema = with_stored_row_ids(self.schema)
        return self if schema is self.schema else replace(self, schema=schema)

    @property
    def log_consistency(self) -> LogConsistency | None:
        """Visibility of changes in the table's log; None where there is none. Branches have none."""
        has_log = self.options.log_system is not LogSystem.NONE and self.paths.branch == MAIN_BRANCH
        return self.options.log_consistency if has_log else None

    @property
    def version_keeper(self) -> VersionKeeper | None:
        """The catalog's keeper of the versions of this branch; None where the files are changed."""
        return None if self.environment.versions is None else self.environment.versions(self.paths.branch)

    def check_exclusive(self) -> None:
        """Raise NotSupportedError where two concurrent changes could overwrite each other, because there is no lock."""
        if self.environment.lock is None and self.environment.publisher is None:
            check_exclusive(self.file_io, self.location)

    def check_here(self) -> None:
        """Raise CommitFailedError when the table was dropped since it was opened, and perhaps recreated.

        This is for changes that would otherwise apply to the table that has its name now.
        """
        if self.schemas.is_another(self.schema):
            raise CommitFailedError(was_dropped(self.location))

    def newest_snapshot(self) -> "Snapshot | None":
        """Return the newest snapshot; None when the table has none yet.

        Raises SnapshotNotFoundError when the table was dropped or renamed since it was opened: it must not be read as
        an empty one.
        """
        newest = self.snapshots.latest()
        if newest is None:
            self.check_not_gone()
        return newest

    def newest_id(self) -> int | None:
        """Return the newest snapshot's id; errors as of `newest_snapshot`."""
        newest = self.snapshots.latest_id()
        if newest is None:
            self.check_not_gone()
        return newest

    def check_not_gone(self) -> None:
        """Raise SnapshotNotFoundError when the table was dropped or renamed since it was opened."""
        if self.is_gone():
            raise SnapshotNotFoundError(
                f"The table at {self.location} was dropped or renamed since it was opened; get it from its catalog "
                "again."
            )

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Run a change: when it fails because the table was dropped or renamed meanwhile, raise CommitFailedError.

        To a writer that reads files by their old paths, such a table looks damaged. An error that reports the outcome
        of the commit stays.
        """
        try:
            yield
        except (CommitError, CommitStateUnknownError):
            raise
        except (InterbedError, OSError) as error:
            if not self.is_gone():
                raise
            raise CommitFailedError(was_dropped(self.location)) from error

    def is_gone(self) -> bool:
        """Return whether the table was dropped or renamed since it was opened; False when that is unknown."""
        try:
            return self.schemas.is_gone(self.schema)
        except (InterbedError, OSError):
            return False

    def alter(self, changes: "Sequence[SchemaChange]") -> None:
        """Create the next schema of the table, or of its branch.

        Raises InvalidInputError, CommitFailedError, NotSupportedError.
        """
        if (keeper := self.version_keeper) is not None:
            self.check_here()
            keeper.alter(changes)
        elif self.environment.alter is not None and self.paths.branch == MAIN_BRANCH:
            self.check_here()
            self.environment.alter(changes)
        else:
            self.check_exclusive()
            self.schemas.change(changes, of=self.schema)

    def for_files_of(self, schema_ids: Iterable[int]) -> "FileStore":
        """Return the table at a schema with the columns of files of these schemas: its own, or the newest one.

        Another process may have added columns since the table was opened. Files that are rewritten at the older schema
        would lose the values of these columns.
        """
        newer = self._newer_schema() if max(schema_ids, default=0) > self.schema.id else None
        return self if newer is None else self.with_schema(newer)

    def with_added_columns(self) -> "FileStore":
        """Return the table at its newest schema if that only adds columns, otherwise at its own."""
        newer = self._newer_schema()
        if newer is None or not set(map(_column, self.schema.fields)) <= set(map(_column, newer.fields)):
            return self
        return self.with_schema(newer)

    def has_other_columns(self) -> bool:
        """Return whether the newest schema has other columns than this one, or columns of other names or types."""
        newer = self._newer_schema()
        return newer is not None and list(map(_column, newer.fields)) != list(map(_column, self.schema.fields))

    def _newer_schema(self) -> TableSchema | None:
        """Return the newest schema if it is newer than the one with which the table was opened."""
        newest = self.schemas.latest()
        return newest if newest is not None and newest.id > self.schema.id else None

    def with_buckets(self, buckets: int, options: Mapping[str, str]) -> "FileStore":
        """Return the same table with a fixed number of buckets, and other options, for writers that move rows."""
        changed = {**options, BUCKET: str(buckets)}
        # A null in an existing row stays null, whatever the default of its column now.
        fields = tuple(replace(f, default_value=None) for f in self.schema.fields)
        schema = replace(self.schema, fields=fields, options={**self.schema.options, **changed})
        return replace(self, schema=schema, options=CoreOptions({**self.options.raw, **changed}))

    def schema_of(self, schema_id: int) -> TableSchema:
        """Return the schema with which files of that id were written; the table's own is not read again."""
        return self.schema if schema_id == self.schema.id else self.schemas.schema(schema_id)

    def index_path(self, bucket_id: BucketId, file: "IndexFileMeta") -> str:
        """Return the path of an index file of a bucket; raises CorruptFileError for a name with directories."""
        if file.external_path is not None:
            return normalize_path(file.external_path)
        if self._indexes_beside_data:
            directory = self.paths.bucket_directory(bucket_id)
            return f"{directory}/{entry_name(file.file_name, directory)}"
        return self.paths.index(file.file_name)

    def new_index_file(self, bucket_id: BucketId) -> "NewFile":
        """Return the path of a new index file: beside the data files with `index-file-in-data-file-dir`.

        Errors are those of `new_files`.
        """
        from interbed.storage.meta.paths import NewFile

        name = self.new_index_name()
        if self._indexes_beside_data:
            return self.new_files(bucket_id).take(name)
        return NewFile(path=self.paths.index(name))

    def new_files(self, bucket_id: BucketId) -> "DataFilePlace":
        """Return the source of paths of new data files of a bucket, below `data-file.external-paths` if there are any.

        Raises InvalidOptionError, and NotSupportedError for external paths in another file system than the table.
        """
        from interbed.storage.meta.options.format import EXTERNAL_PATHS
        from interbed.storage.meta.paths import DataFilePlace

        external = self.options.external_paths
        for root in () if external is None else external.roots:
            if scheme_of(normalize_path(root)) != self.file_io.scheme:
                raise NotSupportedError(
                    f"Option '{EXTERNAL_PATHS}' names {root}, which is in another store than the table at "
                    f"{self.location}; interbed writes both to the same store only."
                )
        relative = self.paths.relative_bucket(bucket_id)
        return DataFilePlace(self.paths.bucket_directory(bucket_id), external, relative)

    @property
    def data_roots(self) -> list[str]:
        """Directory of the table, and the external paths below which new data files go."""
        external = self.options.external_paths
        roots = () if external is None else external.roots
        return [self.location.rstrip("/"), *map(normalize_path, roots)]

    @property
    def _indexes_beside_data(self) -> bool:
        return self.options.boolean("index-file-in-data-file-dir", False)

    def on_branch(self, name: str) -> "FileStore":
        """Return a branch of the same table, `main` for the table itself; raises BranchNotFoundError."""
        return self._opened(None, {**self.dynamic_options, _BRANCH: name})

    def new_index_name(self) -> str:
        """Return a unique name of an index file; it contains the prefix of data files where that is not the default.

        So the files of a job that gives its data files a prefix of its own can all be found.
        """
        prefix = self.options.data_file_prefix
        return f"index-{prefix if prefix != DATA_FILE_PREFIX else ''}{uuid.uuid4()}-0"

    def refreshed(self) -> "FileStore":
        """Return the same table with the newest schema."""
        return self._opened(None, self.dynamic_options)

    def plain_branch(self, name: str) -> "FileStore":
        """Return a branch of the same table without this one's dynamic options; raises BranchNotFoundError."""
        return self._opened(None, {_BRANCH: name})

    def read_only(self) -> "FileStore":
        """Return the same table without the additions of a catalog, for reading splits in other processes."""
        return replace(self, environment=StoreEnvironment())

    def __reduce__(self) -> tuple[Any, ...]:
        # Caches and objects with locks are recreated on unpickling.
        if self.environment != StoreEnvironment():
            raise NotSupportedError(
                f"The table at {self.location} commits through its catalog, which can't be pickled. Open it by its "
                "catalog in the other process; reads and splits can be pickled."
            )
        return _reopened, (self.told_location, self.file_io, self.hooks, self.schema, dict(self.dynamic_options))

    def _opened(self, schema: TableSchema | None, dynamic_options: Mapping[str, str]) -> "FileStore":
        return open_store(
            self.told_location,
            self.file_io,
            hooks=self.hooks,
            schema=schema,
            dynamic_options=dynamic_options,
            environment=self.environment,
        )


def table_paths(location: str, schema: TableSchema | None, branch: str = MAIN_BRANCH) -> TablePaths:
    """Return the paths of a table, or of a branch of it; without a schema only those of metadata are right."""
    options = CoreOptions({} if schema is None else schema.options)
    return TablePaths(
        location,
        () if schema is None else schema.partition_keys,
        () if schema is None else schema.partition_types,
        options.partition_default_name,
        options.partition_legacy_name,
        options.data_file_directory,
        branch,
    )


def schema_manager(location: str, file_io: FileIO | None = None, *, rules: OptionRules) -> SchemaManager:
    """Return the schema manager of a location, whether or not there is a table."""
    io, path = _resolved(location, file_io, None)
    return SchemaManager(io, table_paths(path, None), rules)


def open_store(
    location: str,
    file_io: FileIO | None = None,
    *,
    hooks: StoreHooks,
    schema: TableSchema | None = None,
    dynamic_options: Mapping[str, str] | None = None,
    environment: StoreEnvironment | None = None,
) -> FileStore:
    """Open the table at the location; `schema` saves reading the newest one.

    Callers above storage leave `hooks` to `interbed.storage.table.opening`. The dynamic option `branch` opens a branch
    of it, with its own schema and snapshots. Raises InvalidInputError when there is no table, BranchNotFoundError,
    InvalidOptionError for a dynamic option that changes the layout of existing files, StorageAccessError and
    CorruptFileError.
    """
    found = find_store(
        location, file_io, hooks=hooks, schema=schema, dynamic_options=dynamic_options, environment=environment
    )
    if found is not None:
        return found
    _, location = _resolved(location, file_io, None)
    branch = (dynamic_options or {}).get(_BRANCH, MAIN_BRANCH) or MAIN_BRANCH
    if branch != MAIN_BRANCH:
        raise BranchNotFoundError(f"There is no branch {branch!r} of the table at {location}.")
    raise InvalidInputError(f"There is no table at {location}: it has no schema file.")


def find_store(
    location: str,
    file_io: FileIO | None = None,
    *,
    hooks: StoreHooks,
    schema: TableSchema | None = None,
    dynamic_options: Mapping[str, str] | None = None,
    environment: StoreEnvironment | None = None,
) -> FileStore | None:
    """Open the table like open_store; None where there is no table, or no such branch."""
    dynamic = dict(dynamic_options or {})
    given = location
    file_io, location = _resolved(given, file_io, dynamic)
    branch = dynamic.get(_BRANCH, MAIN_BRANCH) or MAIN_BRANCH
    schemas = SchemaManager(file_io, table_paths(location, None, branch), hooks.check_options)
    noted: int | None = None
    if schema is None:
        # The next step is usually to read a snapshot: in an object store read the hint together with the schemas.
        hints = SnapshotManager(file_io, table_paths(location, None, branch))
        read_hint = hints.noted_latest if file_io.capabilities.slow_requests else _nothing
        schema, noted = both(file_io, schemas.latest, read_hint)
    if schema is None:
        return None
    if dynamic:
        from interbed.storage.meta.schema.option_changes import check_dynamic_options

        check_dynamic_options(schema, dynamic)
        # Invalid values of the table's own options are tolerated, so that it can be opened to mend them.
        CoreOptions(dynamic).check()
    environment = environment or StoreEnvironment()
    merged = {**schema.options, **dynamic}
    if isinstance(file_io, LocalFileIO):
        # Readers must not fail because of an invalid value of this option.
        file_io = file_io.with_sync(merged.get(COMMIT_SYNC, "").lower() != CommitSync.NONE)
    effective = replace(schema, options=merged) if dynamic else schema
    paths = table_paths(location, effective, branch)
    publisher: SnapshotPublisher
    has_history = environment.versions is not None
    if environment.publisher is not None and (branch == MAIN_BRANCH or has_history):
        publisher = environment.publisher(file_io, paths)
    else:
        publisher = ExclusiveCreatePublisher(file_io, paths, environment.new_lock())
    return FileStore(
        location=location,
        told_location=respelled(location, given),
        file_io=file_io,
        schema=effective,
        options=CoreOptions(merged, _sources(paths, schema, dynamic)),
        paths=paths,
        schemas=schemas,
        # A catalog's data on a table are those of the main branch.
        snapshots=SnapshotManager(
            file_io, paths, environment.known_latest if branch == MAIN_BRANCH else None, noted=noted
        ),
        publisher=publisher,
        hooks=hooks,
        dynamic_options=dynamic,
        environment=environment,
    )


def _nothing() -> None:
    return None


def _sources(paths: TablePaths, schema: TableSchema, dynamic: Mapping[str, str]) -> dict[str, str]:
    """Return the file of each option that the caller did not give."""
    return dict.fromkeys(schema.options.keys() - dynamic.keys(), paths.schema(schema.id))


def _reopened(
    location: str, file_io: FileIO, hooks: StoreHooks, schema: TableSchema, dynamic_options: Mapping[str, str]
) -> FileStore:
    return open_store(location, file_io, hooks=hooks, schema=schema, dynamic_options=dynamic_options)


def _resolved(location: str, file_io: FileIO | None, options: Mapping[str, str] | None) -> tuple[FileIO, str]:
    resolved, path = file_io_for(location, options)
    return (resolved if file_io is None else file_io), path


# -- methods that change a table ---------------------------------------------------------------------------------------


class _HasStore(Protocol):
    @property
    def store(self) -> FileStore: ...


_Table = TypeVar("_Table", bound=_HasStore)
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def changes_table(
    method: Callable[Concatenate[_Table, _Arguments], _Result],
) -> Callable[Concatenate[_Table, _Arguments], _Result]:
    """Decorate a method that changes the table of its object: see FileStore.changing."""

    @wraps(method)
    def changing(table: _Table, /, *arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        with table.store.changing():
            return method(table, *arguments, **named)

    return changing


def _column(field: DataField) -> tuple[int, str, str]:
    return field.id, field.name, str(field.type)
