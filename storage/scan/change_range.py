"""Range of snapshots whose changes a batch read returns, as the table's options name it.

Options: `incremental-between`, `incremental-between-timestamp` and `incremental-to-auto-tag`. The first snapshot is
excluded, the last one included. Documentation page: `flink/sql-query`, Batch Incremental.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from interbed.storage.base.errors import InvalidOptionError, SnapshotNotFoundError, TagNotFoundError
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.stream import (
    INCREMENTAL_BETWEEN,
    INCREMENTAL_BETWEEN_TIMESTAMP,
    INCREMENTAL_TO_AUTO_TAG,
    IncrementalScanMode,
)
from interbed.storage.meta.options.version import TagPeriod
from interbed.storage.meta.snapshot.manager import ChangelogManager
from interbed.storage.meta.snapshot.snapshot import FIRST_SNAPSHOT_ID, Snapshot
from interbed.storage.meta.snapshot.tag import TagManager
from interbed.storage.scan.starting_point import earliest_changes


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRange:
    """Range of snapshots: those after `first`, up to and including `last`. `tagged` are those kept by tags."""

    first: int
    last: int
    tagged: Mapping[int, Snapshot] = field(default_factory=dict)

    @property
    def snapshot_ids(self) -> range:
        """Ids of the snapshots in the range."""
        return range(self.first + 1, self.last + 1)


def with_fixed_range(store: FileStore) -> FileStore:
    """Return the table with the range of its options by snapshot ids, so that later commits do not move its end.

    Ranges of ids and of tags stay as they are.
    """
    if store.options.incremental_between_millis is None:
        return store
    between = chosen_range(store)
    if between is None:
        return store
    ids = f"{between.first},{between.last}"
    return store.with_options({INCREMENTAL_BETWEEN_TIMESTAMP: None, INCREMENTAL_BETWEEN: ids})


def chosen_range(store: FileStore) -> SnapshotRange | None:
    """Return the range that the options name; None while the table lacks snapshots, or the automatic tags."""
    options = store.options
    oldest, newest = store.snapshots.earliest_id(), store.newest_id()
    pair = options.incremental_between
    if pair is not None:
        between = _named_range(store, pair)
        if between.last < between.first:
            raise InvalidOptionError(f"Option '{INCREMENTAL_BETWEEN}' ends before it begins: '{','.join(pair)}'.")
        return None if newest is None else between
    if options.incremental_to_auto_tag is not None:
        return _up_to_automatic_tag(store, options.incremental_to_auto_tag)
    millis = options.incremental_between_millis
    if millis is None or oldest is None or newest is None:
        return None
    first, last = (_at_or_before(store, m) for m in millis)
    if options.incremental_scan_mode is IncrementalScanMode.DIFF and oldest > FIRST_SNAPSHOT_ID:
        # Older snapshots have expired, so the comparison begins with the oldest, as in Paimon.
        first = max(first, oldest)
    return SnapshotRange(first=first, last=last)


def _named_range(store: FileStore, names: tuple[str, str]) -> SnapshotRange:
    """Return the range between two tags, or between two snapshots."""
    tags = TagManager(store.file_io, store.paths)
    found = [tags.find(name) for name in names]
    if all(tag is not None for tag in found):
        first, last = (tag.snapshot for tag in found if tag is not None)
        return SnapshotRange(first=first.id, last=last.id, tagged={first.id: first, last.id: last})
    if not all(name.isdigit() for name in names):
        missing = next(name for name, tag in zip(names, found, strict=True) if tag is None)
        raise TagNotFoundError(
            f"Option '{INCREMENTAL_BETWEEN}' = '{','.join(names)}' takes two tags or two snapshot ids; there is no tag "
            f"{missing!r}."
        )
    return SnapshotRange(first=int(names[0]), last=int(names[1]))


def _up_to_automatic_tag(store: FileStore, name: str) -> SnapshotRange | None:
    """Return the range that ends with an automatic tag and begins with the automatic tag before it.

    None when either is missing. InvalidOptionError for a name that no automatic tag has.
    """
    options = store.options
    period = TagPeriod.of(options.tag_creation_period, options.tag_period_formatter, options.tag_period_length)
    begin = period.begin_of(name)
    if begin is None:
        raise InvalidOptionError(
            f"Option '{INCREMENTAL_TO_AUTO_TAG}' takes the name of an automatic tag, such as "
            f"'{period.name_of(period.last_closed(datetime.now()))}', not '{name}'."
        )
    tags = TagManager(store.file_io, store.paths)
    last = tags.find(name)
    earlier = {other: at for other, at in period.of_names(tags.names()).items() if at < begin}
    if last is None or not earlier:
        return None
    first = tags.get(max(earlier, key=lambda other: earlier[other])).snapshot
    return SnapshotRange(
        first=first.id, last=last.snapshot.id, tagged={first.id: first, last.snapshot.id: last.snapshot}
    )


def _at_or_before(store: FileStore, millis: int) -> int:
    """Return the newest snapshot of that time or before it; without any, the id before the oldest one."""
    try:
        return store.snapshots.by_time_millis(millis).id
    except SnapshotNotFoundError:
        before = [c.id for c in ChangelogManager(store.file_io, store.paths).all() if c.time_millis <= millis]
        return max(before, default=(earliest_changes(store) or 1) - 1)
