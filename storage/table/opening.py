"""Opening the store of a table with what the floors of storage supply to it: the rules for options, the log, and
upkeep.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from interbed.storage.base.fileio.api import FileIO
from interbed.storage.meta import store
from interbed.storage.meta.options.log import LogConsistency
from interbed.storage.meta.paths import TablePaths
from interbed.storage.meta.schema.manager import SchemaManager
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.meta.store import StoreEnvironment, StoreHooks, TableStore

if TYPE_CHECKING:
    from interbed.storage.meta.write_log import WriteLog


def _check_options(
    schema: TableSchema, before: TableSchema | None = None, at: tuple[FileIO, TablePaths] | None = None
) -> None:
    from interbed.storage.table.option_rules import check_options

    check_options(schema, before)
    if before is None or at is None:
        return
    from interbed.storage.table.vector_switch import check_compacted, switches_on

    if switches_on(before, schema):
        file_io, paths = at
        check_compacted(open_store(paths.location, file_io, schema=before, dynamic_options={"branch": paths.branch}))


def _maintain(of: TableStore) -> None:
    if of.log_consistency is LogConsistency.TRANSACTIONAL:
        # First, because readers wait for it.
        from interbed.storage.log.publisher import publish_after_commit

        publish_after_commit(of)
    from interbed.storage.meta.further_hook import follow
    from interbed.storage.upkeep.maintenance import maintain

    # Before old snapshots go, whose files readers of what was published before may still need.
    follow(of)
    maintain(of)


def _log_of_writes(of: TableStore) -> "WriteLog | None":
    if of.log_consistency is not LogConsistency.EVENTUAL:
        return None
    from interbed.storage.log.sender import KafkaWriteLog

    return KafkaWriteLog(of)


def _log_ends(of: TableStore) -> Mapping[str, int] | None:
    from interbed.storage.log.sender import log_ends

    return log_ends(of)


def _follow(of: TableStore) -> None:
    from interbed.storage.meta.further_hook import follow

    follow(of)


HOOKS = StoreHooks(
    check_options=_check_options,
    after_commit=_maintain,
    after_change=_follow,
    log_of_writes=_log_of_writes,
    log_ends=_log_ends,
)
"""What every store is opened with."""


def open_store(
    location: str,
    file_io: FileIO | None = None,
    *,
    schema: TableSchema | None = None,
    dynamic_options: Mapping[str, str] | None = None,
    environment: StoreEnvironment | None = None,
) -> TableStore:
    """Open the table at the location; see `interbed.storage.meta.store.open_store`, also for the errors."""
    return store.open_store(
        location,
        file_io,
        hooks=HOOKS,
        schema=schema,
        dynamic_options=dynamic_options,
        environment=environment,
    )


def find_store(location: str, file_io: FileIO) -> TableStore | None:
    """The store of the table at the location, None where there is no table; errors as of open_store."""
    return store.find_store(location, file_io, hooks=HOOKS)


def schema_manager(location: str, file_io: FileIO | None = None) -> SchemaManager:
    """The schema manager of a location, whether or not there is a table."""
    return store.schema_manager(location, file_io, rules=_check_options)
