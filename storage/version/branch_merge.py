"""Merging a branch into another one: its files become the other's, too, without a copy. Source: paimon-core.

That is safe only where both have done nothing but append since they parted, because files that one of them took away
would come back. They part at the branch's earliest snapshot, if the other has it as well, else at the beginning.
"""

import uuid

from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.meta.manifest.entry import ManifestEntry
from interbed.storage.meta.snapshot.snapshot import CommitKind, Snapshot
from interbed.storage.meta.store import TableStore
from interbed.storage.scan.scan import TableScan
from interbed.storage.write.commit_message import CommitMessage, DataIncrement

_FIRST = 1
_HARMLESS = frozenset({CommitKind.APPEND, CommitKind.ANALYZE})


def merge_branch(source: TableStore, target: TableStore) -> int | None:
    """Add the files that the source branch has and the target has not; the target's new snapshot, None without any.

    Raises NotSupportedError for tables with a primary key or row tracking, InvalidInputError for branches that do not
    fit, and as a commit does; the source stays as it is in any case.
    """
    there, here = source.paths.branch, target.paths.branch
    if there == here:
        raise InvalidInputError(f"The branch '{there}' can't be merged into itself.")
    _check_tables(source, target)
    parted = _parted_at(source, target)
    for store in (source, target):
        _check_appends_only(store, parted)
    present = {entry.identifier for entry in _entries(target)}
    wanted = [entry for entry in _entries(source) if entry.identifier not in present]
    for schema_id in sorted({entry.file.schema_id for entry in wanted}):
        known = schema_id in target.schemas.ids()
        if not known or target.schemas.schema(schema_id).fields != source.schemas.schema(schema_id).fields:
            raise InvalidInputError(
                f"Files of the branch '{there}' have its schema {schema_id}, which '{here}' does not have; "
                "copy the rows by INSERT INTO … SELECT instead."
            )
    messages = [
        CommitMessage(
            bucket_id=entry.bucket_id,
            total_buckets=entry.total_buckets,
            data=DataIncrement(new_files=(entry.file,)),
        )
        for entry in wanted
    ]
    if not messages:
        return None
    commit = FileStoreCommit(target, str(uuid.uuid4()), new_user=True)
    return commit.commit(messages, check_append_conflicts=True, owns_files=False)[-1]


def _entries(store: TableStore) -> list[ManifestEntry]:
    return TableScan(store).entries()


def _check_tables(source: TableStore, target: TableStore) -> None:
    for store in (source, target):
        branch = store.paths.branch
        if store.schema.has_primary_key:
            raise NotSupportedError(
                "Only branches of append tables are merged, where rows have no key; write the branch's rows by "
                "MERGE INTO or INSERT INTO … SELECT instead."
            )
        if store.options.boolean("row-tracking.enabled", False):
            raise NotSupportedError(f"The branch '{branch}' tracks rows by ids that another branch has, too.")
        if store.snapshots.latest_id() is None:
            raise InvalidInputError(f"The branch '{branch}' has no snapshot, so there is nothing to merge.")
    if source.schema.fields != target.schema.fields:
        raise InvalidInputError(
            f"The branches '{source.paths.branch}' and '{target.paths.branch}' have different columns; alter one of "
            "them first."
        )


def _parted_at(source: TableStore, target: TableStore) -> int:
    """The snapshot from which on the branches differ; the one before it is that of both."""
    for one, other in ((source, target), (target, source)):
        first = one.snapshots.earliest_id()
        if first is not None and first > _FIRST and other.snapshots.exists(first):
            mine, yours = one.snapshots.snapshot(first), other.snapshots.snapshot(first)
            if _identity(mine) == _identity(yours):
                return first + 1
    return _FIRST


def _identity(snapshot: Snapshot) -> tuple[str, str, str]:
    return snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.commit_user


def _check_appends_only(store: TableStore, parted: int) -> None:
    branch, ids = store.paths.branch, store.snapshots.ids()
    later = [number for number in ids if number >= parted]
    complete = list(range(parted, ids[-1] + 1))
    if later != complete:
        raise InvalidInputError(
            f"The branch '{branch}' lacks snapshots since {parted}, where the branches part, so nobody knows what it "
            "took away; copy the rows by INSERT INTO … SELECT instead."
        )
    for number in later:
        kind = store.snapshots.snapshot(number).commit_kind
        if kind not in _HARMLESS:
            raise InvalidInputError(
                f"Snapshot {number} of the branch '{branch}' is of the kind {kind.value}, and only branches that "
                "nothing but appended since they parted are merged; copy the rows by INSERT INTO … SELECT instead."
            )
