"""Automatic tags: the first snapshot after the end of a period is tagged by the period's name.

Which snapshots get tags is decided from their times, or their watermarks, and the tags that there are (`due_tags`), so
it does not matter who asks or how often. With `batch` every batch job's snapshot is tagged by its day. Source:
documentation page `maintenance/manage-tags`, paimon-core's TagAutoCreation and TagBatchCreation.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from interbed.storage.base.errors import InvalidOptionError, SnapshotNotFoundError
from interbed.storage.meta.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from interbed.storage.meta.snapshot.tag import Tag, TagManager, new_tag
from interbed.storage.meta.snapshot.tag_period import TagCreation, TagPeriod
from interbed.storage.meta.store import TableStore
from interbed.storage.version.tag_creation import create_tag, replace_tag
from interbed.storage.version.tag_deletion import delete_files_of, delete_tag
from interbed.storage.version.tag_success import note_created

_BATCH_PREFIX = "batch-write-"
_NO_WATERMARK = -(2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class DueTag:
    """A tag that is to be made."""

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
    """The tags that the snapshots, each with its time (None: it has none), are due for, in their order.

    `last` is the period of the last tag that there is. With `completes` no period is left out when several have passed
    since. Pure.
    """
    following = None if last is None else last + period.length
    for snapshot, moment in snapshots:
        if moment is None or (following is not None and moment - delay < following + period.length):
            continue
        begin = following if completes and following is not None else period.last_closed(moment)
        yield DueTag(name=period.name_of(begin), snapshot=snapshot)
        following = begin + period.length


def create_automatic_tags(store: TableStore) -> list[str]:
    """Make the tags that are due by the table's options and delete those beyond `tag.num-retained-max`; those made.

    Raises InvalidOptionError.
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
    moments = ((s, _moment(s, creation, zone)) for s in store.snapshots.all() if s.id >= first)
    due = due_tags(moments, last, period, delay=delay, completes=options.tag_automatic_completion)
    # A tag of that name that somebody made by hand stays.
    made = [tag.name for tag in due if _make(store, tag)]
    if made and options.tag_num_retained_max is not None:
        found = sorted((tags.get(name).snapshot.id, name) for name in _automatic(tags, period))
        for _, name in found[: max(len(found) - options.tag_num_retained_max, 0)]:
            delete_tag(store, name)
    return made


def _automatic(tags: TagManager, period: TagPeriod) -> Mapping[str, datetime]:
    """The periods of the tags whose names encode one."""
    return period.of_names(tags.names())


def _make(store: TableStore, due: DueTag) -> bool:
    try:
        created = create_tag(store, new_tag(due.name, due.snapshot, _lifetime(store)))
    except SnapshotNotFoundError:
        # It expires right now; who asks again finds a newer one.
        return False
    if created:
        note_created(store, due.name)
    return created


def _lifetime(store: TableStore) -> timedelta | None:
    retained = store.options.tag_default_time_retained_millis
    return None if retained is None else timedelta(milliseconds=retained)


def _tag_batch(store: TableStore) -> list[str]:
    latest = store.snapshots.latest()
    if latest is None or latest.commit_identifier != BATCH_COMMIT_IDENTIFIER:
        return []
    tags = TagManager(store.file_io, store.paths)
    moment = datetime.fromtimestamp(latest.time_millis / 1000, _zone(store, TagCreation.PROCESS_TIME))
    name = store.options.tag_batch_name or f"{_BATCH_PREFIX}{moment:%Y-%m-%d}"
    before = tags.find(name)
    if before is None:
        _make(store, DueTag(name=name, snapshot=latest))
    else:
        # In one step, so that there is always one of them.
        with suppress(SnapshotNotFoundError):
            replace_tag(store, new_tag(name, latest, _lifetime(store)))
            note_created(store, name)
            delete_files_of(store, before)
    most = store.options.tag_num_retained_max
    if most is not None:
        everything = sorted(tags.all(), key=_age)
        for tag in everything[: max(len(everything) - most, 0)]:
            delete_tag(store, tag.name)
    return [name]


def _age(tag: Tag) -> tuple[int, datetime, str]:
    return tag.snapshot.id, tag.created or datetime.min, tag.name


def _zone(store: TableStore, creation: TagCreation) -> ZoneInfo | None:
    """The time zone of the option; None for the local one."""
    key, default = (
        ("sink.watermark-time-zone", "UTC") if creation is TagCreation.WATERMARK else ("sink.process-time-zone", "")
    )
    name = store.options.text(key, default)
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise InvalidOptionError(f"Option '{key}' = '{name}' of {store.location} is no known time zone.") from error


def _moment(snapshot: Snapshot, creation: TagCreation, zone: ZoneInfo | None) -> datetime | None:
    millis: int | None = snapshot.time_millis
    if creation is TagCreation.WATERMARK:
        millis = snapshot.watermark
    if millis is None or millis == _NO_WATERMARK:
        return None
    return datetime.fromtimestamp(millis / 1000, zone).replace(tzinfo=None)
