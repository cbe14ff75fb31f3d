"""Commit of a table's snapshots through a Paimon REST server, and its changes of versions.

A writer writes data files and manifests, and sends the snapshot; the server writes the file `snapshot-<id>`, which is
the commit point. A kill before it leaves files that no snapshot names; a kill after it leaves a complete commit. The
answer `false` says that another snapshot has the id. An unknown outcome is settled by content: the file of the snapshot
is read back, and the same snapshot is sent again while there is none. The server accepts it once, because its id is
taken then. While the outcome is unknown, nothing is deleted.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from interbed.catalog.client.errors import CallStateUnknownError, CatalogUnavailableError
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.client.partition import epoch_millis
from interbed.catalog.client.rest.client import RestClient, object_name
from interbed.catalog.client.rest.http import NOT_FOUND, RestRefusedError, catalog_error
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
from interbed.storage.io.api import FileIO
from interbed.storage.meta.manifest.entry import FileKind, ManifestEntry
from interbed.storage.meta.paths import TablePaths
from interbed.storage.meta.schema.change import SchemaChange
from interbed.storage.meta.snapshot.snapshot import Snapshot

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
