"""Giving a snapshot another name, by a tag or a branch, while others expire snapshots and delete tags.

Whoever names a snapshot writes a guard first and then looks whether what it goes by is still there: the snapshot,
unmarked, or the tag that keeps it. Whoever deletes files takes that away first (by the mark of the expiry, or by
deleting the tag), and then reads guards and tags. So one of the two sees the other: either the files stay, or no name
is given. The guard goes when the name stands, which keeps the files from then on.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from interbed.storage.base.errors import InvalidInputError, SnapshotNotFoundError, TagNotFoundError
from interbed.storage.meta.snapshot.consumer import ConsumerManager
from interbed.storage.meta.snapshot.line_journal import LineChange, change_line, deletion, file_change
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.snapshot.tag import Tag, TagManager, check_tag_name
from interbed.storage.meta.store import TableStore


def create_tag(store: TableStore, tag: Tag) -> bool:
    """Make the tag; False when its name is taken. Raises SnapshotNotFoundError when its snapshot is going."""
    store.check_exclusive()
    check_tag_name(tag.name)
    tags = TagManager(store.file_io, store.paths)
    with guarded(store, tag.snapshot):
        return tags.create(tag)


def replace_tag(store: TableStore, tag: Tag) -> None:
    """Make an existing name stand for another snapshot; raises TagNotFoundError, SnapshotNotFoundError."""
    store.check_exclusive()
    tags = TagManager(store.file_io, store.paths)
    with guarded(store, tag.snapshot):
        tags.replace(tag)


def rename_tag(store: TableStore, name: str, new_name: str) -> None:
    """Give a tag another name; raises TagNotFoundError, InvalidInputError for a name that is taken."""
    store.check_exclusive()
    file_io, paths = store.file_io, store.paths
    tags = TagManager(file_io, paths)
    check_tag_name(new_name)

    def change() -> LineChange:
        content = tags.get(name).to_json()
        if tags.exists(new_name):
            raise InvalidInputError(f"There is a tag {new_name!r} already; choose another name, or replace it.")
        come = file_change(file_io, paths, paths.tag(new_name), content)
        return LineChange(
            what=f"renaming of the tag {name!r}", first=(*come, *deletion(file_io, paths, paths.tag(name)))
        )

    change_line(file_io, paths, change)


def reset_consumer(store: TableStore, consumer_id: str, next_snapshot: int) -> None:
    """Note how far a consumer has come; raises SnapshotNotFoundError when that snapshot is being expired."""
    consumers = ConsumerManager(store.file_io, store.paths)
    before = consumers.next_snapshot(consumer_id)
    consumers.reset(consumer_id, next_snapshot)
    mark = store.snapshots.expiring()
    if mark is None or not mark.covers(next_snapshot):
        return
    if before is None:
        consumers.delete(consumer_id)
    else:
        consumers.reset(consumer_id, before)
    raise SnapshotNotFoundError(
        f"Snapshot {next_snapshot} of {store.location} is being expired, so the consumer {consumer_id!r} can't go on "
        "from there; choose a newer one."
    )


@contextmanager
def guarded(store: TableStore, snapshot: Snapshot) -> Iterator[None]:
    """Keep all files of a snapshot, or of what a tag keeps, while it gets a name.

    Raises SnapshotNotFoundError when they are going or gone.
    """
    tags = TagManager(store.file_io, store.paths)
    keepers = [tag.name for tag in tags.all() if tag.snapshot.is_same(snapshot)]
    guard = tags.guard(snapshot)
    try:
        if not _is_there(store, snapshot) and not any(_keeps(tags, name, snapshot) for name in keepers):
            raise SnapshotNotFoundError(
                f"Snapshot {snapshot.id} of {store.location} is being expired, or taken back, and can't get a name "
                "any more; choose a newer one."
            )
        yield
    finally:
        tags.release(guard)


def _is_there(store: TableStore, snapshot: Snapshot) -> bool:
    # The mark first: it goes only when the snapshot has gone.
    mark = store.snapshots.expiring()
    if mark is not None and mark.covers(snapshot.id):
        return False
    return store.snapshots.is_stored(snapshot)


def _keeps(tags: TagManager, name: str, snapshot: Snapshot) -> bool:
    try:
        return tags.get(name).snapshot.is_same(snapshot)
    except TagNotFoundError:
        return False
