"""Overwrites whose changes a stream does not tell: a warning for each, with what tells them.

Paimon commits an overwrite without a changelog (OverwriteChangesProvider), and streams pass over it unless
`streaming-read-overwrite` is set. Where compactions write the changelog that option is refused (SchemaValidation), and
the compaction after an overwrite has the new rows at most, as insertions.
"""

import logging
from functools import lru_cache

from interbed.storage.meta.options.lsm import ChangelogProducer
from interbed.storage.meta.snapshot.snapshot import CommitKind, Snapshot
from interbed.storage.views.stream.checkpoint import commit_of

_log = logging.getLogger(__name__)
_REMEMBERED = 1_000


def warn_of_overlooked(location: str, snapshot: Snapshot, producer: ChangelogProducer) -> None:
    """Log, once for each commit, that a stream of a table with a primary key passes over an overwrite of old rows."""
    rows_before = snapshot.total_record_count - snapshot.delta_record_count
    if snapshot.commit_kind is CommitKind.OVERWRITE and rows_before > 0:
        _warn(location, snapshot.id, commit_of(snapshot), advice(producer, snapshot.id))
    is_new_rows = snapshot.commit_kind is CommitKind.APPEND and snapshot.delta_record_count > 0
    if producer is ChangelogProducer.INPUT and is_new_rows and snapshot.changelog_manifest_list is None:
        _warn_of_other_producer(location, snapshot.id, commit_of(snapshot))


def advice(producer: ChangelogProducer, snapshot_id: int) -> str:
    """How to get the changes of an overwrite in a table with a primary key."""
    if producer in (ChangelogProducer.NONE, ChangelogProducer.INPUT):
        return "set 'streaming-read-overwrite'"
    return (
        f"'changelog-producer' = '{producer}' has nothing of them. Read table.changes({snapshot_id}, {snapshot_id}, "
        "mode='diff'), or start the stream anew"
    )


@lru_cache(maxsize=_REMEMBERED)
def _warn(location: str, snapshot_id: int, commit: str, way_out: str) -> None:
    """Log the warning; the cache remembers the last commits, of which there is no second one."""
    del commit
    _log.warning(
        "Snapshot %d of %s replaced files, and the stream does not tell which rows went: %s.",
        snapshot_id,
        location,
        way_out,
    )


@lru_cache(maxsize=_REMEMBERED)
def _warn_of_other_producer(location: str, snapshot_id: int, commit: str) -> None:
    """As _warn, for rows that were written while the table had another changelog producer."""
    del commit
    _log.warning(
        "Snapshot %d of %s was written without a changelog, by another 'changelog-producer' than the table has now, "
        "and the stream does not tell its changes. Read table.changes(%d, %d, mode='diff'), or start the stream anew.",
        snapshot_id,
        location,
        snapshot_id,
        snapshot_id,
    )
