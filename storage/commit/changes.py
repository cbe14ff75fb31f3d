"""Changes that commit messages carry, as manifest entries, the paths of their files, and the check whether they still
fit the table that they are committed to. Pure.

`owned_paths` lists the files that exist only for the messages: an abort deletes them. `new_paths` lists the files that
the next snapshot is the first to refer to: they are made durable before the snapshot is created.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from interbed.storage.base.bucket_id import BucketId, by_bucket
from interbed.storage.base.errors import CommitConflictError
from interbed.storage.base.types.data_type import DataType
from interbed.storage.lsm.levels import key_ranks, order_in_tree
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta, FileIdentifier, FileKind, ManifestEntry
from interbed.storage.meta.manifest.index_manifest import DELETION_VECTORS, IndexFileMeta, IndexManifestEntry
from interbed.storage.meta.snapshot.snapshot import CommitKind
from interbed.storage.write.commit_message import CommitMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class PartChanges:
    """Changes of one snapshot: data files, changelog files and index files.

    `looked_up` names, by bucket, the files above level 0 in which a compaction looked up keys; buckets without look-ups
    are left out.
    """

    files: tuple[ManifestEntry, ...] = ()
    changelog: tuple[ManifestEntry, ...] = ()
    indexes: tuple[IndexManifestEntry, ...] = ()
    looked_up: Mapping[BucketId, frozenset[str]] = field(default_factory=dict[BucketId, frozenset[str]])

    def __bool__(self) -> bool:
        return bool(self.files or self.changelog or self.indexes)

    @property
    def take_rows_away(self) -> bool:
        """Whether files, or single rows of them by deletion vectors, are removed."""
        return any(e.kind is FileKind.DELETE for e in self.files) or self.change_deletion_vectors

    @property
    def change_deletion_vectors(self) -> bool:
        """Whether deletion vectors are added or removed."""
        return any(e.file.index_type == DELETION_VECTORS for e in self.indexes)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageChanges:
    """Changes of messages: `append` by new records and rewritten files, `compact` by compaction."""

    append: PartChanges
    compact: PartChanges


class OwnedFile(NamedTuple):
    """Data file and its bucket."""

    bucket_id: BucketId
    file: DataFileMeta


def collect_changes(messages: Iterable[CommitMessage]) -> MessageChanges:
    """Return the entries of all messages. As in Paimon, rewritten data files are deleted after the additions."""
    append: list[ManifestEntry] = []
    changelog: list[ManifestEntry] = []
    compact: list[ManifestEntry] = []
    compact_changelog: list[ManifestEntry] = []
    indexes: list[IndexManifestEntry] = []
    compact_indexes: list[IndexManifestEntry] = []
    looked_up: dict[BucketId, frozenset[str]] = {}
    for m in messages:
        append += _entries(m, FileKind.ADD, m.data.new_files)
        append += _entries(m, FileKind.DELETE, m.data.deleted_files)
        changelog += _entries(m, FileKind.ADD, m.data.changelog_files)
        compact += _entries(m, FileKind.DELETE, m.compaction.before)
        compact += _entries(m, FileKind.ADD, m.compaction.after)
        compact_changelog += _entries(m, FileKind.ADD, m.compaction.changelog)
        if m.compaction.looked_up is not None:
            names = m.compaction.looked_up
            looked_up[m.bucket_id] = names & looked_up.get(m.bucket_id, names)
        indexes += _index_entries(m, FileKind.DELETE, m.data.deleted_index_files)
        indexes += _index_entries(m, FileKind.ADD, m.data.new_index_files)
        compact_indexes += _index_entries(m, FileKind.DELETE, m.compaction.deleted_index_files)
        compact_indexes += _index_entries(m, FileKind.ADD, m.compaction.new_index_files)
    return MessageChanges(
        append=PartChanges(files=tuple(append), changelog=tuple(changelog), indexes=tuple(indexes)),
        compact=PartChanges(
            files=tuple(compact),
            changelog=tuple(compact_changelog),
            indexes=tuple(compact_indexes),
            looked_up=looked_up,
        ),
    )


def record_delta(entries: Iterable[ManifestEntry]) -> int:
    """Return the number of records added less that of records deleted, unmerged."""
    return sum(e.file.row_count if e.kind is FileKind.ADD else -e.file.row_count for e in entries)


def changed_partitions(entries: Iterable[ManifestEntry]) -> frozenset[bytes]:
    """Return the partitions of the entries."""
    return frozenset(e.partition for e in entries)


def owned_files(messages: Sequence[CommitMessage], *, compact_only: bool = False) -> list[OwnedFile]:
    """Return the files that were written for these messages, not merely moved to another level.

    `compact_only` leaves out the files of new records, which have a snapshot of their own.
    """
    written = {f.file_name for m in messages for f in m.data.new_files}
    taken = {f.file_name for m in messages for f in (*m.compaction.before, *m.data.deleted_files)}
    owned: dict[str, OwnedFile] = {}
    for m in messages:
        compacted = (*m.compaction.after, *m.compaction.changelog)
        files = compacted if compact_only else (*m.data.new_files, *m.data.changelog_files, *compacted)
        for f in files:
            moved = f.file_name in taken and f.file_name not in written
            if not moved and not (compact_only and f.file_name in written):
                owned.setdefault(f.file_name, OwnedFile(m.bucket_id, f))
    return list(owned.values())


def owned_index_files(
    messages: Sequence[CommitMessage], *, compact_only: bool = False
) -> list[tuple[BucketId, IndexFileMeta]]:
    """Return the index files that were written for these messages, each with its bucket."""
    return [
        (m.bucket_id, f)
        for m in messages
        for f in (*(() if compact_only else m.data.new_index_files), *m.compaction.new_index_files)
    ]


def upgrade_to_level(
    entries: Sequence[ManifestEntry], key_types: Sequence[DataType], level: int
) -> tuple[ManifestEntry, ...]:
    """Return new level-0 files with the given level, in every bucket where their key ranges do not overlap.

    After an overwrite no older files lie below them, so that readers need not merge them.
    """
    if any(e.kind is not FileKind.ADD or e.file.level > 0 or e.bucket < 0 for e in entries):
        return tuple(entries)
    result: list[ManifestEntry] = []
    for bucket in by_bucket(entries).values():
        if overlapping_pair([e.file for e in bucket], key_types) is None:
            result += [replace(e, file=e.file.upgraded(level)) for e in bucket]
        else:
            result += bucket
    return tuple(result)


def overlapping_pair(
    files: Sequence[DataFileMeta], key_types: Sequence[DataType]
) -> tuple[DataFileMeta, DataFileMeta] | None:
    """Return two files whose key ranges overlap, or None."""
    if len(files) < 2:
        return None
    least, greatest = key_ranks(files, key_types)
    order = sorted(range(len(files)), key=lambda i: (least[i], greatest[i]))
    for left, right in pairwise(order):
        if greatest[left] >= least[right]:
            return files[left], files[right]
    return None


def pair_across(
    files: Sequence[DataFileMeta], others: Sequence[DataFileMeta], key_types: Sequence[DataType]
) -> tuple[DataFileMeta, DataFileMeta] | None:
    """Return one file of each list whose key ranges overlap, or None."""
    if not files or not others:
        return None
    least, greatest = key_ranks([*files, *others], key_types)
    count = len(files)
    for i, file in enumerate(files):
        met = np.flatnonzero((least[count:] <= greatest[i]) & (greatest[count:] >= least[i]))
        if len(met):
            return file, others[int(met[0])]
    return None


def _entries(message: CommitMessage, kind: FileKind, files: Iterable[DataFileMeta]) -> list[ManifestEntry]:
    return [
        ManifestEntry(
            kind=kind,
            partition=message.partition,
            bucket=message.bucket,
            total_buckets=message.total_buckets,
            file=file,
        )
        for file in files
    ]


def _index_entries(message: CommitMessage, kind: FileKind, files: Iterable[IndexFileMeta]) -> list[IndexManifestEntry]:
    return [
        IndexManifestEntry(kind=kind, partition=message.partition, bucket=message.bucket, file=file) for file in files
    ]


def owned_paths(store: FileStore, messages: Sequence[CommitMessage], *, compact_only: bool = False) -> list[str]:
    """Return the paths of owned data files, of their extra files and of index files; see owned_files."""
    paths = [
        store.index_path(bucket_id, file) for bucket_id, file in owned_index_files(messages, compact_only=compact_only)
    ]
    for bucket_id, file in owned_files(messages, compact_only=compact_only):
        paths += file.paths_in(store.paths.bucket_directory(bucket_id))
    return paths


def new_paths(store: FileStore, changes: PartChanges) -> list[str]:
    """Return the paths of data files, of their extra files and of index files that the changes add to the table.

    A file that the changes both remove and add only moves to another level; its extra files may be new.
    """
    moved = {path for entry in changes.files if entry.kind is FileKind.DELETE for path in _paths(store, entry)}
    added = (e for e in (*changes.files, *changes.changelog) if e.kind is FileKind.ADD)
    paths = [path for entry in added for path in _paths(store, entry) if path not in moved]
    return [*paths, *_index_paths(store, changes.indexes)]


def _paths(store: FileStore, entry: ManifestEntry) -> list[str]:
    return entry.file.paths_in(store.paths.bucket_directory(entry.bucket_id))


def _index_paths(store: FileStore, entries: Iterable[IndexManifestEntry]) -> list[str]:
    return [store.index_path(BucketId(e.partition, e.bucket), e.file) for e in entries if e.kind is FileKind.ADD]


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


def check_order(
    base: Iterable[ManifestEntry],
    delta: Iterable[ManifestEntry],
    *,
    key_types: Sequence[DataType],
    place: Callable[[bytes, int], str],
) -> None:
    """Raise CommitConflictError when a compaction moves rows below older ones with the same sequence numbers.

    Writers that begin together use the same numbers; of two such rows the file's place in the tree decides which one is
    newer (`levels.order_in_tree`). A file that the compaction has not seen may be older than one that it moves. It
    would be the newer one afterwards, and readers would see its row instead.
    """
    moved: dict[BucketId, list[DataFileMeta]] = {}
    target: dict[BucketId, int] = {}
    removed: set[FileIdentifier] = set()
    for entry in delta:
        if entry.kind is FileKind.DELETE:
            removed.add(entry.identifier)
            moved.setdefault(entry.bucket_id, []).append(entry.file)
        else:
            target[entry.bucket_id] = max(entry.file.level, target.get(entry.bucket_id, 0))
    for entry in base if target else ():
        unseen, bucket_id = entry.file, entry.bucket_id
        if unseen.level >= target.get(bucket_id, 0) or entry.identifier in removed:
            continue
        newer = [
            f
            for f in moved.get(bucket_id, ())
            if order_in_tree(f) > order_in_tree(unseen)
            and f.min_sequence_number <= unseen.max_sequence_number
            and unseen.min_sequence_number <= f.max_sequence_number
        ]
        pair = pair_across(newer, [unseen], key_types) if newer else None
        if pair is not None:
            raise CommitConflictError(
                f"The file {unseen.file_name} was added to level {unseen.level} of {place(*bucket_id)} while "
                f"{pair[0].file_name} was compacted, and may hold older rows of the same keys. Compact again."
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
