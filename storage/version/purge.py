"""Purge of a table: delete everything but its schemas.

Branches, tags and consumers are deleted, then the rows, then all snapshots but the newest, then all remaining files.
Source: paimon-core's FileStoreTable.purgeFiles.
"""

import time
import uuid
from collections.abc import Callable

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.paths import MAIN_BRANCH
from interbed.storage.meta.snapshot.manager import ChangelogManager
from interbed.storage.meta.snapshot.progress import ConsumerManager
from interbed.storage.meta.snapshot.tag import TagManager
from interbed.storage.version.branch import BranchManager
from interbed.storage.version.expire import SnapshotExpiry
from interbed.storage.version.orphans import remove_orphan_files


def purge(store: FileStore, clock: Callable[[], float] = time.time) -> None:
    """Delete everything of the table but its schemas and one empty snapshot.

    No process may write to it meanwhile: files that are not committed yet are deleted, too. Raises InvalidInputError
    for a branch, whose files are the table's.
    """
    if store.paths.branch != MAIN_BRANCH:
        raise InvalidInputError(f"The branch {store.paths.branch!r} can't be purged, delete it; or purge the table.")
    store.check_exclusive()
    branches, tags = BranchManager(store), TagManager(store.file_io, store.paths)
    for branch in branches.names():
        branches.delete(branch)
    for name in tags.names():
        tags.delete(name)
    ConsumerManager(store.file_io, store.paths).clear()
    changelogs = ChangelogManager(store.file_io, store.paths)
    changelogs.delete(changelogs.ids())
    FileStoreCommit(store, str(uuid.uuid4()), new_user=True).truncate()
    now = int(clock() * 1000)
    SnapshotExpiry(store, clock=clock).run(retain_max=1, retain_min=1, older_than_millis=now, max_deletes=2**31 - 1)
    remove_orphan_files(store, older_than_millis=now - 1, clock=clock)
