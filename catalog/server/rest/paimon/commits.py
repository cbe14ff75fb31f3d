"""Commits by REST: the client has written data files and manifests, the server creates `snapshot-<id>`.

    1. The newest snapshot is read. The commit is refused ({"success": false}) unless the new snapshot follows it.
    2. `snapshot-<id>` is created exclusively, under the lock of the table, by the publisher of the Hive catalog, which
       then registers new partitions and moves the pointer of the entry.
    3. The snapshot before it is read again. If a rollback has deleted it meanwhile, the new one is withdrawn.
    4. The hint LATEST is written.

The creation in step 2 is the commit. A server that is killed before it has changed nothing. After it the table has the
new snapshot: readers find it without pointer and hint, and the next commit registers its partitions. Between 2 and 3 a
rollback that deleted the base looks for newer snapshots after it has deleted them, and finds this one.

Writers of the file system and of Hive catalogs create the same file in the same way: one of them succeeds. A client
without an answer repeats its request; the snapshot that exists is its own if user, identifier, kind and content are
equal.
"""

from enum import StrEnum

from interbed.catalog.server.rest.paimon.refusals import invalid
from interbed.storage.base.errors import (
    CommitStateUnknownError,
    CorruptFileError,
    SnapshotNotFoundError,
    UnsupportedVersionError,
)
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.snapshot.history_journal import JournalOutcome, finish_history_change
from interbed.storage.meta.snapshot.snapshot import Snapshot


class CommitCheck(StrEnum):
    """Result of the check of a snapshot that a client sends."""

    CREATE = "create"
    REPEATED = "repeated"
    REFUSE = "refuse"


def check_commit(
    new: Snapshot, latest: Snapshot | None, stored: Snapshot | None, *, base_uuid: str | None, has_base: bool
) -> CommitCheck:
    """Return the result of the check. `stored` is the snapshot of the new one's id, if there is one.

    `base_uuid` is that of the newest snapshot as the client knows it; without `has_base` the client has sent none, and
    only ids are compared.
    """
    if stored is not None:
        return CommitCheck.REPEATED if is_repeated(stored, new) else CommitCheck.REFUSE
    if new.id != (1 if latest is None else latest.id + 1):
        return CommitCheck.REFUSE
    if has_base and base_uuid != (None if latest is None else latest.uuid):
        return CommitCheck.REFUSE
    return CommitCheck.CREATE


def is_repeated(stored: Snapshot, new: Snapshot) -> bool:
    """Return whether a stored snapshot is the one that a client sends again."""
    same_commit = (stored.commit_user, stored.commit_identifier, stored.commit_kind) == (
        new.commit_user,
        new.commit_identifier,
        new.commit_kind,
    )
    return same_commit and stored.is_same(new)


def given_snapshot(content: bytes) -> Snapshot:
    """Return the snapshot of a request. RestError with status 400 for other JSON."""
    try:
        return Snapshot.from_json(content, source="The snapshot of the request")
    except (CorruptFileError, UnsupportedVersionError) as error:
        raise invalid(str(error)) from error


def commit(store: FileStore, new: Snapshot, *, base_uuid: str | None, has_base: bool) -> bool:
    """Create a snapshot; return False if another writer was faster, so that the client has to read and build again.

    RestError with status 400 for a snapshot without manifest lists, CommitStateUnknownError.
    """
    finish_history_change(store.file_io, store.paths)
    latest = store.snapshots.latest()
    check = check_commit(new, latest, _stored(store, new.id), base_uuid=base_uuid, has_base=has_base)
    if check is not CommitCheck.CREATE:
        return check is CommitCheck.REPEATED
    _check_files(store, new)
    if not store.publisher.publish(new):
        found = _stored(store, new.id)
        return found is not None and is_repeated(found, new)
    if latest is not None and not _is_in_history(store, new, latest):
        return False
    store.snapshots.write_hints(new.id)
    return True


def _check_files(store: FileStore, new: Snapshot) -> None:
    """Raise RestError with status 400 for a snapshot whose manifest lists are not in the table."""
    paths = store.paths
    try:
        lists = [
            paths.manifest(name)
            for name in (new.base_manifest_list, new.delta_manifest_list, new.changelog_manifest_list)
            if name is not None
        ]
        if new.index_manifest is not None:
            lists.append(paths.manifest(new.index_manifest))
        if new.statistics is not None:
            paths.statistics(new.statistics)
    except CorruptFileError as error:
        raise invalid(f"The snapshot of the request names a file outside of the table: {error}") from error
    for path in lists:
        if not store.file_io.exists(path):
            raise invalid(f"The snapshot of the request names {path}, which does not exist.")


def _stored(store: FileStore, snapshot_id: int) -> Snapshot | None:
    try:
        return store.snapshots.stored(snapshot_id)
    except SnapshotNotFoundError:
        return None


def _is_in_history(store: FileStore, new: Snapshot, base: Snapshot) -> bool:
    """Return whether a new snapshot follows its base; withdraw it if a rollback has deleted the base.

    Snapshots expire oldest first: if the base has expired, none before it is left. CommitStateUnknownError if another
    snapshot follows the new one.
    """
    change = finish_history_change(store.file_io, store.paths)
    if change is not JournalOutcome.BUSY and store.snapshots.is_stored(base):
        return store.snapshots.is_stored(new)
    ids = store.snapshots.stored_ids()
    if change is not JournalOutcome.BUSY and not any(number < new.id for number in ids):
        return True
    if any(number > new.id for number in ids):
        raise CommitStateUnknownError(
            f"Snapshot {new.id} of {store.location} was created, but a rollback ran at the same time, and another "
            "snapshot follows. Check whether its rows are in the table."
        )
    if store.snapshots.is_stored(new):
        store.file_io.delete(store.paths.snapshot(new.id))
    return False
