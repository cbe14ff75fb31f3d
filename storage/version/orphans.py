"""Orphan files: files left by jobs that died, rollbacks and deleted branches. Purge: everything but the schemas goes.

Files in the directories of manifests, indexes, statistics, buckets and snapshots are deleted when no snapshot and no
tag of any branch refers to them, and when they are older than a limit. A younger file always stays: it may belong to a
job that has yet to commit. Where the files of a snapshot, a tag or a branch are unknown, only files are deleted that
none could need: temporary files that were never renamed, and guards of tags (storage.meta.snapshot.tag). The marks of
Spark's jobs (`snapshot/.write-…`) are deleted, too: a job without its mark fails, and its older files were deleted.
Source: documentation page `maintenance/manage-snapshots`, paimon-core's OrphanFilesClean.

**Purge** deletes everything of a table but its schemas. Branches, tags and consumers are deleted, then the rows, then
all snapshots but the newest, then all remaining files. Source: paimon-core's FileStoreTable.purgeFiles.

Files of a table in its directory, recognised by names, so that a drop deletes these and no foreign files.

Known are the directories of `storage.meta.paths` with the files that interbed and Java Paimon write into them, the
metadata that are published for Iceberg, temporary files that were never renamed, and partitions and buckets with data
files. A name of a data file begins with the table's prefix and contains a uuid. Other files count as the table's where
a version of it refers to them; everything beyond that is foreign. A link is always foreign: a table makes none.

A table's files outside of its directory (`data-file.external-paths`) are those that its versions refer to there.
"""

import logging
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from interbed.storage.base.errors import (
    CorruptFileError,
    InterbedError,
    InvalidInputError,
    SnapshotNotFoundError,
    UnsupportedVersionError,
    plain_errors,
)
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.io.api import FileIO, FileStatus
from interbed.storage.io.parallel import delete_all_files, in_parallel
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.core import DATA_FILE_PREFIX, CoreOptions
from interbed.storage.meta.paths import COMMIT_TURN, MAIN_BRANCH
from interbed.storage.meta.snapshot.expiry_mark import MARK
from interbed.storage.meta.snapshot.manager import ChangelogManager
from interbed.storage.meta.snapshot.progress import ConsumerManager
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.snapshot.tag import GUARD_PREFIX, TagManager
from interbed.storage.scan.starting_point import has_changelog
from interbed.storage.version.branch import BranchManager, clear_away
from interbed.storage.version.expire import SnapshotExpiry
from interbed.storage.version.references import (
    BRANCHES,
    BUCKET,
    CHECKSUM,
    DONE,
    HIDDEN,
    IN_TABLE,
    OF_BRANCH,
    OF_TABLE,
    PARTITION,
    UUID,
    References,
    all_branches,
    own_paths,
    place,
    tagged,
)

_log = logging.getLogger(__name__)

DEFAULT_AGE_MILLIS = 24 * 3_600_000
"""Default age below which files stay."""

_BUCKET_PREFIX = "bucket-"
_KNOWN_IN_SNAPSHOT_DIRECTORY = ("snapshot-", "EARLIEST", "LATEST", COMMIT_TURN, MARK)


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class OrphansResult:
    """Deleted files (in a dry run: those that would be deleted), and their size in bytes."""

    files: tuple[str, ...] = ()
    bytes: int = 0
    unjudged: tuple[str, ...] = ()
    """Snapshots, tags and branches whose files are unknown, so that all files stayed that they may need."""
    dry_run: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "deleted_files": list(self.files),
            "deleted_bytes": self.bytes,
            "unjudged": list(self.unjudged),
            "dry_run": self.dry_run,
        }

    def __str__(self) -> str:
        kept = f"; files stay because of what is damaged: {', '.join(self.unjudged)}" if self.unjudged else ""
        if not self.files:
            return f"no orphan files{kept}"
        verb = "would delete" if self.dry_run else "deleted"
        return f"{verb} {len(self.files)} orphan files of {self.bytes} bytes{kept}"


def age_limit(older_than_millis: int | None, clock: Callable[[], float], reason: str) -> int:
    """Return the time before which files are deleted, by default a day ago; `reason` ends the error for another one.

    The time is in milliseconds since the epoch. Raises InvalidInputError for a time in the future.
    """
    now = int(clock() * 1000)
    limit = now - DEFAULT_AGE_MILLIS if older_than_millis is None else older_than_millis
    if limit >= now:
        raise InvalidInputError(f"The time before which {reason}.")
    return limit


def remove_orphan_files(
    store: FileStore,
    *,
    older_than_millis: int | None = None,
    dry_run: bool = False,
    clock: Callable[[], float] = time.time,
) -> OrphansResult:
    """Delete the orphan files of a table that were written before a time.

    The time is in milliseconds since the epoch, by default a day ago. Raises InvalidInputError for a time in the
    future, StorageAccessError when some files could not be deleted.
    """
    limit = age_limit(
        older_than_millis,
        clock,
        "orphan files were written must be in the past: files that a job has yet to commit look like orphans",
    )
    if not dry_run:
        # Remains of a killed expiry or deletion are known, and need no age.
        SnapshotExpiry(store, clock=clock).finish()
        clear_away(store, limit)
    # Delete abandoned guards before the needed files are determined, because they keep files.
    temporary = {f.path: f for f in _temporary_files(store) if _is_older(f, limit)}
    if not dry_run:
        delete_all_files(store.file_io, sorted(temporary))
    # List files first, snapshots second: what is committed in between is named by a snapshot and kept.
    candidates = {f.path: f for f in _files(store) if _is_older(f, limit)}
    behind_links = candidates.keys() - own_paths(store, candidates)
    for path in behind_links:
        del candidates[path]
    needed = needed_files(store)
    for path in needed.files:
        candidates.pop(path, None)
    if needed.unjudged:
        candidates.clear()
        _log.warning(
            "Files of %s that nothing names stay: it is unknown which of them the %s needs. Repair or delete it.",
            store.location,
            ", ".join(sorted(needed.unjudged)),
        )
    found = {**candidates, **temporary}
    result = OrphansResult(
        files=tuple(sorted(found)),
        bytes=sum(f.size for f in found.values()),
        unjudged=tuple(sorted(needed.unjudged)),
        dry_run=dry_run,
    )
    if not dry_run:
        delete_all_files(store.file_io, sorted(candidates))
    return result


def _is_older(file: FileStatus, limit: int) -> bool:
    return file.modified_millis is not None and file.modified_millis < limit


@dataclass(slots=True)
class NeededFiles:
    """Files that versions of any branch refer to, and the errors of versions that can't be read, by name."""

    files: set[str] = field(default_factory=set)
    unjudged: dict[str, InterbedError] = field(default_factory=dict)

    def add(self, what: str, named: Callable[[], Iterable[str]]) -> None:
        """Add the files of a version; record an error when it can't be read."""
        try:
            self.files.update(named())
        except (CorruptFileError, UnsupportedVersionError) as error:
            self.unjudged[what] = error


def named_files(store: FileStore) -> set[str]:
    """Return the files that a snapshot, tag or changelog of any branch refers to.

    Raises CorruptFileError when that is unknown.
    """
    needed = needed_files(store)
    for what, error in sorted(needed.unjudged.items()):
        raise CorruptFileError(f"It is unknown which files of {store.location} the {what} needs: {error}") from error
    return needed.files


def needed_files(store: FileStore) -> NeededFiles:
    """Return the files that a snapshot, tag or changelog of any branch refers to, as far as that is known."""
    lines, damaged = all_branches(store)
    needed = NeededFiles(unjudged=dict(damaged))
    for line in lines:
        _add_history(line, needed, place(line))
    return needed


def _add_history(line: FileStore, needed: NeededFiles, where: str) -> None:
    references, known = References(line), set[str]()

    def add(what: str, snapshot: Snapshot, *, changelog: bool) -> None:
        def named() -> Iterator[str]:
            yield from references.metadata(snapshot, changelog=changelog)
            yield from references.named_data(snapshot, changelog=changelog, known=known)

        needed.add(where + what, named)

    # Snapshots that are being expired count as well: the expiry may be withdrawn.
    for position, number in enumerate(line.snapshots.stored_ids()):
        what = f"snapshot {number}"
        try:
            snapshot = line.snapshots.stored(number)
        except SnapshotNotFoundError:
            continue
        except (CorruptFileError, UnsupportedVersionError) as error:
            needed.unjudged[where + what] = error
            continue
        add(what, snapshot, changelog=position > 0 or has_changelog(line, snapshot))
        if where + what in needed.unjudged and not line.snapshots.exists(number):
            # Its files are missing because it has expired since.
            del needed.unjudged[where + what]
    # Tags come second: by then the manifests that they share with snapshots are known.
    tags = tagged(line)
    needed.unjudged.update(tags.unjudged_in(line))
    for snapshot in tags.snapshots:
        add(f"tag of snapshot {snapshot.id}", snapshot, changelog=False)
    # Changelogs come last: a changelog is written before its snapshot expires.
    _add_changelogs(line, references, needed, where)


def _add_changelogs(line: FileStore, references: References, needed: NeededFiles, where: str) -> None:
    changelogs = ChangelogManager(line.file_io, line.paths)
    for number in changelogs.ids():
        try:
            found = changelogs.find(number)
        except (CorruptFileError, UnsupportedVersionError) as error:
            needed.unjudged[f"{where}changelog {number}"] = error
            continue
        if found is not None:
            needed.add(f"{where}changelog {number}", partial(_of_changelog, references, found))


def _of_changelog(references: References, changelog: Snapshot) -> set[str]:
    return references.changelog_metadata(changelog) | references.named_changelog_data(changelog)


def _temporary_files(store: FileStore) -> Iterator[FileStatus]:
    """Yield guards, and temporary files of the metadata that were never renamed."""
    for line in all_branches(store)[0]:
        paths = line.paths
        named = (paths.snapshot(1), paths.schema(0), paths.tag("x"), paths.consumer("x"), paths.changelog(1))
        for file in (*named, paths.epoch("x"), paths.position("x"), paths.log_position):
            for found in _listed(store, file.rpartition("/")[0]):
                if found.name.startswith(GUARD_PREFIX) or (found.name.startswith(".") and found.name.endswith(".tmp")):
                    yield found


def _files(store: FileStore) -> Iterator[FileStatus]:
    """Yield the files in all directories of a table's files, on every branch."""
    paths = store.paths
    for directory in ("manifest", "index", "statistics"):
        yield from _listed(store, f"{paths.location}/{directory}")
    for line in all_branches(store)[0]:
        for file in _listed(store, line.paths.snapshot_directory):
            if not file.name.startswith(_KNOWN_IN_SNAPSHOT_DIRECTORY):
                yield file
    root = f"{paths.location}/{paths.data_directory}" if paths.data_directory else paths.location
    yield from _in_buckets(store, root, len(paths.partition_names))


def _in_buckets(store: FileStore, directory: str, levels: int) -> Iterator[FileStatus]:
    for entry in store.file_io.list(directory):
        if not entry.is_directory or entry.is_link:
            continue
        if levels and "=" in entry.name:
            yield from _in_buckets(store, entry.path, levels - 1)
        elif not levels and entry.name.startswith(_BUCKET_PREFIX):
            yield from _listed(store, entry.path)


def _listed(store: FileStore, directory: str) -> Iterator[FileStatus]:
    return (entry for entry in store.file_io.list(directory) if not entry.is_directory)


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


@dataclass(slots=True)
class OwnFiles:
    """Content of a table's directory: own files, own directories, and the paths of foreign entries.

    Each directory comes after its parent. Foreign directories are not listed.
    """

    files: list[str] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def add(self, other: "OwnFiles") -> None:
        """Add the content of another directory."""
        self.files += other.files
        self.directories += other.directories
        self.foreign += other.foreign


def own_files(file_io: FileIO, location: str, opened: Callable[[], FileStore]) -> OwnFiles:
    """Return the content of a table's directory, which may be damaged.

    `opened` opens the table where names do not suffice. Raises StorageAccessError.
    """
    return _DirectoryWalk(file_io, location.rstrip("/"), opened).result()


class _DirectoryWalk:
    """Walk through the directory of a table, a level at a time."""

    def __init__(self, file_io: FileIO, location: str, opened: Callable[[], FileStore]) -> None:
        self._file_io = file_io
        self._location = location
        self._opened = opened
        self._found = OwnFiles()
        self._doubtful: list[FileStatus] = []
        self._prefixes = {DATA_FILE_PREFIX, "changelog-", "index-"}
        self._data_directories: set[str] = set()
        self._data_file = self._pattern()

    def result(self) -> OwnFiles:
        """Return the content: first by names alone, then by the table's metadata."""
        self._walk([self._location])
        if self._doubtful:
            doubtful, self._doubtful = self._doubtful, []
            self._judge(doubtful)
        return self._found

    def _walk(self, directories: list[str]) -> None:
        while directories:
            listed = in_parallel(self._file_io, [partial(self._file_io.list, path) for path in directories])
            directories = []
            for entry in (entry for some in listed for entry in some):
                relative = entry.path[len(self._location) + 1 :]
                if entry.is_link:
                    self._found.foreign.append(entry.path)
                elif entry.is_directory and self._is_own_directory(relative):
                    self._found.directories.append(entry.path)
                    directories.append(entry.path)
                elif not entry.is_directory and self._is_own_file(relative):
                    self._found.files.append(entry.path)
                else:
                    self._doubtful.append(entry)

    def _judge(self, doubtful: list[FileStatus]) -> None:
        """Decide by the table's metadata about entries without a known name."""
        named = self._learn()
        self._data_file = self._pattern()
        inner: list[str] = []
        for entry in doubtful:
            relative = entry.path[len(self._location) + 1 :]
            if entry.is_directory and self._is_own_directory(relative):
                self._found.directories.append(entry.path)
                inner.append(entry.path)
            elif not entry.is_directory and (entry.path in named or self._is_own_file(relative)):
                self._found.files.append(entry.path)
            else:
                self._found.foreign.append(entry.path)
        self._walk(inner)
        for entry in self._doubtful:
            (self._found.files if entry.path in named else self._found.foreign).append(entry.path)

    def _learn(self) -> set[str]:
        """Learn prefixes and directories of data files from all schemas. Return the files that a version refers to."""
        try:
            store = self._opened()
            for line in all_branches(store)[0]:
                for number in line.schemas.ids():
                    options = CoreOptions(line.schemas.schema(number).options)
                    self._prefixes |= {options.data_file_prefix, options.changelog_file_prefix}
                    self._data_directories |= {options.data_file_directory or ""}
            return needed_files(store).files
        except InterbedError:
            # Entries that are not known are foreign.
            return set()

    def _pattern(self) -> re.Pattern[str]:
        prefixes = "|".join(map(re.escape, sorted(self._prefixes)))
        return re.compile(rf"(?:{prefixes}).*{UUID}-\d+(?:\..+)?", re.DOTALL)

    def _is_own_directory(self, relative: str) -> bool:
        parts = relative.split("/")
        if parts[0] == "branch":
            if len(parts) < 3:
                return len(parts) == 1 or BRANCHES.fullmatch(parts[1]) is not None
            return "/".join(parts[2:]) in OF_BRANCH
        return relative in OF_TABLE or self._is_data_directory(parts)

    def _is_data_directory(self, parts: list[str]) -> bool:
        """Return whether it is a partition, a bucket, or a parent of those."""
        for directory in self._data_directories:
            above = directory.split("/") if directory else []
            if parts == above[: len(parts)]:
                return True
            if above and parts[: len(above)] == above:
                parts = parts[len(above) :]
                break
        return all(map(PARTITION.fullmatch, parts[:-1])) and (
            PARTITION.fullmatch(parts[-1]) is not None or BUCKET.fullmatch(parts[-1]) is not None
        )

    def _is_own_file(self, relative: str) -> bool:
        directory, _, name = relative.rpartition("/")
        if HIDDEN.fullmatch(name):
            return True
        if (checksum := CHECKSUM.fullmatch(name)) is not None:
            name = checksum[1]
        if not directory:
            return name in IN_TABLE
        parts = directory.split("/")
        kinds = OF_TABLE
        if parts[0] == "branch":
            directory, kinds = "/".join(parts[2:]), OF_BRANCH
        if (pattern := kinds.get(directory)) is not None:
            return pattern.fullmatch(name) is not None
        if BUCKET.fullmatch(parts[-1]):
            return self._data_file.fullmatch(name) is not None
        return name == DONE and PARTITION.fullmatch(parts[-1]) is not None


def outside_of(store: FileStore) -> tuple[tuple[str, ...], set[str]]:
    """Return the external paths in schemas of any branch, and the files in them that a version of any branch refers to.

    Versions that can't be read are logged. Raises CorruptFileError, InvalidOptionError and StorageAccessError.
    """
    roots: dict[str, None] = {}
    for line in all_branches(store)[0]:
        for number in line.schemas.ids():
            roots.update(dict.fromkeys(CoreOptions(line.schemas.schema(number).options).external_roots))
    if not roots:
        return (), set()
    needed = needed_files(store)
    for what, error in sorted(needed.unjudged.items()):
        _log.warning("It is unknown which files outside of %s the %s has: %s", store.location, what, error)
    own = store.location.rstrip("/") + "/"
    return tuple(roots), {path for path in needed.files if not path.startswith(own)}
