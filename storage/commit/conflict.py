"""Check whether changes still fit the table that they are committed to. Pure: values in, an error or nothing out."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import CommitConflictError
from interbed.storage.base.types.data_type import DataType
from interbed.storage.commit.changes import overlapping_pair, pair_across
from interbed.storage.meta.manifest.entry import DataFileMeta, FileIdentifier, FileKind, ManifestEntry
from interbed.storage.meta.manifest.index_manifest import IndexManifestEntry
from interbed.storage.meta.snapshot.snapshot import CommitKind


class DuplicateFileError(CommitConflictError):
    """Conflict with a file that is in the table already: it was committed before, so it must not be deleted."""


def check_conflicts(
    base: Sequence[ManifestEntry],
    delta: Sequence[ManifestEntry],
    *,
    kind: CommitKind,
    key_types: Sequence[DataType],
    place: Callable[[bytes, int], str],
) -> None:
    """Raise CommitConflictError unless the changes fit the table.

    `base` are the live files of at least the changed partitions; `key_types` those of the trimmed primary key (empty
    for append tables); `place` names a partition and bucket in messages. Checks that a file to be deleted still exists,
    that no file is added twice, that a partition keeps its bucket count (except when overwritten), and that files of
    one level above 0 do not overlap.
    """
    if kind is not CommitKind.OVERWRITE:
        check_total_buckets([*base, *delta], place=place)
    live = {e.identifier: e for e in base}
    check_delta(delta, place=place)
    # Apply deletions first: a file may be added again, at another level, only after its deletion.
    for entry in sorted(delta, key=lambda e: e.kind is FileKind.ADD):
        if entry.kind is FileKind.DELETE:
            if live.pop(entry.identifier, None) is None:
                raise CommitConflictError(
                    f"The file {entry.file.file_name} of {place(entry.partition, entry.bucket)} is not in the table "
                    "any more: another writer compacted or overwrote it. Read the table again and redo the work."
                )
        elif entry.identifier in live:
            raise DuplicateFileError(
                f"The file {entry.file.file_name} of {place(entry.partition, entry.bucket)} is in the table already; "
                "these changes were committed before."
            )
        else:
            live[entry.identifier] = entry
    if key_types:
        _check_levels(live, delta, key_types, place)


def check_rewritten_schemas(changes: Iterable[ManifestEntry], place: Callable[[bytes, int], str]) -> None:
    """Raise CommitConflictError when the files that replace others in a bucket all have an older schema.

    The values of columns that were added since would be lost.
    """
    removed: dict[BucketId, dict[str, int]] = {}
    added: dict[BucketId, dict[str, int]] = {}
    for entry in changes:
        target = added if entry.kind is FileKind.ADD else removed
        target.setdefault(entry.bucket_id, {})[entry.file.file_name] = entry.file.schema_id
    for bucket_id, before in removed.items():
        after = added.get(bucket_id, {})
        # Files that are only moved to another level keep their rows.
        old = max((schema for name, schema in before.items() if name not in after), default=None)
        new = max((schema for name, schema in after.items() if name not in before), default=None)
        if old is not None and new is not None and new < old:
            raise CommitConflictError(
                f"Files of {place(bucket_id.partition, bucket_id.bucket)} with schema {old} would be replaced by files "
                f"with the older schema {new}: values of columns that were added since would be lost. Nothing was "
                "changed; open the table again and redo the work."
            )


def check_delta(delta: Iterable[ManifestEntry], *, place: Callable[[bytes, int], str]) -> None:
    """Raise CommitConflictError when the changes name one file twice.

    Readers would lose the file or return its rows twice.
    """
    seen: set[FileIdentifier] = set()
    for entry in delta:
        if entry.identifier in seen:
            raise CommitConflictError(
                f"The changes name the file {entry.file.file_name} of {place(entry.partition, entry.bucket)} twice."
            )
        seen.add(entry.identifier)


def check_vectors(
    base: Iterable[ManifestEntry], delta: Iterable[ManifestEntry], indexes: Iterable[IndexManifestEntry]
) -> None:
    """Raise CommitConflictError when a new deletion vector belongs to a file that is not a live file of the table."""
    marked = {v.data_file_name for e in indexes if e.kind is FileKind.ADD for v in e.file.deletion_vectors or ()}
    if not marked:
        return
    live = {e.file.file_name for e in base}
    for entry in delta:
        if entry.kind is FileKind.ADD:
            live.add(entry.file.file_name)
        else:
            live.discard(entry.file.file_name)
    if not live.issuperset(marked):
        raise CommitConflictError(
            f"The file {min(marked - live)} is not in the table any more: another writer compacted or overwrote it "
            "while rows of it were deleted. Read the table again and redo the work."
        )


def check_lookups(
    base: Iterable[ManifestEntry],
    delta: Iterable[ManifestEntry],
    looked_up: Mapping[BucketId, frozenset[str]],
    *,
    key_types: Sequence[DataType],
    place: Callable[[bytes, int], str],
) -> None:
    """Raise CommitConflictError when keys that a compaction moves out of level 0 may be in files that it did not read.

    `looked_up` names, by bucket, the files above level 0 that the compaction read. Among those a key has at most one
    row, and the compaction has merged or marked it. A file that was added above level 0 since may hold a second row of
    a new key, which readers would return as well. Keys that were above level 0 before need no check: a row that another
    writer has replaced is marked by a deletion vector, and a change of the vectors is a conflict of its own.
    """
    taken: dict[BucketId, list[DataFileMeta]] = {}
    removed: set[FileIdentifier] = set()
    for entry in delta:
        if entry.kind is FileKind.DELETE:
            removed.add(entry.identifier)
            if entry.file.level == 0 and entry.bucket_id in looked_up:
                taken.setdefault(entry.bucket_id, []).append(entry.file)
    unseen: dict[BucketId, list[DataFileMeta]] = {}
    for entry in base if taken else ():
        bucket_id = entry.bucket_id
        if bucket_id in taken and entry.file.level > 0 and entry.identifier not in removed:
            if entry.file.file_name in looked_up[bucket_id]:
                continue
            unseen.setdefault(bucket_id, []).append(entry.file)
    for bucket_id, files in unseen.items():
        pair = pair_across(taken[bucket_id], files, key_types)
        if pair is not None:
            raise CommitConflictError(
                f"The file {pair[1].file_name} was added to level {pair[1].level} of {place(*bucket_id)} while "
                f"{pair[0].file_name} was compacted, and may hold rows of the same keys. Compact again."
            )


def check_total_buckets(entries: Iterable[ManifestEntry], *, place: Callable[[bytes, int], str]) -> None:
    """Raise CommitConflictError when files of one partition were written for different bucket counts."""
    buckets: dict[bytes, int] = {}
    for entry in entries:
        # Values below 1 mean dynamic or absent buckets and files of old writers.
        if entry.total_buckets < 1:
            continue
        known = buckets.setdefault(entry.partition, entry.total_buckets)
        if known != entry.total_buckets:
            raise CommitConflictError(
                f"{place(entry.partition, entry.bucket)} has files for {known} buckets, and the changes are for "
                f"{entry.total_buckets}; a partition changes its number of buckets only by overwriting it (rescale)."
            )


def _check_levels(
    live: dict[FileIdentifier, ManifestEntry],
    delta: Sequence[ManifestEntry],
    key_types: Sequence[DataType],
    place: Callable[[bytes, int], str],
) -> None:
    # Only a level that gains a file can get an overlap.
    touched = {(e.partition, e.bucket, e.file.level) for e in delta if e.kind is FileKind.ADD and e.file.level > 0}
    levels: dict[tuple[bytes, int, int], list[DataFileMeta]] = {key: [] for key in touched}
    for entry in live.values():
        key = (entry.partition, entry.bucket, entry.file.level)
        if key in levels:
            levels[key].append(entry.file)
    for (partition, bucket, level), files in levels.items():
        pair = overlapping_pair(files, key_types)
        if pair is not None:
            raise CommitConflictError(
                f"Level {level} of {place(partition, bucket)} would hold the overlapping files {pair[0].file_name} and "
                f"{pair[1].file_name}: another writer compacted it. Read the table again and redo the work."
            )
