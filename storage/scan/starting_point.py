"""Snapshots that a batch read sees: one, or the range whose changes it returns, as the options of the table name it.

Options of ranges: `incremental-between`, `incremental-between-timestamp` and `incremental-to-auto-tag`. The first
snapshot is excluded, the last one included. Documentation page: `flink/sql-query`, Batch Incremental.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from interbed.storage.base.clock import instant_millis
from interbed.storage.base.errors import InvalidOptionError, SnapshotNotFoundError, TagNotFoundError
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.options.core import DELETION_VECTORS, CoreOptions
from interbed.storage.meta.options.lsm import ChangelogProducer
from interbed.storage.meta.options.stream import (
    INCREMENTAL_BETWEEN,
    INCREMENTAL_BETWEEN_TIMESTAMP,
    INCREMENTAL_TO_AUTO_TAG,
    SCAN_TAG_NAME,
    SCAN_VERSION,
    IncrementalScanMode,
    StartupMode,
)
from interbed.storage.meta.options.version import TagPeriod
from interbed.storage.meta.schema.apply import names_columns
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.meta.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER, FIRST_SNAPSHOT_ID, CommitKind, Snapshot

_WATERMARK = "watermark-"
PINNED = (StartupMode.FROM_SNAPSHOT, StartupMode.FROM_SNAPSHOT_FULL, StartupMode.FROM_TIMESTAMP)
"""Modes in which options name one snapshot of the past."""


def starting_snapshot(store: FileStore, snapshot_id: int | None = None) -> Snapshot | None:
    """Return the snapshot of that id; without one the snapshot of the scan options, or the newest (None without any).

    Raises SnapshotNotFoundError and TagNotFoundError naming those that exist, InvalidOptionError.
    """
    if snapshot_id is not None:
        return snapshot_or_tagged(store, snapshot_id)
    options = store.options
    mode = options.startup_mode
    if mode in PINNED:
        return _pinned_snapshot(store)
    if mode is StartupMode.COMPACTED_FULL:
        return compacted_snapshot(store)
    if mode is StartupMode.FROM_CREATION_TIMESTAMP:
        first = first_since_creation(store)
        if first is not None:
            return store.snapshots.read(first)
    return store.newest_snapshot()


def files_since(store: FileStore) -> int | None:
    """Return the least creation time of files to read, in milliseconds since the epoch; None for all files."""
    options = store.options
    if options.startup_mode is StartupMode.FROM_FILE_CREATION_TIME:
        return options.scan_file_creation_millis
    if options.startup_mode is StartupMode.FROM_CREATION_TIMESTAMP and first_since_creation(store) is None:
        return options.scan_creation_millis
    return None


def sees_whole_snapshot(store: FileStore) -> bool:
    """Return whether the scan options choose all rows of one snapshot, not changes or files of some time."""
    return store.options.startup_mode is not StartupMode.INCREMENTAL and files_since(store) is None


def first_since_creation(store: FileStore) -> int | None:
    """Return the first snapshot since `scan.creation-time-millis`.

    None when that time is before the oldest snapshot or after the newest.
    """
    millis, oldest = store.options.scan_creation_millis, store.snapshots.earliest_id()
    if millis is None or oldest is None or store.snapshots.snapshot(oldest).time_millis >= millis:
        return None
    first = store.snapshots.by_time_millis(millis - 1).id + 1
    return first if store.snapshots.exists(first) else None


def is_made_since(file: DataFileMeta, millis: int) -> bool:
    """Return whether the file was created then or later; files have the local time of their writer, taken for ours."""
    wall_clock = datetime(1970, 1, 1) + timedelta(milliseconds=file.creation_time_millis)
    return instant_millis(wall_clock) >= millis


def at_snapshot(store: FileStore, snapshot_id: int | None = None) -> FileStore:
    """Return the table with the columns of the snapshot, for reads of the past, and with the current options.

    Which snapshot, and errors, as in starting_snapshot. The table stays unchanged without a snapshot to travel to. It
    also does when options name a missing one: only a read needs it.
    """
    if snapshot_id is None and not travels(store):
        return store
    try:
        snapshot = starting_snapshot(store, snapshot_id)
    except SnapshotNotFoundError:
        if snapshot_id is not None:
            raise
        return store
    if snapshot is None or snapshot.schema_id == store.schema.id:
        return store
    then = store.schemas.schema(snapshot.schema_id)
    # The options of a table that replaced it are those of another table.
    if not store.schemas.is_replaced(then, store.schema.id):
        then = replace(then, options=_options_for(then, store.schema.options))
    return store.with_schema(then)


def _options_for(then: TableSchema, options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the current options for files of an earlier schema.

    Its setting of deletion vectors is kept, and so are options that name columns: columns may have other names now.
    """

    def of_then(key: str) -> bool:
        return key == DELETION_VECTORS or names_columns(key)

    current = {key: value for key, value in options.items() if not of_then(key)}
    return current | {key: value for key, value in then.options.items() if of_then(key)}


def travels(store: FileStore) -> bool:
    """Return whether the options name a snapshot of the past."""
    return store.options.startup_mode in PINNED


def snapshot_or_tagged(store: FileStore, snapshot_id: int) -> Snapshot:
    """Return the snapshot of that id, from a tag if it has expired; raises SnapshotNotFoundError."""
    from interbed.storage.meta.snapshot.tag import TagManager

    try:
        return store.snapshots.read(snapshot_id)
    except SnapshotNotFoundError:
        tag = TagManager(store.file_io, store.paths).of_snapshot(snapshot_id)
        if tag is None:
            raise
        return tag.snapshot


def named_version(store: FileStore, version: str) -> Snapshot:
    """Return the snapshot of VERSION AS OF: a tag, or the id of a snapshot. As in Paimon, a tag comes first.

    Raises TagNotFoundError and SnapshotNotFoundError naming those that exist.
    """
    from interbed.storage.meta.snapshot.tag import TagManager

    tags = TagManager(store.file_io, store.paths)
    tag = tags.find(version)
    if tag is None and version.isdecimal():
        return snapshot_or_tagged(store, int(version))
    return (tag or tags.get(version)).snapshot


def compacted_snapshot(store: FileStore) -> Snapshot | None:
    """Return the newest snapshot of a compaction, of a full one where those are scheduled; without any the newest."""
    newest = store.newest_snapshot()
    found = (s for s in store.snapshots.descending() if is_compacted(s, store.options))
    return None if newest is None else next(found, newest)


def is_compacted(snapshot: Snapshot, options: CoreOptions) -> bool:
    """Return whether a compaction made the snapshot; where full ones are scheduled, whether it was a full one."""
    if snapshot.commit_kind is not CommitKind.COMPACT:
        return False
    commits = options.full_compaction_delta_commits
    if options.changelog_producer is not ChangelogProducer.FULL_COMPACTION and commits is None:
        return True
    identifier = snapshot.commit_identifier
    return identifier == BATCH_COMMIT_IDENTIFIER or identifier % (commits or 1) == 0


def _pinned_snapshot(store: FileStore) -> Snapshot:
    """Return the snapshot of the past that the options name."""
    from interbed.storage.meta.snapshot.tag import TagManager

    options = store.options
    version = options.raw.get(SCAN_VERSION)
    if version is not None:
        mark = version.removeprefix(_WATERMARK)
        if mark != version and mark.isdigit() and TagManager(store.file_io, store.paths).find(version) is None:
            return _at_watermark(store, int(mark))
        return named_version(store, version)
    if SCAN_TAG_NAME in options.raw:
        return TagManager(store.file_io, store.paths).get(options.raw[SCAN_TAG_NAME]).snapshot
    if options.scan_snapshot_id is not None:
        return snapshot_or_tagged(store, options.scan_snapshot_id)
    if options.scan_watermark is not None:
        return _at_watermark(store, options.scan_watermark)
    millis = options.scan_time_millis
    assert millis is not None, "a pinned mode names a snapshot, a watermark or a time"
    return store.snapshots.by_time_millis(millis)


def _at_watermark(store: FileStore, watermark: int) -> Snapshot:
    """Return the oldest snapshot whose watermark is at least that."""
    for snapshot in store.snapshots.all():
        if snapshot.watermark is not None and snapshot.watermark >= watermark:
            return snapshot
    raise SnapshotNotFoundError(
        f"No snapshot of {store.location} has a watermark of {watermark} or later; wait for it, or read the newest."
    )


def earliest_changes(store: FileStore) -> int | None:
    """Return the first snapshot whose changes can be read, possibly a future one; None while there is no snapshot."""
    from interbed.storage.meta.snapshot.manager import ChangelogManager

    oldest = store.snapshots.earliest_id()
    found = ChangelogManager(store.file_io, store.paths).earliest_id()
    if oldest is None:
        return None
    if found is not None and found < oldest:
        return found
    return oldest_with_changes(store, oldest)


def oldest_with_changes(store: FileStore, oldest: int) -> int:
    """Return the oldest snapshot, whose id is given, or the next one where the changelog of the oldest was deleted.

    It was where the table was rolled back to a tag of an expired snapshot, and where a branch began with one. A
    snapshot with which a branch's history replaced the table's has no changes either.
    """
    try:
        snapshot = store.snapshots.snapshot(oldest)
    except SnapshotNotFoundError:
        return oldest
    if snapshot.begins_history:
        return oldest + 1
    if not store.schema.has_primary_key or store.options.changelog_producer is ChangelogProducer.NONE:
        return oldest
    had_changelog = snapshot.changelog_manifest_list is not None
    is_gone = not has_changelog(store, snapshot) if had_changelog else snapshot.changelog_has_expired
    return oldest + 1 if is_gone else oldest


def has_changelog(store: FileStore, snapshot: Snapshot) -> bool:
    """Return whether the first snapshot of a history still has its changelog.

    The changelog may belong to the history that a branch began from, where the snapshot has expired, and its changelog
    with it.
    """
    changelog = snapshot.changelog_manifest_list
    return changelog is not None and store.file_io.exists(store.paths.manifest(changelog))


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
    from interbed.storage.meta.snapshot.tag import TagManager

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
    from interbed.storage.meta.snapshot.tag import TagManager

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
    from interbed.storage.meta.snapshot.manager import ChangelogManager

    try:
        return store.snapshots.by_time_millis(millis).id
    except SnapshotNotFoundError:
        before = [c.id for c in ChangelogManager(store.file_io, store.paths).all() if c.time_millis <= millis]
        return max(before, default=(earliest_changes(store) or 1) - 1)
