"""Snapshot, its JSON file `snapshot/snapshot-<id>` (specification page `spec/snapshot`, version 3), and its
publication.

Its publication is the one step of a commit that other readers and writers can see. A catalog may hold a lock
(`CatalogLock`) while the snapshot is created.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from interbed.storage.base.decoding import read_object
from interbed.storage.base.errors import (
    CommitStateUnknownError,
    CorruptFileError,
    InterbedError,
    StorageAccessError,
    SyncFailedError,
    UnsupportedVersionError,
    plain_errors,
)
from interbed.storage.io.api import FileIO
from interbed.storage.io.resolve import check_exclusive
from interbed.storage.meta.manifest.entry import ManifestEntry
from interbed.storage.meta.paths import TablePaths

CURRENT_VERSION = 3
FIRST_SNAPSHOT_ID = 1
BATCH_COMMIT_IDENTIFIER = 2**63 - 1
"""Commit identifier of batch jobs, which commit once and have no sequence of commits."""
BEGINNING_PROPERTY = "interbed.history.begins"
"""Property of a snapshot with which another history began. interbed's own."""


class CommitKind(StrEnum):
    """Type of the changes in a snapshot."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One version of a table. Counts are of unmerged records; sizes in bytes; `time_millis` since the epoch.

    `unknown` holds JSON members that this version of interbed does not know; they are written back.
    """

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: CommitKind
    time_millis: int
    total_record_count: int
    delta_record_count: int
    base_manifest_list_size: int | None = None
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    changelog_record_count: int | None = None
    index_manifest: str | None = None
    uuid: str | None = None
    writer_version: str | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: Mapping[str, str] | None = None
    next_row_id: int | None = None
    operation: str | None = None
    log_offsets: Mapping[str, int] | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the content of the snapshot file; absent members are left out, as in Paimon."""
        value: dict[str, Any] = {"version": CURRENT_VERSION}
        for name, member in _MEMBERS.items():
            content = getattr(self, name)
            if content is not None:
                value[member] = dict(content) if isinstance(content, Mapping) else content
        value.update(self.unknown)
        return json.dumps(value, indent=2, ensure_ascii=False)

    def is_same(self, other: "Snapshot") -> bool:
        """Return whether both are the same commit; their files may differ in members that were added to one of them."""
        if self.uuid is not None and other.uuid is not None:
            return self.id == other.id and self.uuid == other.uuid
        mine = (self.id, self.base_manifest_list, self.delta_manifest_list, self.commit_user)
        return mine == (other.id, other.base_manifest_list, other.delta_manifest_list, other.commit_user)

    @property
    def identity(self) -> str:
        """Text that no other commit of the table has, also if it gets the same id after a rollback."""
        return self.uuid or self.delta_manifest_list

    @property
    def changelog_has_expired(self) -> bool:
        """Whether the changelog was deleted while a tag kept the rows: its records are counted, but it is not named."""
        return self.changelog_manifest_list is None and bool(self.changelog_record_count)

    def without_changelog(self) -> "Snapshot":
        """Return the snapshot without its expired changelog; the number of records of it stays."""
        return replace(self, changelog_manifest_list=None, changelog_manifest_list_size=None)

    def at_the_beginning(self) -> "Snapshot":
        """Return the snapshot with the mark that no snapshot of its table came before it: see `begins_history`."""
        return replace(self, properties={**(self.properties or {}), BEGINNING_PROPERTY: "true"})

    @property
    def begins_history(self) -> bool:
        """Whether the table's earlier snapshots were of another history, which a fast-forward replaced."""
        return BEGINNING_PROPERTY in (self.properties or {})

    @staticmethod
    def from_json(text: str | bytes, *, source: str = "snapshot") -> "Snapshot":
        """Return the snapshot of a file's content.

        Raises CorruptFileError and UnsupportedVersionError naming `source`.
        """
        value = read_object(text, _MEMBER_TYPES, source=source, what="a snapshot file")
        try:
            version = value.get("version") or 1
            if not 1 <= version <= CURRENT_VERSION:
                raise UnsupportedVersionError(
                    f"{source} has version {version}; this version of interbed reads versions 1 to {CURRENT_VERSION}."
                )
            known = {name: value[member] for name, member in _MEMBERS.items() if value.get(member) is not None}
            known["commit_kind"] = CommitKind(known["commit_kind"])
            # Files of versions 1 and 2 may lack the counts; a missing count reads as zero, as in Paimon.
            known.setdefault("total_record_count", 0)
            known.setdefault("delta_record_count", 0)
            rest = {k: v for k, v in value.items() if k not in _KNOWN_MEMBERS}
            return Snapshot(**known, unknown=rest)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptFileError(f"{source} is not a snapshot file: {error}") from error


_MEMBERS = {
    "uuid": "uuid",
    "id": "id",
    "schema_id": "schemaId",
    "base_manifest_list": "baseManifestList",
    "base_manifest_list_size": "baseManifestListSize",
    "delta_manifest_list": "deltaManifestList",
    "delta_manifest_list_size": "deltaManifestListSize",
    "changelog_manifest_list": "changelogManifestList",
    "changelog_manifest_list_size": "changelogManifestListSize",
    "index_manifest": "indexManifest",
    "commit_user": "commitUser",
    "writer_version": "writerVersion",
    "commit_identifier": "commitIdentifier",
    "commit_kind": "commitKind",
    "time_millis": "timeMillis",
    "log_offsets": "logOffsets",
    "total_record_count": "totalRecordCount",
    "delta_record_count": "deltaRecordCount",
    "changelog_record_count": "changelogRecordCount",
    "watermark": "watermark",
    "statistics": "statistics",
    "properties": "properties",
    "next_row_id": "nextRowId",
    "operation": "operation",
}
_TEXTS = frozenset(
    {
        *("uuid", "baseManifestList", "deltaManifestList", "changelogManifestList", "indexManifest", "commitUser"),
        *("writerVersion", "commitKind", "statistics", "operation"),
    }
)
_OBJECTS = frozenset({"logOffsets", "properties"})
_KNOWN_MEMBERS = frozenset(_MEMBERS.values()) | {"version"}
_MEMBER_TYPES: Mapping[str, type] = {
    member: str if member in _TEXTS else dict if member in _OBJECTS else int for member in sorted(_KNOWN_MEMBERS)
}


@runtime_checkable
class CatalogLock(Protocol):
    """Lock that excludes the other writers of one table; held only while a snapshot is checked and created."""

    def hold(self) -> AbstractContextManager[None]:
        """Return the lock as a context; acquiring waits a bounded time and then raises CommitError."""
        ...


class NoLock:
    """Absent lock: the file system's exclusive creation is enough."""

    def hold(self) -> AbstractContextManager[None]:
        """Return a context that does nothing."""
        return nullcontext()


_log = logging.getLogger(__name__)


class SnapshotPublisher(Protocol):
    """Publisher that creates snapshots, each id at most once."""

    def publish(self, snapshot: Snapshot) -> bool:
        """Create the snapshot. Return True when it exists now, False when another writer took the id.

        Any error but CommitStateUnknownError means that the snapshot was not created and never will be;
        CommitStateUnknownError means that it may exist or appear later, so no file that it refers to may be deleted.
        """
        ...


@runtime_checkable
class DecidingPublisher(Protocol):
    """SnapshotPublisher of a catalog that keeps the history of the table, and alone decides what belongs to it."""

    def publish_on(self, base: Snapshot | None, snapshot: Snapshot, delta: Sequence[ManifestEntry]) -> bool:
        """Create the snapshot on its base, with these changes of data files; see SnapshotPublisher.publish."""
        ...


@runtime_checkable
class LockKeeper(Protocol):
    """SnapshotPublisher with a lock that it keeps from one attempt to the next."""

    def attempts(self) -> AbstractContextManager[object]:
        """Return the context of the attempts of one commit on this thread.

        A lock that was held in vain is kept until it ends.
        """
        ...

    @property
    def keeps_lock(self) -> bool:
        """Whether this thread has kept a lock, so that others wait for its next attempt."""
        ...


def attempts_of(publisher: SnapshotPublisher) -> AbstractContextManager[object]:
    """Return the context of the attempts of one commit.

    A writer that waited for the lock finds that others have committed meanwhile; without the lock for its next attempt
    it would wait again, and lose again.
    """
    return publisher.attempts() if isinstance(publisher, LockKeeper) else nullcontext()


def is_waited_for(publisher: SnapshotPublisher) -> bool:
    """Return whether others wait for this thread's next attempt."""
    return isinstance(publisher, LockKeeper) and publisher.keeps_lock


class ExclusiveCreatePublisher:
    """Publisher that creates `snapshot/snapshot-<id>` exclusively, under the catalog's lock when there is one."""

    def __init__(self, file_io: FileIO, paths: TablePaths, lock: CatalogLock | None = None) -> None:
        self._file_io = file_io
        self._paths = paths
        self._lock: CatalogLock = NoLock() if lock is None else lock

    def publish(self, snapshot: Snapshot) -> bool:
        """Create the snapshot; see SnapshotPublisher. Raises NotSupportedError where a required lock is missing."""
        if isinstance(self._lock, NoLock):
            check_exclusive(self._file_io, self._paths.snapshot(snapshot.id))
        created: bool | None = None
        try:
            with self._lock.hold():
                created = create_snapshot(self._file_io, self._paths.snapshot(snapshot.id), snapshot)
        except (InterbedError, OSError) as error:
            # A lock that can't be released after the snapshot was created does not undo the snapshot.
            if created is None:
                raise
            _log.warning("Snapshot %d was decided, but its lock was not released: %s", snapshot.id, error)
        return bool(created)


def create_snapshot(file_io: FileIO, path: str, snapshot: Snapshot) -> bool:
    """Create the snapshot file exclusively; where the outcome is unclear read it back.

    Return True when the file exists and is ours, False when it is another writer's. Raises the file system's error when
    the file can't have been created, CommitStateUnknownError when that is unknown, or whether it survives a power cut.
    """
    try:
        if _created(file_io, path, snapshot):
            return True
        # An object store that repeats a request by itself reports our own file as another writer's; the uuid decides.
        return bool(_is_ours(file_io, path, snapshot))
    except _NotCreatedError as refused:
        explained = type(refused.error)(f"{refused.error} Nothing was committed; the same work may be done again.")
        explained.changed_nothing = True
        raise explained from None
    except OSError as error:
        try:
            ours = _is_ours(file_io, path, snapshot)
        except (OSError, InterbedError) as second:
            raise _unknown(snapshot, path, error) from second
        if ours and isinstance(error, SyncFailedError):
            # Other processes see the snapshot and build on it, and yet it may be lost when the machine stops.
            raise _unknown(snapshot, path, error) from error
        if ours is not None:
            return ours
        if file_io.capabilities.exact_results:
            # A file that a local file system refused and does not show will not appear later.
            raise
        raise _unknown(snapshot, path, error) from error


class _NotCreatedError(Exception):
    """Error that says that the file was not created. Reading it back might be refused, too."""

    def __init__(self, error: StorageAccessError) -> None:
        super().__init__(str(error))
        self.error = error


def _created(file_io: FileIO, path: str, snapshot: Snapshot) -> bool:
    try:
        return file_io.create_exclusive(path, snapshot.to_json().encode())
    except StorageAccessError as error:
        if not error.changed_nothing:
            raise
        raise _NotCreatedError(error) from error


def _is_ours(file_io: FileIO, path: str, snapshot: Snapshot) -> bool | None:
    """Return whether the snapshot file is the one given; None when there is none."""
    try:
        found = Snapshot.from_json(file_io.read_bytes(path), source=path)
    except FileNotFoundError:
        return None
    if found.uuid is None or snapshot.uuid is None:
        return found == snapshot
    return found.uuid == snapshot.uuid


def _unknown(snapshot: Snapshot, path: str, error: OSError) -> CommitStateUnknownError:
    return CommitStateUnknownError(
        f"It is not known whether {path} was created for user '{snapshot.commit_user}' and identifier "
        f"{snapshot.commit_identifier}: {error} Its files were left in place; commit again with the same user and "
        "identifier, which does nothing if the snapshot exists."
    )
