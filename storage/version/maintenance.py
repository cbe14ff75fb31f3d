"""Maintenance after a commit: create automatic tags, and expire snapshots, changelogs, tags and consumers.

Tables with `write-only` are left out. Source: documentation page `maintenance/manage-snapshots`, paimon-core's
TableCommitImpl.

Changelogs may outlive their snapshots: `changelog.num-retained.min`, `.max`, `changelog.time-retained`. The decision is
pure (`first_kept_changelog`). Changelogs are deleted before the files that they refer to; a process killed in between
leaves those for the removal of orphan files. Source: paimon-core's ExpireChangelogImpl.
"""

import logging
import time
from collections.abc import Callable, Sequence
from datetime import datetime

from interbed.storage.base.errors import CorruptFileError, InterbedError
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.snapshot.manager import ChangelogManager
from interbed.storage.meta.snapshot.progress import ConsumerManager
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.version.expire import SnapshotExpiry
from interbed.storage.version.references import References, own_paths, roots_of_others
from interbed.storage.version.tags import create_automatic_tags, expire_tags

_log = logging.getLogger(__name__)


def maintain(store: FileStore, clock: Callable[[], float] = time.time) -> None:
    """Tag and expire what is due. Failures are logged and do not affect the commit.

    The next commit tries again.
    """
    if store.options.write_only:
        return
    try:
        carry_out_maintenance(store, clock)
    except (InterbedError, OSError) as error:
        _log.warning("Maintenance after a commit failed for %s: %s", store.location, error)


def carry_out_maintenance(store: FileStore, clock: Callable[[], float] = time.time) -> None:
    """Tag and expire what is due, in `write-only` tables, too. Raises as each of the steps does."""
    # Tags come first: a snapshot that is due for one stays readable by it after its expiry.
    created = create_automatic_tags(store)
    lifetime = store.options.consumer_expire_millis
    if lifetime is not None:
        # Consumers come before snapshots, which they keep.
        ConsumerManager(store.file_io, store.paths).expire(int(clock() * 1000) - lifetime)
    expiry = SnapshotExpiry(store, clock=clock)
    # In an object store a full check costs requests after each commit.
    expired = () if store.file_io.capabilities.slow_requests and expiry.seems_idle() else expiry.run().snapshots
    if store.options.changelog_outlives_snapshots:
        expire_changelogs(store, clock)
    # Expired tags only matter when snapshots expire.
    if expired and store.options.tag_time_expire_enabled:
        expire_tags(store, datetime.fromtimestamp(clock()))
    if created or expired:
        store.hooks.after_change(store)


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
    """Return the id of the first changelog to keep, of at least one changelog in ascending order.

    `latest` is the newest snapshot's id, with which the retained ones are counted; the newest changelog is always kept.
    """
    earliest, newest = changelogs[0].id, changelogs[-1].id
    least = max(latest - retain_max + 1, earliest)
    bounds = [latest - retain_min + 1, earliest + max_deletes, newest]
    end = min(bounds if consumed is None else [*bounds, consumed])
    for changelog in changelogs:
        if least <= changelog.id <= end and older_than_millis <= changelog.time_millis:
            return changelog.id
    return max(end, earliest)


def expire_changelogs(store: FileStore, clock: Callable[[], float] = time.time) -> list[int]:
    """Delete the changelogs that the table's options expire, with their files, and return their ids.

    Raises CorruptFileError.
    """
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
    expired = [changelog for changelog in changelogs if changelog.id < end]
    if not expired:
        return []
    references = References(store)
    metadata = [path for changelog in expired for path in sorted(references.changelog_metadata(changelog))]
    data = [path for changelog in expired for path in sorted(references.changelog_data(changelog))]
    kept = _kept(store, expired, references)
    manager.delete([changelog.id for changelog in expired])
    if kept is not None:
        # A branch that begins with one of these has its changelog as long as its manifest list exists, so delete the
        # list before the manifests.
        lists = {store.paths.manifest(c.changelog_manifest_list) for c in expired if c.changelog_manifest_list}
        store.file_io.delete_quietly(own_paths(store, (path for path in metadata if path in lists - kept)))
        store.file_io.delete_quietly(own_paths(store, (path for path in data if path not in kept)))
        store.file_io.delete_quietly(own_paths(store, (path for path in metadata if path not in lists | kept)))
    return [changelog.id for changelog in expired]


def _kept(store: FileStore, expired: Sequence[Snapshot], references: References) -> set[str] | None:
    """Return the files that branches need to which the table was forwarded; None when unknown: then all files stay."""
    others = roots_of_others(store, expired[0].id, expired[-1].id)
    if others.unjudged:
        return None
    kept: set[str] = set()
    try:
        for snapshot in others.with_changelog:
            kept |= references.changelog_metadata(snapshot) | references.named_changelog_data(snapshot)
    except CorruptFileError as error:
        _log.warning("Changelog files of %s stay for the removal of orphans: %s", store.location, error)
        return None
    return kept
