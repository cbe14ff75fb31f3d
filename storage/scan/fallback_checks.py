"""Checks of changes to a table that reads the partitions it lacks from a branch (`scan.fallback-branch`).

A change that is computed from rows sees the table's rows alone. If it writes the first rows of a partition, readers
find them in place of all rows of this partition in the branch. Rows written as a whole (`append`, `upsert`,
`overwrite`) may do so, because that is how a partition gets its final rows: the documentation page
`maintenance/manage-branches` of Paimon describes it. A change computed from rows may not, because its author expects
the other rows to stay.
"""

import logging
from collections.abc import Collection

from interbed.storage.base.errors import InvalidOptionError, NotSupportedError
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.stream import FALLBACK_BRANCH
from interbed.storage.scan.partition_filter import PartitionChoice
from interbed.storage.scan.scan import TableScan, fallback_of

_log = logging.getLogger(__name__)

_SHOWN = 3
"""Number of partitions that a text names."""


def check_hides_no_rows(store: FileStore, written: Collection[bytes]) -> None:
    """Raise NotSupportedError if changes computed from rows would hide those of the fallback branch.

    `written` are the partitions that get new files, as serialised BinaryRows.
    """
    branch = _branch_of(store)
    if branch is None:
        return
    specs = [store.paths.partition_spec(partition) for partition in written]
    hidden = _visible(store, branch, specs).intersection(written)
    if hidden:
        raise NotSupportedError(
            f"The change would write the first rows of the partition {_names(store, hidden)} into the table at "
            f"{store.location}, and hide the rows of it that are read from the branch '{branch.paths.branch}'. Nothing "
            "was changed. Change the rows in the branch, write whole rows of the partition by append, upsert or "
            f"overwrite, or allow it by the option '{FALLBACK_BRANCH}' = '' of the statement."
        )


def warn_of_branch_rows(
    store: FileStore, *, predicate: Predicate | None = None, partitions: PartitionChoice = None
) -> None:
    """Log a warning if a statement may select rows of the fallback branch, which it does not change."""
    branch = _branch_of(store)
    if branch is None:
        return
    seen = _visible(store, branch, partitions, predicate)
    if seen:
        _log.warning(
            "Rows of the branch '%s' in %d partitions of the table at %s (%s) may match the statement, which changes "
            "only rows of the table itself; these stay visible. Change them in the branch. The option '%s' = '' of the "
            "statement leaves the branch out.",
            branch.paths.branch,
            len(seen),
            store.location,
            _names(store, seen),
            FALLBACK_BRANCH,
        )


def _branch_of(store: FileStore) -> FileStore | None:
    if store.options.fallback_branch is None:
        return None
    try:
        return fallback_of(store)
    except InvalidOptionError:
        # The branch has other columns, so that no reader sees its rows.
        return None


def _visible(
    store: FileStore, branch: FileStore, partitions: PartitionChoice, predicate: Predicate | None = None
) -> frozenset[bytes]:
    """Return the chosen partitions of which readers of the newest snapshots see rows of the branch."""
    found = TableScan(branch, predicate=predicate, partition_filter=partitions).plan().splits
    candidates = frozenset(split.partition for split in found)
    if not candidates:
        return candidates
    newest = store.newest_id()
    if newest is None:
        return candidates
    # Scan options may name an older snapshot.
    own = TableScan(store, partition_filter=partitions, snapshot_id=newest).entries()
    return candidates.difference(entry.partition for entry in own)


def _names(store: FileStore, partitions: Collection[bytes]) -> str:
    names = sorted(
        ",".join(f"{name}={text}" for name, text in store.paths.partition_spec(p).items()) for p in partitions
    )
    return "; ".join(names[:_SHOWN]) + (f"; and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
