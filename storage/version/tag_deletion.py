"""Deleting a tag with the files that only it kept (paimon-core's TagManager and TagDeletion)."""

from collections.abc import Sequence
from datetime import datetime

from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.snapshot.tag import Tag, TagManager
from interbed.storage.meta.store import TableStore
from interbed.storage.version.branch_stores import roots_of_others
from interbed.storage.version.references import References
from interbed.storage.version.tag_success import note_deleted


def delete_tag(store: TableStore, name: str) -> Tag:
    """Delete the tag, and what only it kept if its snapshot has expired; it is returned.

    Raises TagNotFoundError, and CorruptFileError when it is unknown what must be kept (the tag stays then).
    """
    tags = TagManager(store.file_io, store.paths)
    tag = tags.get(name)
    everything = tags.all()
    alone = all(other.name == name or other.snapshot.id != tag.snapshot.id for other in everything)
    if store.snapshots.exists(tag.snapshot.id) or not alone:
        tags.delete(name)
        note_deleted(store, name)
        return tag
    kept = [*_neighbours(store, tag.snapshot, [other.snapshot for other in everything]), *roots_of_others(store)]
    references = References(store)
    kept_data = set().union(*(references.live_data(s) for s in kept))
    kept_metadata = set().union(*(references.metadata(s, changelog=False) for s in kept))
    data = references.live_data(tag.snapshot) - kept_data
    metadata = references.metadata(tag.snapshot, changelog=False, lenient=True) - kept_metadata
    tags.delete(name)
    note_deleted(store, name)
    store.file_io.delete_quietly(sorted(data))
    store.file_io.delete_quietly(sorted(metadata))
    return tag


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


def _neighbours(store: TableStore, snapshot: Snapshot, tagged: Sequence[Snapshot]) -> list[Snapshot]:
    """The nearest older and the nearest newer version that stay: a file in neither is in no other one."""
    older = [s for s in tagged if s.id < snapshot.id][-1:]
    newer = [s for s in tagged if s.id > snapshot.id][:1]
    earliest = store.snapshots.earliest_id()
    if earliest is not None and (not newer or earliest < newer[0].id):
        newer = [store.snapshots.read(earliest)]
    return [*older, *newer]
