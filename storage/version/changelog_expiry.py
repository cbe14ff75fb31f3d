"""Expiry of changelogs that outlive their snapshots: `changelog.num-retained.min`, `.max`, `changelog.time-retained`.

Which go is decided purely (`first_kept_changelog`). They go before what they name does, which a process that is killed
in between leaves for the removal of orphan files. Source: paimon-core's ExpireChangelogImpl.
"""

import time
from collections.abc import Callable, Sequence

from interbed.storage.meta.snapshot.changelog import ChangelogManager
from interbed.storage.meta.snapshot.consumer import ConsumerManager
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.store import TableStore
from interbed.storage.version.references import References


def first_kept_changelog(
    changelogs: Sequence[Snapshot],
    latest: int,
    *,
    retain_max: int,
    retain_min: int,
    older_than_millis: int,
    max_deletes: int,
    consumed: int | None,
) -> int:
    """The id of the first changelog that stays, of ascending ones of which there is one at least.

    `latest` is the newest snapshot's id, with which the retained ones are counted; the newest changelog stays always.
    """
    earliest, newest = changelogs[0].id, changelogs[-1].id
    least = max(latest - retain_max + 1, earliest)
    bounds = [latest - retain_min + 1, earliest + max_deletes, newest]
    end = min(bounds if consumed is None else [*bounds, consumed])
    for changelog in changelogs:
        if least <= changelog.id <= end and older_than_millis <= changelog.time_millis:
            return changelog.id
    return max(end, earliest)


def expire_changelogs(store: TableStore, clock: Callable[[], float] = time.time) -> list[int]:
    """Delete the changelogs that the table's options let go, with their files; their ids. Raises CorruptFileError."""
    manager = ChangelogManager(store.file_io, store.paths)
    changelogs, latest = manager.all(), store.snapshots.latest_id()
    if not changelogs or latest is None:
        return []
    options = store.options
    end = first_kept_changelog(
        changelogs,
        latest,
        retain_max=options.changelog_retain_max,
        retain_min=options.changelog_retain_min,
        older_than_millis=int(clock() * 1000) - options.changelog_time_retained_millis,
        max_deletes=options.snapshot_expire_limit,
        consumed=ConsumerManager(store.file_io, store.paths).min_next_snapshot(),
    )
    going = [changelog for changelog in changelogs if changelog.id < end]
    references = References(store)
    data = [path for changelog in going for path in sorted(references.changelog_data(changelog))]
    metadata = [path for changelog in going for path in sorted(references.changelog_metadata(changelog))]
    manager.delete([changelog.id for changelog in going])
    store.file_io.delete_quietly(data)
    store.file_io.delete_quietly(metadata)
    return [changelog.id for changelog in going]
