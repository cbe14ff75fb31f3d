"""Opening of a table's file store with the hooks that higher layers of storage supply: option rules, log and upkeep.

A table can switch to deletion vectors only when it is compacted, because a read with deletion vectors merges nothing
and skips level 0.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from interbed.storage.base.bucket_id import by_bucket
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.io.api import FileIO
from interbed.storage.meta import file_store
from interbed.storage.meta.file_store import FileStore, StoreEnvironment, StoreHooks
from interbed.storage.meta.options.log import LogConsistency
from interbed.storage.meta.paths import TablePaths
from interbed.storage.meta.schema.manager import SchemaManager
from interbed.storage.meta.schema.table_schema import TableSchema

if TYPE_CHECKING:
    from interbed.storage.meta.store_environment import WriteLog


def _check_options(
    schema: TableSchema, before: TableSchema | None = None, at: tuple[FileIO, TablePaths] | None = None
) -> None:
    from interbed.storage.table.option_rules import check_options

    check_options(schema, before)
    if before is None or at is None:
        return
    if _switches_on(before, schema):
        file_io, paths = at
        _check_compacted(open_store(paths.location, file_io, schema=before, dynamic_options={"branch": paths.branch}))


def _maintain(of: FileStore) -> None:
    if of.log_consistency is LogConsistency.TRANSACTIONAL:
        # The log is published first, because its readers wait for it.
        from interbed.storage.log.publisher import publish_after_commit

        publish_after_commit(of)
    from interbed.storage.meta.commit_listener import follow
    from interbed.storage.version.maintenance import maintain

    # Listeners run before the expiry of snapshots: readers of the previous publication may still need their files.
    follow(of)
    maintain(of)


def _log_of_writes(of: FileStore) -> "WriteLog | None":
    if of.log_consistency is not LogConsistency.EVENTUAL:
        return None
    from interbed.storage.log.kafka_eventual import KafkaWriteLog

    return KafkaWriteLog(of)


def _log_ends(of: FileStore) -> Mapping[str, int] | None:
    from interbed.storage.log.kafka_eventual import log_ends

    return log_ends(of)


def _follow(of: FileStore) -> None:
    from interbed.storage.meta.commit_listener import follow

    follow(of)


HOOKS = StoreHooks(
    check_options=_check_options,
    after_commit=_maintain,
    after_change=_follow,
    log_of_writes=_log_of_writes,
    log_ends=_log_ends,
)
"""The hooks that every file store is opened with."""


def open_store(
    location: str,
    file_io: FileIO | None = None,
    *,
    schema: TableSchema | None = None,
    dynamic_options: Mapping[str, str] | None = None,
    environment: StoreEnvironment | None = None,
) -> FileStore:
    """Open the table at the location; see `interbed.storage.meta.file_store.open_store`, also for the errors."""
    return file_store.open_store(
        location,
        file_io,
        hooks=HOOKS,
        schema=schema,
        dynamic_options=dynamic_options,
        environment=environment,
    )


def find_store(location: str, file_io: FileIO) -> FileStore | None:
    """Return the file store of the table at the location, None where there is no table; errors as of open_store."""
    return file_store.find_store(location, file_io, hooks=HOOKS)


def schema_manager(location: str, file_io: FileIO | None = None) -> SchemaManager:
    """Return the schema manager of a location, whether or not there is a table."""
    return file_store.schema_manager(location, file_io, rules=_check_options)


def _switches_on(before: TableSchema, after: TableSchema) -> bool:
    """Return whether the change switches on deletion vectors, so that reads skip some of the existing files."""
    return before.has_primary_key and after.core.deletion_vectors_enabled and not before.core.deletion_vectors_enabled


def _check_compacted(store: FileStore) -> None:
    """Raise InvalidOptionError unless each bucket of the newest snapshot is one sorted run above level 0.

    Source: Paimon's documentation, "Table Mode", merge on write.
    """
    snapshot = store.snapshots.latest()
    if snapshot is None:
        return
    from interbed.storage.scan.live_files import LiveFiles

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
