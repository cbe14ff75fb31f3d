"""A compaction that was given up, made again: rows of level 0 are not read where only compaction makes them fit."""

import logging
import uuid

from interbed.storage.base.errors import CommitConflictError, CommitFailedError, InterbedError
from interbed.storage.commit.retry import RetryPolicy
from interbed.storage.meta.store import TableStore
from interbed.storage.upkeep.compact_table import compact_table

_log = logging.getLogger(__name__)


def compact_again(store: TableStore) -> None:
    """Compact what is due, after a commit of new rows whose compaction was given up because another writer was faster.

    Does nothing where readers merge level 0. The rows are committed, so that other writers who are faster again and
    again are no error: then the rows are seen after the next compaction, and the log says so. Other errors of
    `compact_table` are raised with a note that the rows are committed.
    """
    if not (store.schema.has_primary_key and store.options.scans_skip_level_0):
        return
    try:
        RetryPolicy.of(store.options).redo(lambda: compact_table(store, str(uuid.uuid4()), full=False))
    except (CommitConflictError, CommitFailedError) as error:
        _log.warning("The newest rows of %s are seen after the next compaction: %s", store.location, error)
    except (InterbedError, OSError) as error:
        error.add_note("The new records were committed; only their compaction failed, after which they are seen.")
        raise
