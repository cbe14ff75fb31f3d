"""Deletion of old snapshots and of orphan files of an Iceberg table.

**Expiry.** Old snapshots are removed from the metadata; then the files that only they name are deleted. Properties of
the table, of branches and tags, and the caller's arguments define what is kept. Files are deleted after the commit, and
only if the metadata of all remaining snapshots could be read. The removal of orphan files finds what a killed expiry
left.

**Orphan files** are files in the table's directory that nothing names: killed writers and expiries left them. The files
are listed first and the names are read afterwards, so files of a commit in between are known. A file is deleted only if
it is of a kind that tables have, is in a folder of the table, and is known to be old enough. If one manifest cannot be
read, no file is deleted. Files of another table in the same folder are kept.

Source: Iceberg's documentation, "Maintenance" and "Delete orphan files", and its table specification, "Snapshot
Retention Policy".

**History.** Where pyiceberg makes the metadata (tables of directories, of metastores, and of its catalogs without a
server), its own removal leaves gaps in the log of current snapshots: a read as of a time in a gap would show the
snapshot before the gap. It also makes snapshots forget a removed parent, from which incremental readers continue.
Source: Iceberg's table specification, `snapshot-log` ("all items before an expired snapshot are removed").
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO as IcebergFileIO
from pyiceberg.table import Table as Metadata
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot, SnapshotLogEntry
from pyiceberg.table.update import (
    RemovePartitionStatisticsUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    TableUpdate,
    _apply_table_update,
)

from interbed.iceberg.commit.home import CommitAttempt, TableHome, commit_retried, delete_files, neighbours_of
from interbed.iceberg.meta.manifests import entries_of, entries_of_each, manifests_of
from interbed.iceberg.meta.table_metadata import whole_number
from interbed.iceberg.read.files import TableFiles
from interbed.storage.base.errors import InterbedError, InvalidInputError, NotSupportedError, plain_errors
from interbed.storage.io.api import FileIO, FileStatus
from interbed.storage.io.resolve import normalize_path


class RemoveSnapshotsFromHistory(RemoveSnapshotsUpdate):
    """Update that removes snapshots and cuts the log at the newest of them; servers see pyiceberg's own update.

    It is refused if a branch or tag that was created meanwhile names one of them.
    """


@_apply_table_update.register(RemoveSnapshotsFromHistory)
def _removed(update: RemoveSnapshotsFromHistory, base_metadata: TableMetadata, context: Any) -> TableMetadata:
    for name, ref in base_metadata.refs.items():
        if ref.snapshot_id in update.snapshot_ids:
            raise CommitFailedException(
                f"Cannot remove snapshot {ref.snapshot_id}: the {ref.snapshot_ref_type.value} '{name}' names it by now"
            )
    made: TableMetadata = _apply_table_update(
        RemoveSnapshotsUpdate.model_validate({"snapshot-ids": update.snapshot_ids}), base_metadata, context
    )
    parents = {each.snapshot_id: each.parent_snapshot_id for each in base_metadata.snapshots}
    snapshots = [each.model_copy(update={"parent_snapshot_id": parents[each.snapshot_id]}) for each in made.snapshots]
    log = cut_log(base_metadata.snapshot_log, update.snapshot_ids)
    return made.model_copy(update={"snapshots": snapshots, "snapshot_log": log})


def cut_log(log: Iterable[SnapshotLogEntry], removed: Collection[int]) -> list[SnapshotLogEntry]:
    """Return the entries of a log after the last one of a removed snapshot."""
    kept: list[SnapshotLogEntry] = []
    for entry in log:
        if entry.snapshot_id in removed:
            kept.clear()
        else:
            kept.append(entry)
    return kept


_log = logging.getLogger(__name__)

_MAX_AGE = "history.expire.max-snapshot-age-ms"
_MIN_KEPT = "history.expire.min-snapshots-to-keep"
_MAX_REF_AGE = "history.expire.max-ref-age-ms"
_GC = "gc.enabled"
_WRITE_PATHS = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
_FIVE_DAYS = 5 * 24 * 3600 * 1000


_THREE_DAYS = 3 * 24 * 3600 * 1000


_FOLDERS = ("data", "metadata")


_KINDS = (".parquet", ".orc", ".avro", ".puffin", ".metadata.json", ".metadata.json.gz", ".stats")


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergExpiry:
    """The result of an expiry, or of a dry run: removed snapshots, branches and tags, and numbers of files."""

    snapshots: tuple[int, ...]
    refs: tuple[str, ...]
    data_files: int
    delete_files: int
    metadata_files: int

    def __str__(self) -> str:
        if not self.snapshots and not self.refs:
            return "nothing to expire"
        return (
            f"{len(self.snapshots)} snapshot(s) and {len(self.refs)} branch(es) or tag(s), with {self.data_files} data "
            f"file(s), {self.delete_files} delete file(s) and {self.metadata_files} of metadata"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return asdict(self)


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergOrphans:
    """The deleted files, or in a dry run the files to delete, and their size in bytes."""

    paths: tuple[str, ...]
    bytes: int

    def __str__(self) -> str:
        return "\n".join([f"{len(self.paths)} file(s) that nothing names, {self.bytes:,} bytes", *self.paths])

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRetention:
    """Settings that override the table's properties, in milliseconds since the epoch and numbers."""

    older_than_millis: int | None = None
    retain_last: int | None = None


@dataclass(frozen=True, slots=True)
class ExpiredSnapshots:
    """Expired snapshots, and expired branches and tags."""

    snapshots: tuple[int, ...]
    refs: tuple[str, ...]


def expired(metadata: TableMetadata, retention: SnapshotRetention, now_millis: int) -> ExpiredSnapshots:
    """Return what has expired of a table at that time. Pure; raises InvalidOptionError for an invalid property."""
    properties = metadata.properties
    default_age = whole_number(properties, _MAX_AGE, _FIVE_DAYS)
    oldest = now_millis - default_age if retention.older_than_millis is None else retention.older_than_millis
    least = whole_number(properties, _MIN_KEPT, 1) if retention.retain_last is None else retention.retain_last
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    expired_refs = tuple(
        name
        for name, ref in metadata.refs.items()
        if name != MAIN_BRANCH and _is_old(ref, by_id, properties, now_millis)
    )
    kept: set[int] = set()
    known: set[int] = set()
    for name, ref in metadata.refs.items():
        if name in expired_refs:
            continue
        if ref.snapshot_ref_type is SnapshotRefType.TAG:
            kept.add(ref.snapshot_id)
            continue
        since = oldest if ref.max_snapshot_age_ms is None else now_millis - ref.max_snapshot_age_ms
        number = least if ref.min_snapshots_to_keep is None else ref.min_snapshots_to_keep
        for place, snapshot in enumerate(_ancestry(by_id, ref.snapshot_id)):
            known.add(snapshot.snapshot_id)
            if place == 0 or place < number or snapshot.timestamp_ms >= since:
                kept.add(snapshot.snapshot_id)
    # Snapshots of no branch, as of staged changes that wait for an audit, are kept by their age only.
    kept.update(s.snapshot_id for s in metadata.snapshots if s.snapshot_id not in known and s.timestamp_ms >= oldest)
    return ExpiredSnapshots(tuple(s.snapshot_id for s in metadata.snapshots if s.snapshot_id not in kept), expired_refs)


def next_expiry(metadata: TableMetadata, now_millis: int) -> int | None:
    """Return when the next snapshot expires without more writes (epoch milliseconds), by the properties; None for
    never.

    Pure; raises InvalidOptionError.
    """
    expired_now = set(expired(metadata, SnapshotRetention(), now_millis).snapshots)
    age = whole_number(metadata.properties, _MAX_AGE, _FIVE_DAYS)
    times = sorted(s.timestamp_ms + age for s in metadata.snapshots if s.snapshot_id not in expired_now)
    return next((time for time in times if expired_more(metadata, len(expired_now), time + 1)), None)


def expired_more(metadata: TableMetadata, number: int, at_millis: int) -> bool:
    """Return whether more than `number` snapshots will have expired at that time."""
    return len(expired(metadata, SnapshotRetention(), at_millis).snapshots) > number


def expire_snapshots(
    home: TableHome,
    retention: SnapshotRetention,
    *,
    dry_run: bool = False,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> IcebergExpiry:
    """Expire snapshots, branches and tags that are not retained.

    Raises NotSupportedError for a table whose files must not be deleted, and as commit_retried does; nothing is deleted
    then.
    """
    now = int(clock() * 1000)
    if dry_run:
        table = home.load()
        check_collected(table.metadata)
        found = expired(table.metadata, retention, now)
        return _counted(found, _files_of(table, found.snapshots))
    chosen = ExpiredSnapshots((), ())

    def attempt(table: Metadata) -> CommitAttempt | None:
        nonlocal chosen
        check_collected(table.metadata)
        chosen = expired(table.metadata, retention, now)
        if not chosen.snapshots and not chosen.refs:
            return None
        updates: list[TableUpdate] = [
            RemoveSnapshotRefUpdate.model_validate({"ref-name": name}) for name in chosen.refs
        ]
        if chosen.snapshots:
            updates += [
                RemovePartitionStatisticsUpdate.model_validate({"snapshot-id": file.snapshot_id})
                for file in table.metadata.partition_statistics
                if file.snapshot_id in chosen.snapshots
            ]
            updates.append(RemoveSnapshotsFromHistory.model_validate({"snapshot-ids": list(chosen.snapshots)}))
        ids = chosen.snapshots
        return CommitAttempt(
            table=table,
            updates=tuple(updates),
            written=(),
            happened=lambda metadata: all(metadata.snapshot_by_id(number) is None for number in ids),
        )

    made = commit_retried(home, attempt, sleep)
    if made is None:
        return _counted(chosen, _Files())
    files = _files_of(made.table, chosen.snapshots)
    delete_files(made.table, _own(made.table, files.all))
    return _counted(chosen, files)


def _own(table: Metadata, paths: Iterable[str]) -> list[str]:
    """Return the files below the table's location or its write paths. Others, which the table may share, are logged."""
    places = [table.location(), *(table.properties[key] for key in _WRITE_PATHS if key in table.properties)]
    roots = tuple(f"{normalize_path(place)}/" for place in places)
    own: list[str] = []
    foreign: list[str] = []
    for path in paths:
        plain = normalize_path(path)
        (own if plain.startswith(roots) and ".." not in plain.split("/") else foreign).append(path)
    if foreign:
        _log.warning(
            "Kept %d files, such as %s, which expired snapshots of %s name: they are not below its location.",
            len(foreign),
            min(foreign),
            table.location(),
        )
    return own


@dataclass(slots=True)
class _Files:
    data: frozenset[str] = frozenset()
    deletes: frozenset[str] = frozenset()
    metadata: frozenset[str] = frozenset()

    @property
    def all(self) -> Iterable[str]:
        # Files that name others are deleted after them, so that a kill leaves orphans that are found again.
        return (*self.data, *self.deletes, *sorted(self.metadata))


def _files_of(table: Metadata, snapshots: Iterable[int]) -> _Files:
    """Return the files that only these snapshots of the table name. Raises what reading metadata raises."""
    leaving = set(snapshots)
    if not leaving:
        return _Files()
    staying = [s for s in table.metadata.snapshots if s.snapshot_id not in leaving]
    kept_manifests = {m.manifest_path: m for s in staying for m in manifests_of(table.io, s)}
    lists = {s.manifest_list for s in table.metadata.snapshots if s.snapshot_id in leaving}
    removed: dict[str, Any] = {}
    for snapshot in table.metadata.snapshots:
        if snapshot.snapshot_id in leaving:
            removed.update((m.manifest_path, m) for m in _manifests_if_there(table.io, snapshot))
    kept_paths = {_plain(path) for path in (*kept_manifests, *(s.manifest_list for s in staying))}
    removed = {path: manifest for path, manifest in removed.items() if _plain(path) not in kept_paths}
    content: dict[str, tuple[str, int]] = {}
    for manifest in removed.values():
        try:
            found = [(str(e.data_file.file_path), int(e.data_file.content)) for e in entries_of(table.io, manifest)]
            content.update((_plain(path), (path, kind)) for path, kind in found)
        except InterbedError as error:
            _log.warning(
                "Kept the files that the manifest %s names, because it can't be read: %s", manifest.manifest_path, error
            )
    if content:
        for entries in entries_of_each(table.io, kept_manifests.values()):
            for entry in entries:
                content.pop(_plain(str(entry.data_file.file_path)), None)
    statistics = [*table.metadata.statistics, *table.metadata.partition_statistics]
    kept_paths.update(_plain(file.statistics_path) for file in statistics if file.snapshot_id not in leaving)
    leaving_statistics = [file.statistics_path for file in statistics if file.snapshot_id in leaving]
    metadata = {_plain(path): path for path in (*lists, *removed, *leaving_statistics)}
    return _Files(
        data=frozenset(path for path, kind in content.values() if kind == 0),
        deletes=frozenset(path for path, kind in content.values() if kind != 0),
        metadata=frozenset(path for plain, path in metadata.items() if plain not in kept_paths),
    )


def _manifests_if_there(io: IcebergFileIO, snapshot: Snapshot) -> Iterable[Any]:
    try:
        return manifests_of(io, snapshot)
    except InterbedError as error:
        _log.warning(
            "Kept the files of snapshot %d, because its manifests can't be read: %s", snapshot.snapshot_id, error
        )
        return ()


def _counted(found: ExpiredSnapshots, files: _Files) -> IcebergExpiry:
    return IcebergExpiry(
        snapshots=found.snapshots,
        refs=found.refs,
        data_files=len(files.data),
        delete_files=len(files.deletes),
        metadata_files=len(files.metadata),
    )


def _ancestry(by_id: Mapping[int, Snapshot], head: int) -> Iterable[Snapshot]:
    """Yield a snapshot and its ancestors, the newest first."""
    found = by_id.get(head)
    while found is not None:
        yield found
        found = None if found.parent_snapshot_id is None else by_id.get(found.parent_snapshot_id)


def _is_old(ref: SnapshotRef, by_id: Mapping[int, Snapshot], properties: Mapping[str, str], now: int) -> bool:
    default = whole_number(properties, _MAX_REF_AGE, -1)
    age = ref.max_ref_age_ms if ref.max_ref_age_ms is not None else default if default >= 0 else None
    snapshot = by_id.get(ref.snapshot_id)
    return age is not None and snapshot is not None and now - snapshot.timestamp_ms > age


def check_collected(metadata: TableMetadata) -> None:
    """Raise NotSupportedError for a table whose files must not be deleted by its maintenance."""
    if metadata.properties.get(_GC, "true").lower() != "true":
        raise NotSupportedError(
            f"The table at {metadata.location} has '{_GC}' = 'false': its files may belong to other tables. Set it "
            "to 'true' if they do not."
        )


def remove_orphan_files(
    home: TableHome,
    older_than_millis: int | None,
    *,
    dry_run: bool = False,
    clock: Callable[[], float] = time.time,
) -> IcebergOrphans:
    """Delete files that nothing names and that are older than three days, or than the given time.

    Raises InvalidInputError for a time in the future, NotSupportedError for a table whose files must not be deleted,
    and what reading metadata raises.
    """
    now = int(clock() * 1000)
    limit = now - _THREE_DAYS if older_than_millis is None else older_than_millis
    if limit > now:
        raise InvalidInputError("The time is in the future: files that are being written would be taken for orphans.")
    table = home.load()
    check_collected(table.metadata)
    files = TableFiles.of(table.metadata, table.io.properties)
    file_io, root = files.open(table.location())
    listed = [
        status
        for folder in _FOLDERS
        for status in _all_files(file_io, f"{root.rstrip('/')}/{folder}")
        if status.name.endswith(_KINDS)
    ]
    old = [each for each in listed if each.modified_millis is not None and each.modified_millis < limit]
    if not old:
        return IcebergOrphans(paths=(), bytes=0)
    named = {_plain(path) for path in named_files(home.load())}
    if any(_plain(status.path) not in named for status in old):
        for neighbour in neighbours_of(table, file_io, root, {path.rpartition("/")[2] for path in named}):
            named.update(_plain(path) for path in (*neighbour.paths, *named_files(neighbour.metadata)))
    orphans = [status for status in old if _plain(status.path) not in named]
    orphans = _certain(orphans, named - {_plain(status.path) for status in listed}, table.location())
    if not dry_run:
        file_io.delete_quietly(status.path for status in orphans)
    return IcebergOrphans(
        paths=tuple(sorted(status.path for status in orphans)), bytes=sum(status.size for status in orphans)
    )


def _certain(orphans: Sequence[FileStatus], unlisted: Collection[str], location: str) -> list[FileStatus]:
    """Return the orphans but those with the name of a file that was not listed, which are logged.

    The metadata may name the same file by another path: by another host, bucket or link. Names of files are unique.
    """
    paths = {path.rpartition("/")[2]: path for path in unlisted}
    doubtful = [status for status in orphans if status.name in paths]
    if doubtful:
        first = doubtful[0]
        _log.warning(
            "Kept %d files of %s, such as %s: its metadata name %s, which may be the same file. Open the table by the "
            "location that its files are named by, or delete those files yourself.",
            len(doubtful),
            location,
            first.path,
            paths[first.name],
        )
    return [status for status in orphans if status.name not in paths]


def named_files(table: Metadata) -> Iterator[str]:
    """Yield all files that the metadata of a table name. Raises what reading metadata raises."""
    metadata = table.metadata
    yield table.metadata_location
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    yield from (file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics))
    seen: set[str] = set()
    for snapshot in metadata.snapshots:
        yield snapshot.manifest_list
        new = [each for each in manifests_of(table.io, snapshot) if each.manifest_path not in seen]
        seen.update(each.manifest_path for each in new)
        yield from (each.manifest_path for each in new)
        for entries in entries_of_each(table.io, new):
            yield from (str(entry.data_file.file_path) for entry in entries)


def _all_files(file_io: FileIO, folder: str) -> Iterator[FileStatus]:
    for status in file_io.list(folder):
        if status.name.startswith("."):
            continue
        if status.is_directory:
            yield from _all_files(file_io, status.path)
        else:
            yield status


def _plain(path: str) -> str:
    """Return a path that is the same for each spelling: `file:/x`, `FILE:///x`, `/y/../x` and `/x`."""
    try:
        return normalize_path(path)
    except InvalidInputError:
        # Such as hdfs:/x, whose host is the client's default.
        return path
