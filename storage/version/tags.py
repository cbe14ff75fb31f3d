"""Tags: create, replace, rename and delete them, tag snapshots automatically, and write success files.

A process that names a snapshot, by a tag or a branch, runs concurrently with expiry and deletion of tags. It writes a
guard first, and then checks that the snapshot exists and is not marked for expiry, or that the tag that keeps it
exists. A process that deletes files first marks the snapshot or deletes the tag, and then reads guards and tags. So one
of the two sees the other: either the files stay, or the name is refused. The guard is deleted once the name is written,
which keeps the files from then on.

Deleting a tag deletes the files that only the tag kept. An automatic tag names the first snapshot after the end of a
period. The snapshots to tag are decided from their times or watermarks and the existing tags (`due_tags`), so it does
not matter which process asks, or how often. With `batch` every batch job's snapshot is tagged by its day.

    <location>/tag/tag-success-file/<name>_SUCCESS    with `tag.create-success-file`: the times of the first and the
                last creation of the tag, in milliseconds, as JSON, for jobs that wait for a tag

Source: documentation page `maintenance/manage-tags`; paimon-core's TagManager, TagDeletion, TagAutoCreation,
TagBatchCreation and SuccessFileTagCallback.
"""

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from interbed.storage.base.errors import (
    CorruptFileError,
    InvalidInputError,
    InvalidOptionError,
    SnapshotNotFoundError,
    TagNotFoundError,
    UnsupportedVersionError,
)
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.version import TagCreation, TagPeriod
from interbed.storage.meta.snapshot.history_journal import HistoryChange, change_history, deletion, file_change
from interbed.storage.meta.snapshot.progress import ConsumerManager
from interbed.storage.meta.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from interbed.storage.meta.snapshot.tag import Tag, TagManager, check_tag_name, new_tag
from interbed.storage.version.references import KeptVersions, References, own_paths, roots_of_others, tagged


def create_tag(store: FileStore, tag: Tag) -> bool:
    """Create the tag. Return False when its name is taken.

    Raises SnapshotNotFoundError when its snapshot is expiring.
    """
    store.check_exclusive()
    check_tag_name(tag.name)
    tags = TagManager(store.file_io, store.paths)
    with guarded(store, tag.snapshot):
        return tags.create(tag)


def replace_tag(store: FileStore, tag: Tag) -> None:
    """Point an existing tag to another snapshot; raises TagNotFoundError, SnapshotNotFoundError."""
    store.check_exclusive()
    tags = TagManager(store.file_io, store.paths)
    # Before the guard, which writes files: there may be no such tag.
    tags.get(tag.name)
    with guarded(store, tag.snapshot):
        tags.replace(tag)


def rename_tag(store: FileStore, name: str, new_name: str) -> None:
    """Rename a tag; raises TagNotFoundError, InvalidInputError for a name that is taken."""
    store.check_exclusive()
    file_io, paths = store.file_io, store.paths
    tags = TagManager(file_io, paths)
    check_tag_name(new_name)

    def change() -> HistoryChange:
        content = tags.get(name).to_json()
        if tags.exists(new_name):
            raise InvalidInputError(f"There is a tag {new_name!r} already; choose another name, or replace it.")
        creation = file_change(file_io, paths, paths.tag(new_name), content)
        return HistoryChange(
            what=f"renaming of the tag {name!r}", first=(*creation, *deletion(file_io, paths, paths.tag(name)))
        )

    change_history(file_io, paths, change)


def reset_consumer(store: FileStore, consumer_id: str, next_snapshot: int) -> None:
    """Set the next snapshot of a consumer; raises SnapshotNotFoundError when that snapshot is being expired."""
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
def guarded(store: FileStore, snapshot: Snapshot) -> Iterator[None]:
    """Keep all files of a snapshot, or of what a tag keeps, while it gets a name.

    Raises SnapshotNotFoundError when they are being deleted or were deleted.
    """
    tags = TagManager(store.file_io, store.paths)
    keepers = [tag.name for tag in tags.all() if tag.snapshot.is_same(snapshot)]
    guard = tags.guard(snapshot)
    try:
        if not _is_there(store, snapshot) and not any(_keeps(tags, name, snapshot) for name in keepers):
            raise SnapshotNotFoundError(
                f"Snapshot {snapshot.id} of {store.location} is being expired, or rolled back, and can't get a name "
                "any more; choose a newer one."
            )
        yield
    finally:
        tags.release(guard)


def _is_there(store: FileStore, snapshot: Snapshot) -> bool:
    # Read the mark first: it is deleted only after the snapshot.
    mark = store.snapshots.expiring()
    if mark is not None and mark.covers(snapshot.id):
        return False
    return store.snapshots.is_stored(snapshot)


def _keeps(tags: TagManager, name: str, snapshot: Snapshot) -> bool:
    try:
        return tags.get(name).snapshot.is_same(snapshot)
    except TagNotFoundError:
        return False


_DIRECTORY = "tag-success-file"
_SUFFIX = "_SUCCESS"


def note_created(store: FileStore, name: str, clock: Callable[[], float] = time.time) -> None:
    """Write the tag's success file, if the table's options ask for one."""
    if store.options.tag_create_success_file:
        write_success_file(store, _success_path(store, name), int(clock() * 1000))


def note_deleted(store: FileStore, name: str) -> None:
    """Delete the tag's success file, if there is one."""
    if store.options.tag_create_success_file:
        store.file_io.delete_quietly([_success_path(store, name)])


def write_success_file(store: FileStore, path: str, now_millis: int) -> None:
    """Write or renew a success file, with the time when it was first written."""
    created = now_millis
    if store.file_io.exists(path):
        try:
            created = int(json.loads(store.file_io.read_bytes(path))["creationTime"])
        except (ValueError, KeyError, TypeError):
            # A file of another tool counts by its existence, not by its content.
            created = now_millis
    content = json.dumps({"creationTime": created, "modificationTime": now_millis}, indent=2)
    store.file_io.overwrite(path, content.encode())


def _success_path(store: FileStore, name: str) -> str:
    directory = store.paths.tag(name).rpartition("/")[0]
    return f"{directory}/{_DIRECTORY}/{name}{_SUFFIX}"


_log = logging.getLogger(__name__)


def delete_tag(store: FileStore, name: str) -> Tag | None:
    """Delete the tag, and the files that only it kept if its snapshot has expired. Return it, None if it can't be read.

    The tag is deleted first, then other users of its files are read, then the files are deleted: a concurrent process
    that names the snapshot (`guarded`) is seen, or sees that the tag is gone. Where it is unknown what must be kept,
    all files stay, which is logged. Raises TagNotFoundError. A tag that can't be read is deleted, and its files are
    left for the removal of orphan files.
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


def delete_files_of(store: FileStore, tag: Tag) -> None:
    """Delete the files that only a tag kept, which was deleted or points to another snapshot now."""
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


def _only_of(store: FileStore, snapshot: Snapshot, kept: Sequence[Snapshot]) -> tuple[set[str], set[str]]:
    """Return the data files and the metadata files that the snapshot needs and none of the others does."""
    references = References(store)
    kept_data = set().union(*(references.live_data(s) for s in kept))
    kept_metadata = set().union(*(references.metadata(s, changelog=False) for s in kept))
    return (
        references.live_data(snapshot) - kept_data,
        references.metadata(snapshot, changelog=False, lenient=True) - kept_metadata,
    )


def expire_tags(store: FileStore, now: datetime, older_than: datetime | None = None) -> list[str]:
    """Delete the tags whose time to live is over, and those created before `older_than`; both in local time.

    A tag without a time to live counts as created when its file was written. Return their names.
    """
    tags = TagManager(store.file_io, store.paths)
    written = tags.modified() if older_than is not None else {}
    deleted = []
    for tag in tags.all():
        created = tag.created or written.get(tag.name)
        if tag.is_over(now) or (older_than is not None and created is not None and created < older_than):
            delete_tag(store, tag.name)
            deleted.append(tag.name)
    return deleted


def _neighbours(store: FileStore, snapshot: Snapshot, found: KeptVersions) -> list[Snapshot]:
    """Return the nearest older and the nearest newer version that stay: only they can share a file."""
    older = [s for s in found.snapshots if s.id < snapshot.id][-1:]
    newer = [s for s in found.snapshots if s.id > snapshot.id][:1]
    ids = store.snapshots.stored_ids()
    if ids and (not newer or ids[0] < newer[0].id):
        newer = [store.snapshots.stored(ids[0])]
    return [*older, *newer]


_BATCH_PREFIX = "batch-write-"
_NO_WATERMARK = -(2**63)
_FIRST_MILLIS, _END_MILLIS = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 1000 for year in (2, 9999))
"""Times for which a period can be named, whatever the time zone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueTag:
    """Tag that is due for creation."""

    name: str
    snapshot: Snapshot


def due_tags(
    snapshots: Iterable[tuple[Snapshot, datetime | None]],
    last: datetime | None,
    period: TagPeriod,
    *,
    delay: timedelta,
    completes: bool,
) -> Iterator[DueTag]:
    """Yield the tags that are due for the snapshots, each with its time (None: it has none), in their order.

    `last` is the period of the last existing tag. With `completes` no period is skipped when several have passed since.
    Pure.
    """
    following = None if last is None else last + period.length
    for snapshot, moment in snapshots:
        if moment is None or (following is not None and moment - delay < following + period.length):
            continue
        begin = following if completes and following is not None else period.last_closed(moment)
        yield DueTag(name=period.name_of(begin), snapshot=snapshot)
        following = begin + period.length


def create_automatic_tags(store: FileStore) -> list[str]:
    """Create the tags that are due by the table's options and delete those beyond `tag.num-retained-max`.

    Return the created tags. Raises InvalidOptionError.
    """
    options = store.options
    creation = options.tag_automatic_creation
    if creation is TagCreation.NONE:
        return []
    if creation is TagCreation.BATCH:
        return _tag_batch(store)
    period = TagPeriod.of(options.tag_creation_period, options.tag_period_formatter, options.tag_period_length)
    delay = timedelta(milliseconds=options.tag_creation_delay_millis)
    if delay >= period.length:
        raise InvalidOptionError(
            f"Option 'tag.creation-delay' ({delay}) of {store.location} must be less than a period ({period.length})."
        )
    tags = TagManager(store.file_io, store.paths)
    begins = _automatic(tags, period)
    last = max(begins.values(), default=None)
    first = 1
    if last is not None:
        newest = next(name for name, begin in begins.items() if begin == last)
        first = tags.get(newest).snapshot.id + 1
    zone = _zone(store, creation)
    _warn_of_no_time(store, creation)
    moments = ((s, _moment(s, creation, zone)) for s in store.snapshots.all() if s.id >= first)
    due = due_tags(moments, last, period, delay=delay, completes=options.tag_automatic_completion)
    # A tag of that name that a user created stays.
    made = [tag.name for tag in due if _make_automatic(store, tag)]
    if made and options.tag_num_retained_max is not None:
        found = sorted((tags.get(name).snapshot.id, name) for name in _automatic(tags, period))
        for _, name in found[: max(len(found) - options.tag_num_retained_max, 0)]:
            delete_tag(store, name)
    return made


def _automatic(tags: TagManager, period: TagPeriod) -> Mapping[str, datetime]:
    """Return the periods of the tags whose names encode one."""
    return period.of_names(tags.names())


def _make_automatic(store: FileStore, due: DueTag) -> bool:
    try:
        created = create_tag(store, new_tag(due.name, due.snapshot, _lifetime(store)))
    except SnapshotNotFoundError:
        # It is being expired; the next call finds a newer snapshot.
        return False
    if created:
        note_created(store, due.name)
    return created


def _lifetime(store: FileStore) -> timedelta | None:
    retained = store.options.tag_default_time_retained_millis
    return None if retained is None else timedelta(milliseconds=retained)


def _tag_batch(store: FileStore) -> list[str]:
    latest = store.snapshots.latest()
    if latest is None or latest.commit_identifier != BATCH_COMMIT_IDENTIFIER:
        return []
    tags = TagManager(store.file_io, store.paths)
    moment = datetime.fromtimestamp(latest.time_millis / 1000, _zone(store, TagCreation.PROCESS_TIME))
    name = store.options.tag_batch_name or f"{_BATCH_PREFIX}{moment:%Y-%m-%d}"
    before = tags.find(name)
    if before is None:
        _make_automatic(store, DueTag(name=name, snapshot=latest))
    else:
        # Replace it in one step, so that one of them always exists.
        with suppress(SnapshotNotFoundError):
            replace_tag(store, new_tag(name, latest, _lifetime(store)))
            note_created(store, name)
            delete_files_of(store, before)
    most = store.options.tag_num_retained_max
    if most is not None:
        everything = sorted(tags.all(), key=_tag_age)
        for tag in everything[: max(len(everything) - most, 0)]:
            delete_tag(store, tag.name)
    return [name]


def _tag_age(tag: Tag) -> tuple[int, datetime, str]:
    return tag.snapshot.id, tag.created or datetime.min, tag.name


def _zone(store: FileStore, creation: TagCreation) -> ZoneInfo | None:
    """Return the time zone of the option; None for the local one."""
    key, default = (
        ("sink.watermark-time-zone", "UTC") if creation is TagCreation.WATERMARK else ("sink.process-time-zone", "")
    )
    name = store.options.text(key, default)
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise InvalidOptionError(f"Option '{key}' = '{name}' of {store.location} is no known time zone.") from error


def _warn_of_no_time(store: FileStore, creation: TagCreation) -> None:
    latest = store.snapshots.latest()
    found = None if latest is None or creation is not TagCreation.WATERMARK else latest.watermark
    if latest is None or found is None or found == _NO_WATERMARK or _FIRST_MILLIS <= found < _END_MILLIS:
        return
    _log.warning(
        "No automatic tag of snapshot %d of %s: its watermark %d, in milliseconds, is no time in the years 2 to 9998. "
        "The watermark of a table does not fall again. Correct the watermarks of the writer; create tags by hand",
        latest.id,
        store.location,
        found,
    )


def _moment(snapshot: Snapshot, creation: TagCreation, zone: ZoneInfo | None) -> datetime | None:
    millis: int | None = snapshot.time_millis
    if creation is TagCreation.WATERMARK:
        millis = snapshot.watermark
    if millis is None or not _FIRST_MILLIS <= millis < _END_MILLIS:
        return None
    return datetime.fromtimestamp(millis / 1000, zone).replace(tzinfo=None)
