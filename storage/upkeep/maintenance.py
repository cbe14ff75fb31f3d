"""Maintenance after a commit: create automatic tags, and expire snapshots, tags and consumers.

Tables with `write-only` are left out. Source: documentation page `maintenance/manage-snapshots`, paimon-core's
TableCommitImpl.
"""

import logging
import time
from collections.abc import Callable
from datetime import datetime

from interbed.storage.base.errors import InterbedError
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.snapshot.progress import ConsumerManager
from interbed.storage.version.changelog_expiry import expire_changelogs
from interbed.storage.version.expire import SnapshotExpiry
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
