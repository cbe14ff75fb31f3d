"""Deleting a tag with the files that only it kept (paimon-core's TagManager and TagDeletion)."""

import logging
from collections.abc import Sequence
from datetime import datetime

from interbed.storage.base.errors import CorruptFileError, SnapshotNotFoundError, UnsupportedVersionError
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.snapshot.tag import Tag, TagManager
from interbed.storage.meta.store import TableStore
from interbed.storage.version.branch_stores import Kept, roots_of_others, tagged
from interbed.storage.version.own_paths import own_paths
from interbed.storage.version.references import References
from interbed.storage.version.tag_success import note_deleted

_log = logging.getLogger(__name__)


def delete_tag(store: TableStore, name: str) -> Tag | None:
    """Delete the tag, and what only it kept if its snapshot has expired; it is returned, None if it can't be read.

    The tag goes first, then it is read who else needs its files, then those go: who names its snapshot meanwhile
    (version.tag_creation) is seen, or sees that it is gone. Where it is unknown what must be kept, all files stay,
    which is logged. Raises TagNotFoundError; a tag that can't be read is deleted, and its files are left for the
    removal of orphan files.
    """
    tags = TagManager(store.file_io, store.paths)
    try:
        tag = tags.get(name)
    except (CorruptFileError, UnsupportedVersionError) as error:
        _log.warning("The tag %r of %s is deleted, which can't be read: %s", name, store.location, error)
        tags.delete(name)
        note_deleted(store, name)
        return None
    tags.delete(name)
    note_deleted(store, name)
    delete_files_of(store, tag)
    return tag


def delete_files_of(store: TableStore, tag: Tag) -> None:
    """Delete the files that only a tag kept, which is gone or has become one of another snapshot."""
    if store.snapshots.exists(tag.snapshot.id):
        return
    found = tagged(store)
    if any(other.is_same(tag.snapshot) for other in found.snapshots):
        return
    others = roots_of_others(store, tag.snapshot.id, tag.snapshot.id)
    if any(other.is_same(tag.snapshot) for other in others.snapshots):
        return
    unjudged = {**found.unjudged_in(store), **others.unjudged}
    try:
        if unjudged:
            raise CorruptFileError(f"it is unknown what the {', '.join(sorted(unjudged))} needs")
        data, metadata = _only_of(store, tag.snapshot, [*_neighbours(store, tag.snapshot, found), *others.snapshots])
        data -= set().union(*map(References(store).added_data, others.later))
    except (CorruptFileError, SnapshotNotFoundError) as error:
        _log.warning(
            "The files of the tag %r of %s stay for the removal of orphans: %s", tag.name, store.location, error
        )
        return
    store.file_io.delete_quietly(own_paths(store, sorted(data)))
    store.file_io.delete_quietly(own_paths(store, sorted(metadata)))


def _only_of(store: TableStore, snapshot: Snapshot, kept: Sequence[Snapshot]) -> tuple[set[str], set[str]]:
    """The files of data and of metadata that the snapshot needs and none of the others does."""
    references = References(store)
    kept_data = set().union(*(references.live_data(s) for s in kept))
    kept_metadata = set().union(*(references.metadata(s, changelog=False) for s in kept))
    return (
        references.live_data(snapshot) - kept_data,
        references.metadata(snapshot, changelog=False, lenient=True) - kept_metadata,
    )


def expire_tags(store: TableStore, now: datetime, older_than: datetime | None = None) -> list[str]:
    """Delete the tags whose time to live is over, and those made before `older_than`; both in local time.

    A tag without a time to live was made when its file was written. Their names are returned.
    """
    tags = TagManager(store.file_io, store.paths)
    written = tags.modified() if older_than is not None else {}
    gone = []
    for tag in tags.all():
        created = tag.created or written.get(tag.name)
        if tag.is_over(now) or (older_than is not None and created is not None and created < older_than):
            delete_tag(store, tag.name)
            gone.append(tag.name)
    return gone


def _neighbours(store: TableStore, snapshot: Snapshot, found: Kept) -> list[Snapshot]:
    """The nearest older and the nearest newer version that stay: a file in neither is in no other one."""
    older = [s for s in found.snapshots if s.id < snapshot.id][-1:]
    newer = [s for s in found.snapshots if s.id > snapshot.id][:1]
    ids = store.snapshots.stored_ids()
    if ids and (not newer or ids[0] < newer[0].id):
        newer = [store.snapshots.stored(ids[0])]
    return [*older, *newer]
