"""Partitions that a table lacks, read from one of its branches: `scan.fallback-branch`.

A batch read takes each partition as a whole from one source: from the table where it has rows of it at that snapshot,
otherwise from the branch. Streams, change reads and writers ignore the option. Source: documentation page
`maintenance/manage-branches`, paimon-core's FallbackReadFileStoreTable.
"""

import logging
from dataclasses import replace

from interbed.storage.base.errors import BranchNotFoundError, InvalidOptionError, SnapshotNotFoundError
from interbed.storage.base.predicate.expr import Predicate, restrict_to
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.stream import FALLBACK_BRANCH, OF_ONE_SNAPSHOT, StartupMode
from interbed.storage.scan.scan import TableScan
from interbed.storage.scan.split import Plan
from interbed.storage.scan.starting_point import PINNED, at_snapshot, starting_snapshot

_log = logging.getLogger(__name__)


def plan_rows(
    store: FileStore, *, predicate: Predicate | None = None, limit: int | None = None, snapshot_id: int | None = None
) -> Plan:
    """Plan the table's rows, with those of the fallback branch; see TableScan.plan.

    Raises InvalidOptionError when the branch has other columns.
    """
    plan = TableScan(store, predicate=predicate, limit=limit, snapshot_id=snapshot_id).plan()
    branch = _branch_of(store)
    if branch is None:
        return plan
    snapshot = starting_snapshot(store, snapshot_id)
    newest = store.snapshots.latest()
    at = millis = None
    if store.options.startup_mode is StartupMode.FROM_TIMESTAMP:
        millis = store.options.scan_time_millis
    elif snapshot is not None and newest is not None and snapshot.id != newest.id:
        millis = snapshot.time_millis
    if millis is not None:
        at = _at_time(branch, millis)
        if at is None:
            return plan
        branch = at_snapshot(branch, at)
    _check_shape(store, branch)
    meant = None if predicate is None else restrict_to(predicate, store.schema.partition_keys)
    own: frozenset[bytes] = frozenset() if snapshot is None else _partitions(store, snapshot.id, meant)
    # Partitions of the branch that are not read could use up a limit.
    found = TableScan(branch, predicate=predicate, limit=None if own else limit, snapshot_id=at).plan().splits
    name, of_past = branch.paths.branch, at is not None
    splits = (replace(split, branch=name, of_past=of_past) for split in found if split.partition not in own)
    return replace(plan, splits=(*plan.splits, *splits))


def fallback_of(store: FileStore) -> FileStore | None:
    """Return the branch that batch reads of the table fall back to, or None. InvalidOptionError as plan_rows."""
    branch = _branch_of(store)
    if branch is not None and store.options.startup_mode not in PINNED:
        _check_shape(store, branch)
    return branch


def _branch_of(store: FileStore) -> FileStore | None:
    name = store.options.fallback_branch
    if name is None or name == store.paths.branch or store.options.startup_mode not in (*OF_ONE_SNAPSHOT, *PINNED):
        return None
    try:
        # The table's own snapshot determines the time of the read, the branch's schema the layout of its rows.
        branch = store.plain_branch(name)
    except BranchNotFoundError:
        # Java Paimon does the same: the branch may be deleted while the option names it.
        _log.warning(
            "Option '%s' of %s names the branch '%s', which does not exist.", FALLBACK_BRANCH, store.location, name
        )
        return None
    return branch


def _check_shape(store: FileStore, branch: FileStore) -> None:
    if _shape(store) != _shape(branch):
        raise InvalidOptionError(
            f"Option '{FALLBACK_BRANCH}' of {store.location} names the branch '{branch.paths.branch}', which has the "
            "columns "
            f"{', '.join(branch.schema.names)} instead of {', '.join(store.schema.names)}, or some of other types. "
            "Give both the same columns and partition keys, or remove the option."
        )


def _shape(store: FileStore) -> object:
    """Return the parts of the schema that the table and its branch must have in common."""
    return [(f.name, f.type.with_nullable(True)) for f in store.schema.fields], store.schema.partition_keys


def _at_time(branch: FileStore, millis: int) -> int | None:
    """Return the id of the branch's snapshot at a time, in milliseconds since the epoch; None when it had none."""
    try:
        return branch.snapshots.by_time_millis(millis).id
    except SnapshotNotFoundError:
        return None


def _partitions(store: FileStore, snapshot_id: int, meant: Predicate | None) -> frozenset[bytes]:
    return frozenset(e.partition for e in TableScan(store, predicate=meant, snapshot_id=snapshot_id).entries())
