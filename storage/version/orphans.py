"""Orphan files: what jobs that died, rollbacks and deleted branches left behind.

Every file in the directories of manifests, indexes, statistics, buckets and snapshots that no snapshot and no tag of
any branch names, and that is older than a limit, goes. A file younger than the limit stays always: a job that has yet
to commit names it nowhere. The marks of Spark's jobs
(`snapshot/.write-…`) go, too: a job without its mark fails, and its older files are gone. Source: documentation page
`maintenance/manage-snapshots`, paimon-core's OrphanFilesClean.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.fileio.api import FileStatus
from interbed.storage.meta.snapshot.changelog import ChangelogManager
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.store import TableStore
from interbed.storage.version.branch_stores import all_branches, tagged_snapshots
from interbed.storage.version.references import References

DEFAULT_AGE_MILLIS = 24 * 3_600_000
"""Younger files stay by default."""

_BUCKET_PREFIX = "bucket-"
_KNOWN_IN_SNAPSHOT_DIRECTORY = ("snapshot-", "EARLIEST", "LATEST", ".commit-turn")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphansResult:
    """The files that went (would go, in a dry run), and their bytes."""

    files: tuple[str, ...] = ()
    bytes: int = 0
    dry_run: bool = False

    def to_json(self) -> dict[str, Any]:
        """The result as JSON values."""
        return {"deleted_files": list(self.files), "deleted_bytes": self.bytes, "dry_run": self.dry_run}

    def __str__(self) -> str:
        if not self.files:
            return "no orphan files"
        verb = "would delete" if self.dry_run else "deleted"
        return f"{verb} {len(self.files)} orphan files of {self.bytes} bytes"


def remove_orphan_files(
    store: TableStore,
    *,
    older_than_millis: int | None = None,
    dry_run: bool = False,
    clock: Callable[[], float] = time.time,
) -> OrphansResult:
    """Delete the orphan files of a table that were written before a time (milliseconds since the epoch), by
    default a day ago.

    Raises InvalidInputError for a time that is yet to come, CorruptFileError when it is unknown which files are
    needed (nothing is deleted then).
    """
    now = int(clock() * 1000)
    limit = now - DEFAULT_AGE_MILLIS if older_than_millis is None else older_than_millis
    if limit >= now:
        raise InvalidInputError(
            "The time before which orphan files were written must be in the past: files that a job has yet to commit "
            "look like orphans."
        )
    # Files first, snapshots second: what is committed in between is named by a snapshot and kept.
    candidates = {f.path: f for f in _files(store) if f.modified_millis is not None and f.modified_millis < limit}
    for path in named_files(store):
        candidates.pop(path, None)
    result = OrphansResult(
        files=tuple(sorted(candidates)), bytes=sum(f.size for f in candidates.values()), dry_run=dry_run
    )
    if not dry_run:
        store.file_io.delete_quietly(result.files)
    return result


def named_files(store: TableStore) -> Iterator[str]:
    """The files that a snapshot, tag or changelog of any branch names, some several times; raises CorruptFileError."""
    for line in all_branches(store):
        references, known = References(line), set[str]()
        for snapshot, with_changelog in _snapshots(line):
            yield from references.metadata(snapshot, changelog=with_changelog)
            yield from references.named_data(snapshot, changelog=with_changelog, known=known)
        # Changelogs come last: one whose snapshot expires meanwhile was noted before that went.
        for changelog in ChangelogManager(line.file_io, line.paths).all():
            yield from references.changelog_metadata(changelog)
            yield from references.named_changelog_data(changelog)


def _snapshots(line: TableStore) -> Iterator[tuple[Snapshot, bool]]:
    """The snapshots and tags of a line, each with whether it names a changelog that is still there."""
    for number, snapshot in enumerate(line.snapshots.all()):
        yield snapshot, number > 0 or _has_changelog(line, snapshot)
    # Tags come second: by then the manifests that they share with snapshots are known.
    for snapshot in tagged_snapshots(line):
        yield snapshot, False


def _has_changelog(line: TableStore, snapshot: Snapshot) -> bool:
    """Whether the first snapshot of a line still has its changelog: it may be that of the line that it branched off
    from, where the snapshot expired, and its changelog with it.
    """
    changelog = snapshot.changelog_manifest_list
    return changelog is not None and line.file_io.exists(line.paths.manifest(changelog))


def _files(store: TableStore) -> Iterator[FileStatus]:
    """The files in all directories where a table's files lie, on every branch."""
    paths = store.paths
    for directory in ("manifest", "index", "statistics"):
        yield from _listed(store, f"{paths.location}/{directory}")
    for line in all_branches(store):
        for file in _listed(store, line.paths.latest_hint.rpartition("/")[0]):
            if not file.name.startswith(_KNOWN_IN_SNAPSHOT_DIRECTORY):
                yield file
    root = f"{paths.location}/{paths.data_directory}" if paths.data_directory else paths.location
    yield from _in_buckets(store, root, len(paths.partition_names))


def _in_buckets(store: TableStore, directory: str, levels: int) -> Iterator[FileStatus]:
    for entry in store.file_io.list(directory):
        if not entry.is_directory:
            continue
        if levels and "=" in entry.name:
            yield from _in_buckets(store, entry.path, levels - 1)
        elif not levels and entry.name.startswith(_BUCKET_PREFIX):
            yield from _listed(store, entry.path)


def _listed(store: TableStore, directory: str) -> Iterator[FileStatus]:
    return (entry for entry in store.file_io.list(directory) if not entry.is_directory)
