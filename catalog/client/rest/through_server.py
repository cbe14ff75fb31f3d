"""Work on a table that a Paimon REST server does for its client: commits, changes of versions, and reads of rows.

Commits. A writer writes data files and manifests, and sends the snapshot; the server writes the file `snapshot-<id>`,
which is the commit point. A kill before it leaves files that no snapshot names; a kill after it leaves a complete
commit. The answer `false` says that another snapshot has the id. An unknown outcome is settled by content: the file of
the snapshot is read back, and the same snapshot is sent again while there is none. The server accepts it once, because
its id is taken then. While the outcome is unknown, nothing is deleted.

Rows. The server reads them for a client that has no keys of the store (`POST …/rows`). They come as a stream in Arrow's
IPC format. Columns, filters and limits are part of the request, so that only rows that a query needs are sent. The
server applies row filters and masks. A complete stream ends with Arrow's mark of its end:

    schema | batch | … | ff ff ff ff 00 00 00 00

Without the mark it is not complete, and CatalogUnavailableError is raised in place of its end. Its last batch may name
the reason in its metadata. A request is repeated until its response begins, and not after that.
"""

import io
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import pyarrow as pa

from interbed.catalog.client.errors import CallStateUnknownError, CatalogUnavailableError
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.client.partition import epoch_millis
from interbed.catalog.client.rest.client import RestClient, RestRows, object_name
from interbed.catalog.client.rest.http import NOT_FOUND, RestRefusedError, StreamedBody, catalog_error
from interbed.catalog.client.rest.messages import changes_to_json
from interbed.storage.base.backoff import ExponentialBackoff
from interbed.storage.base.errors import (
    BranchNotFoundError,
    CommitConflictError,
    CommitStateUnknownError,
    InterbedError,
    InvalidInputError,
    NotSupportedError,
)
from interbed.storage.base.predicate.conditions import bound_filter
from interbed.storage.base.predicate.expr import Predicate, and_
from interbed.storage.base.predicate.json import to_json
from interbed.storage.base.row.python_values import python_rows
from interbed.storage.base.types.column_names import check_asked_once
from interbed.storage.base.types.data_type import DataField
from interbed.storage.io.api import FileIO
from interbed.storage.meta.manifest.entry import FileKind, ManifestEntry
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.paths import MAIN_BRANCH, TablePaths
from interbed.storage.meta.schema.change import SchemaChange
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.read.arrow_rows import ArrowRows, check_limit, shown_query
from interbed.storage.table.described import ScannedRows
from interbed.storage.table.guarded_table import RestrictedTable, key_condition

_log = logging.getLogger(__name__)

BACKOFF = ExponentialBackoff(first_seconds=0.2, longest_seconds=5.0, retries=6, timeout_seconds=120.0)
"""Bounds of the attempts to settle the outcome of a commit."""


class RestPublisher:
    """SnapshotPublisher of a table, or a branch, of a REST server; see DecidingPublisher.

    `table_id` returns the id of the table that was opened: a table of the same name that was created since refuses the
    snapshot.
    """

    def __init__(
        self,
        client: RestClient,
        identifier: Identifier,
        file_io: FileIO,
        paths: TablePaths,
        table_id: Callable[[], str],
        backoff: ExponentialBackoff | None = None,
    ) -> None:
        self._client = client
        self._identifier = identifier
        self._file_io = file_io
        self._paths = paths
        self._table_id = table_id
        self._backoff = BACKOFF if backoff is None else backoff

    @property
    def _name(self) -> str:
        return f"{self._identifier.database}.{object_name(self._identifier, self._paths.branch)}"

    def publish(self, snapshot: Snapshot) -> bool:
        """Commit the snapshot without its base and statistics; see SnapshotPublisher."""
        return self.publish_on(None, snapshot, ())

    def publish_on(self, base: Snapshot | None, snapshot: Snapshot, delta: Sequence[ManifestEntry]) -> bool:
        """Commit the snapshot; see DecidingPublisher.

        Raises CommitConflictError when the table was dropped or recreated, CommitStateUnknownError, and the errors of
        the server when it refuses the snapshot.
        """
        statistics = statistics_of(delta, self._paths)
        table_id = self._table_id()
        retries = self._backoff.start(f"the commit of snapshot {snapshot.id} of '{self._name}'", _log)
        was_sent = False
        while True:
            try:
                created = self._client.commit(
                    self._identifier,
                    self._paths.branch,
                    table_id=table_id,
                    base_uuid=None if base is None else base.uuid,
                    snapshot=json.loads(snapshot.to_json()),
                    statistics=statistics,
                )
            except CallStateUnknownError as error:
                was_sent = True
                failure: InterbedError = error
            except CatalogUnavailableError as error:
                if not was_sent:
                    # The server never got it.
                    raise
                failure = error
            except RestRefusedError as error:
                if error.settles and not was_sent:
                    self._refused(error)
                was_sent = was_sent or not error.settles
                failure = error
            else:
                # The answer to a repeated request is about another request than the one that created the snapshot.
                return created or self._settled(snapshot, failure=None) is True
            settled = self._settled(snapshot, failure)
            if settled is not None:
                return settled
            if not retries.pause(failure):
                raise self._unknown(snapshot, failure) from failure

    def _refused(self, error: RestRefusedError) -> NoReturn:
        if error.status == NOT_FOUND:
            raise CommitConflictError(
                f"The table '{self._name}' was dropped, recreated or renamed meanwhile; nothing was committed. {error}"
            ) from error
        raise catalog_error(error) from error

    def _settled(self, snapshot: Snapshot, failure: InterbedError | None) -> bool | None:
        """Return whether the file of the id is that of the snapshot; None while there is no such file."""
        path = self._paths.snapshot(snapshot.id)
        try:
            found = Snapshot.from_json(self._file_io.read_bytes(path), source=path)
        except FileNotFoundError:
            return None
        except (InterbedError, OSError) as error:
            raise self._unknown(snapshot, failure or error) from error
        return found.is_same(snapshot)

    def _unknown(self, snapshot: Snapshot, why: Exception) -> CommitStateUnknownError:
        return CommitStateUnknownError(
            f"It is not known whether snapshot {snapshot.id} of '{self._name}' was created for user "
            f"'{snapshot.commit_user}' and identifier {snapshot.commit_identifier}: {why} Its files were left in "
            "place; commit again with the same user and identifier, which does nothing if the snapshot exists."
        )


def statistics_of(delta: Sequence[ManifestEntry], paths: TablePaths) -> list[dict[str, Any]]:
    """Return the change of each partition's size for a commit; deleted files count negatively. Pure."""
    sums: dict[bytes, dict[str, Any]] = {}
    for entry in delta:
        sign = 1 if entry.kind is FileKind.ADD else -1
        found = sums.get(entry.partition)
        if found is None:
            found = sums[entry.partition] = {
                "spec": paths.partition_spec(entry.partition),
                "recordCount": 0,
                "fileSizeInBytes": 0,
                "fileCount": 0,
                "lastFileCreationTime": 0,
                "totalBuckets": entry.total_buckets,
            }
        found["recordCount"] += sign * entry.file.row_count
        found["fileSizeInBytes"] += sign * entry.file.file_size
        found["fileCount"] += sign
        created = epoch_millis(entry.file.creation_time_millis)
        found["lastFileCreationTime"] = max(found["lastFileCreationTime"], created)
    return list(sums.values())


@dataclass(frozen=True, slots=True)
class RestVersions:
    """Changes of the versions of one branch of a table by the server; see VersionKeeper."""

    client: RestClient
    identifier: Identifier
    branch: str
    apply: Callable[[str, Sequence[SchemaChange]], None]
    """Check and send changes of the schema of a branch."""

    def roll_back(self, version: int | str) -> None:
        """Roll back to the snapshot of an id, or to that of a tag."""
        self._called(lambda: self.client.roll_back(self.identifier, self.branch, version))

    def alter(self, changes: Sequence[SchemaChange]) -> None:
        """Create the next schema of the branch."""
        self.apply(self.branch, changes)

    def create_branch(self, name: str, tag: str | None) -> None:
        """Create a branch of the table."""
        self._called(lambda: self.client.create_branch(self.identifier, name, tag))

    def delete_branch(self, name: str) -> None:
        """Drop a branch of the table."""
        self._called(lambda: self.client.drop_branch(self.identifier, name), branch=name)

    def rename_branch(self, name: str, new_name: str) -> None:
        """Rename a branch, which newer servers do not offer."""
        self._called(lambda: self.client.rename_branch(self.identifier, name, new_name), branch=name)

    def fast_forward(self, name: str) -> None:
        """Replace the state of the table by that of a branch."""
        self._called(lambda: self.client.fast_forward(self.identifier, name), branch=name)

    def _called(self, call: Callable[[], None], *, branch: str | None = None) -> None:
        try:
            call()
        except RestRefusedError as error:
            if error.status == NOT_FOUND and not error.resource_type:
                raise NotSupportedError(f"The server does not offer this change of versions: {error}") from error
            if branch is not None and error.is_missing("BRANCH"):
                raise BranchNotFoundError(f"There is no branch '{branch}' of '{self.identifier}'. {error}") from error
            raise catalog_error(error) from error


def send_changes(client: RestClient, identifier: Identifier, branch: str, changes: Sequence[SchemaChange]) -> None:
    """Send changes of a schema, which were checked; raises InvalidInputError and the errors of the server."""
    try:
        client.alter_table(identifier, changes_to_json(changes), branch)
    except RestRefusedError as error:
        known: Mapping[str, type[InterbedError]] = {"COLUMN": InvalidInputError}
        kind = known.get(error.resource_type)
        raise (catalog_error(error) if kind is None else kind(str(error))) from error


END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
REASON = b"interbed.error"
"""Key of the metadata of the last batch of a stream that has failed."""

_VERSIONS = {"scan.snapshot-id": "snapshot-id", "scan.tag-name": "tag", "scan.timestamp-millis": "timestamp-millis"}
"""Options that choose the version to read, and the members of a request."""


class ServedTable(RestrictedTable, ScannedRows):
    """Rows of a table, read by the server. All other uses are refused by name, as they need the files of the table."""

    def __init__(
        self,
        rows: RestRows,
        identifier: Identifier,
        schema: TableSchema,
        version: Mapping[str, object] | None = None,
    ) -> None:
        self._rows = rows
        self._identifier = identifier
        self._schema = schema
        self._version = dict(version or {})

    def __repr__(self) -> str:
        return f"ServedTable({self.name!r}, {self._rows.uri!r})"

    def refused(self, what: str) -> NotSupportedError:
        """Return the error for a use that needs the files of the table."""
        return NotSupportedError(
            f"{what!r} needs the files of the table '{self.name}', whose rows are read by the server for you, without "
            "credentials of the files. Read it by scan or get, or have its owner exempt you from its row filters and "
            "masks and grant you SELECT on the whole table."
        )

    # -- what it is ------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The full name of the table."""
        branch = self._version.get("branch", MAIN_BRANCH)
        return str(self._identifier) if branch == MAIN_BRANCH else f"{self._identifier}$branch_{branch}"

    @property
    def schema(self) -> TableSchema:
        """The schema, with its options."""
        return self._schema

    @property
    def options(self) -> CoreOptions:
        """The options of the table, typed."""
        return CoreOptions(self._schema.options)

    def copy(self, dynamic_options: Mapping[str, object]) -> "ServedTable":
        """Return the same table at the version that options name: a snapshot, a tag or a time.

        Raises NotSupportedError for another option.
        """
        others = sorted(set(dynamic_options) - set(_VERSIONS))
        if others:
            raise NotSupportedError(
                f"The option {others[0]!r} has no effect on '{self.name}', whose rows are read by the server; there "
                f"are {', '.join(_VERSIONS)}."
            )
        version = {_VERSIONS[key]: _version_value(key, value) for key, value in dynamic_options.items()}
        kept = {key: value for key, value in self._version.items() if key == "branch" or not version}
        return ServedTable(self._rows, self._identifier, self._schema, {**kept, **version})

    def branch(self, name: str) -> "ServedTable":
        """Return a branch of this table; whether it exists is known when it is read."""
        version = {} if name == MAIN_BRANCH else {"branch": name}
        return ServedTable(self._rows, self._identifier, self._schema, version)

    # -- read ------------------------------------------------------------------------------------------------------

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | Predicate | None = None,  # noqa: A002 - the field's word for it
        limit: int | None = None,
        snapshot_id: int | None = None,
        *,
        threads: int | None = None,
    ) -> "ServedScan":
        """Query the table as Table.scan does; a condition on a masked column sees the mask. `threads` has no effect,
        since the server reads.

        Raises InvalidInputError for an unknown column or filter; where an older version or a branch is read, the server
        knows the columns.
        """
        version = self._version
        if snapshot_id is not None:
            version = {**{k: v for k, v in version.items() if k == "branch"}, "snapshot-id": snapshot_id}
        names = None if columns is None else tuple(columns)
        check_asked_once(names or ())
        predicate = filter
        if not version:
            unknown = [each for each in names or () if each not in self._schema.by_name]
            if unknown:
                raise InvalidInputError(
                    f"The table '{self.name}' has no column {unknown[0]!r}; it has {', '.join(self._schema.names)}."
                )
            predicate = None if filter is None else bound_filter(filter, self._schema.fields)
        check_limit(limit)
        return ServedScan(self, version, names, predicate, limit)

    def count(self) -> int:
        """Return the number of rows that the row filters show; no column is sent."""
        return self.scan([]).count()

    def get(self, key: Any, columns: Sequence[str] | None = None) -> dict[str, object] | None:
        """Return the row of a primary key as Table.get does; None also for one that is not shown."""
        rows = python_rows(self.scan(columns, key_condition(self.name, self.primary_keys, key)).to_arrow())
        return rows[0] if rows else None

    def open(self, query: Mapping[str, object]) -> pa.RecordBatchReader:
        """Send a query, and return its rows as a stream of batches. Raises the errors of the catalog."""
        body = self._rows.open(self._identifier, dict(query))
        try:
            reader = pa.ipc.open_stream(io.BufferedReader(body, 1 << 20))
        except pa.ArrowInvalid as error:
            body.close()
            raise _cut(self.name, f"it is no stream of Arrow: {error}") from error
        except BaseException:
            body.close()
            raise
        return pa.RecordBatchReader.from_batches(reader.schema, _batches(self.name, reader, body))


@dataclass(frozen=True, repr=False)
class ServedScan(ArrowRows):
    """The rows of one query, read by the server on demand: each form of the result is a request of its own."""

    table: ServedTable
    version: Mapping[str, object]
    columns: tuple[str, ...] | None = None
    predicate: str | Predicate | None = None
    limit: int | None = None

    def __repr__(self) -> str:
        predicate = self.predicate if isinstance(self.predicate, Predicate) else None
        return f"ServedScan({'; '.join([self.table.name, *shown_query(self.columns, predicate, self.limit)])})"

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows; that of an older version is asked for."""
        if self.version:
            reader = replace(self, limit=0).to_arrow_batch_reader()
            reader.close()
            return reader.schema
        whole = self.table.arrow_schema
        return whole if self.columns is None else pa.schema([whole.field(name) for name in self.columns])

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of batches. Raises CatalogUnavailableError where it is cut."""
        return self.table.open(self._query)

    def count(self) -> int:
        """Return the number of rows; no column is sent."""
        return sum(batch.num_rows for batch in replace(self, columns=()).to_arrow_batch_reader())

    @property
    def _query(self) -> Mapping[str, object]:
        query = dict(self.version)
        if self.columns is not None:
            query["columns"] = list(self.columns)
        if isinstance(self.predicate, str):
            query["filter"] = self.predicate
        elif self.predicate is not None:
            query["filter"] = json.loads(to_json(self.predicate))
        if self.limit is not None:
            query["limit"] = self.limit
        return query

    # -- the interface of engines --------------------------------------------------------------------------------------

    @property
    def _row_schema(self) -> pa.Schema:
        return self.schema

    @property
    def _row_fields(self) -> Sequence[DataField]:
        return () if self.version else self.table.fields

    def _narrowed(
        self, columns: Sequence[str] | None, predicate: Predicate | None, limit: int | None
    ) -> pa.RecordBatchReader:
        if self.limit is not None or isinstance(self.predicate, str):
            # The first rows must not depend on an engine, and the columns of a text are known to the server alone.
            return super()._narrowed(columns, None, limit)
        names = self.columns if columns is None else tuple(columns)
        both = predicate if self.predicate is None else self.predicate
        if predicate is not None and self.predicate is not None:
            both = and_(self.predicate, predicate)
        return replace(self, columns=names, predicate=both, limit=limit).to_arrow_batch_reader()


def _batches(name: str, reader: Any, body: StreamedBody) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a complete stream; CatalogUnavailableError in place of the end of another one."""
    try:
        while True:
            try:
                batch, metadata = reader.read_next_batch_with_custom_metadata()
            except StopIteration:
                if body.tail != END_OF_STREAM:
                    raise _cut(name, "it has no mark of its end") from None
                return
            except pa.ArrowInvalid as error:
                raise _cut(name, str(error)) from error
            if metadata is not None and REASON in metadata:
                raise _cut(name, metadata[REASON].decode(errors="replace"))
            if batch.num_rows:
                yield batch
    finally:
        body.close()


def _cut(name: str, reason: str) -> CatalogUnavailableError:
    return CatalogUnavailableError(
        f"The rows of '{name}' that the server sends ended before their end: {reason}. Read them again."
    )


def _version_value(key: str, value: object) -> object:
    if key == "scan.tag-name":
        return str(value)
    text = str(value)
    if not (text.isascii() and text.isdecimal()):
        raise InvalidInputError(f"Option '{key}' is a number, not {text!r}.")
    return int(text)
