"""Expiry of changelogs that outlive their snapshots: `changelog.num-retained.min`, `.max`, `changelog.time-retained`.

Which go is decided purely (`first_kept_changelog`). They go before what they name does, which a process that is killed
in between leaves for the removal of orphan files. Source: paimon-core's ExpireChangelogImpl.
"""

import logging
import time
from collections.abc import Callable, Sequence

from interbed.storage.base.errors import CorruptFileError
from interbed.storage.meta.snapshot.manager import ChangelogManager
from interbed.storage.meta.snapshot.progress import ConsumerManager
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.store import TableStore
from interbed.storage.version.branch_stores import roots_of_others
from interbed.storage.version.own_paths import own_paths
from interbed.storage.version.references import References

_log = logging.getLogger(__name__)


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
    if not going:
        return []
    references = References(store)
    metadata = [path for changelog in going for path in sorted(references.changelog_metadata(changelog))]
    data = [path for changelog in going for path in sorted(references.changelog_data(changelog))]
    kept = _kept(store, going, references)
    manager.delete([changelog.id for changelog in going])
    if kept is not None:
        # A branch that begins with one of these has its changelog as long as the list of it is there, which therefore
        # goes before the manifests that it names.
        lists = {store.paths.manifest(c.changelog_manifest_list or "") for c in going}
        store.file_io.delete_quietly(own_paths(store, (path for path in metadata if path in lists - kept)))
        store.file_io.delete_quietly(own_paths(store, (path for path in data if path not in kept)))
        store.file_io.delete_quietly(own_paths(store, (path for path in metadata if path not in lists | kept)))
    return [changelog.id for changelog in going]


def _kept(store: TableStore, going: Sequence[Snapshot], references: References) -> set[str] | None:
    """The files that branches need, to which the table was forwarded; None when that is unknown, and all stay."""
    others = roots_of_others(store, going[0].id, going[-1].id)
    if others.unjudged:
        return None
    kept: set[str] = set()
    try:
        for snapshot in others.told:
            kept |= references.changelog_metadata(snapshot) | references.named_changelog_data(snapshot)
    except CorruptFileError as error:
        _log.warning("Changelog files of %s stay for the removal of orphans: %s", store.location, error)
        return None
    return kept
