"""A compaction that was given up, made again: rows of level 0 are not read where only compaction makes them fit."""

import logging
import uuid

from interbed.storage.base.errors import InterbedError
from interbed.storage.commit.retry import RetryPolicy
from interbed.storage.meta.store import TableStore
from interbed.storage.upkeep.compact_table import compact_table

_log = logging.getLogger(__name__)


def compact_again(store: TableStore) -> None:
    """Compact what is due, after a commit of new rows whose compaction was given up because another writer was faster.

    Does nothing where readers merge level 0. The rows are committed, so that neither other writers who are faster again
    and again nor a store that fails are an error, which would have them written once more: they are seen after the next
    compaction, and the log says so.
    """
    if not (store.schema.has_primary_key and store.options.scans_skip_level_0):
        return
    try:
        RetryPolicy.of(store.options).redo(lambda: compact_table(store, str(uuid.uuid4()), full=False))
    except (InterbedError, OSError) as error:
        _log.warning("The newest rows of %s are seen after the next compaction: %s", store.location, error)
