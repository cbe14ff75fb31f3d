"""Snapshots whose changes a stream passes over: a warning for each, with what reports the changes.

Paimon commits an overwrite without a changelog (OverwriteChangesProvider), and streams pass over it unless
`streaming-read-overwrite` is set. Where compactions write the changelog that option is refused (SchemaValidation), and
the compaction after an overwrite has the new rows at most, as insertions. Rows that were written while the table had
another changelog producer have no changelog, either.
"""

import logging
from functools import lru_cache

from interbed.storage.meta.options.lsm import ChangelogProducer
from interbed.storage.meta.snapshot.snapshot import CommitKind, Snapshot
from interbed.storage.views.stream.checkpoint import commit_of

_log = logging.getLogger(__name__)
_REMEMBERED = 1_000


def warn_of_overlooked(location: str, snapshot: Snapshot, producer: ChangelogProducer) -> None:
    """Log, once for each commit, that a stream of a table with a primary key passes over the snapshot's changes."""
    rows_before = snapshot.total_record_count - snapshot.delta_record_count
    if snapshot.commit_kind is CommitKind.OVERWRITE and rows_before > 0:
        said = f"replaced files, and the stream does not tell which rows went: {advice(producer, snapshot.id)}"
        _warn(location, snapshot.id, commit_of(snapshot), said)
    is_new_rows = snapshot.commit_kind is CommitKind.APPEND and snapshot.delta_record_count > 0
    if producer is ChangelogProducer.INPUT and is_new_rows and snapshot.changelog_manifest_list is None:
        said = (
            "was written without a changelog, by another 'changelog-producer' than the table has now, and the stream "
            f"does not tell its changes. {_by_comparison(snapshot.id)}"
        )
        _warn(location, snapshot.id, commit_of(snapshot), said)


def advice(producer: ChangelogProducer, snapshot_id: int) -> str:
    """How to get the changes of an overwrite in a table with a primary key."""
    if producer in (ChangelogProducer.NONE, ChangelogProducer.INPUT):
        return "set 'streaming-read-overwrite'"
    return f"'changelog-producer' = '{producer}' has nothing of them. {_by_comparison(snapshot_id)}"


def _by_comparison(snapshot_id: int) -> str:
    return f"Read table.changes({snapshot_id}, {snapshot_id}, mode='diff'), or start the stream anew"


@lru_cache(maxsize=_REMEMBERED)
def _warn(location: str, snapshot_id: int, commit: str, said: str) -> None:
    """Log the warning; the cache remembers the last commits, so that each is logged once."""
    del commit
    _log.warning("Snapshot %d of %s %s.", snapshot_id, location, said)
