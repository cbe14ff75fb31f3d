"""Whether a table can switch to deletion vectors: a read with them merges nothing, and passes over level 0."""

from interbed.storage.base.bucket_id import by_bucket
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.meta.store import TableStore
from interbed.storage.scan.live_files import LiveFiles


def switches_on(before: TableSchema, after: TableSchema) -> bool:
    """Whether the change makes reads of the files that are there pass over some of them."""
    return before.has_primary_key and after.core.deletion_vectors_enabled and not before.core.deletion_vectors_enabled


def check_compacted(store: TableStore) -> None:
    """Raise InvalidOptionError unless each bucket of the newest snapshot is one sorted run above level 0.

    Source: Paimon's documentation, "Table Mode", merge on write.
    """
    snapshot = store.snapshots.latest()
    if snapshot is None:
        return
    entries, _ = LiveFiles(store).entries(snapshot)
    levels = [{entry.file.level for entry in found} for found in by_bucket(entries).values()]
    apart = sum(0 in found or len(found) > 1 for found in levels)
    if apart:
        raise InvalidOptionError(
            f"Option 'deletion-vectors.enabled' can't be switched on yet: {apart} of {len(levels)} buckets of the "
            f"table at {store.location} are not compacted into one run, and reads with deletion vectors would miss "
            "rows of them, or show old ones. Stop its writers, compact it fully (interbed table compact --full, "
            "table.compact(full=True)), then switch."
        )
