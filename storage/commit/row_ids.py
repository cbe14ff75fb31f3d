"""Ids and sequence numbers of the new rows of a commit, in a table with `row-tracking.enabled`. Pure.

They depend on the snapshot that the commit builds on, so each attempt assigns them again. A new file gets the next
unused id as that of its first row; the snapshot has the id after the last row. The sequence number of new and changed
rows is the id of the snapshot. A writer leaves 0 for it: as the least number of a file in which all rows are new or
changed, and as the greatest of a file in which some are. Source: Paimon's RowTrackingCommitUtils.

A file with columns of rows that are in the table names their ids itself. `check_row_ranges` compares such files, and
those of compactions, with the files of the newest snapshot. Source: Paimon's DataEvolutionConflictDetection.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from interbed.storage.base.bucket_id import by_bucket
from interbed.storage.base.errors import CommitConflictError
from interbed.storage.commit.basis import RowsRead
from interbed.storage.lsm.column_groups import first_row_id, written_ids
from interbed.storage.meta.manifest.entry import DataFileMeta, FileKind, FileSource, ManifestEntry
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.meta.snapshot.snapshot import FIRST_SNAPSHOT_ID, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedEntries:
    """Entries of a commit with the ids of their rows, and the first id that no row has afterwards."""

    entries: tuple[ManifestEntry, ...]
    next_row_id: int | None


def numbered_entries(delta: Sequence[ManifestEntry], latest: Snapshot | None, *, by_partition: bool) -> NumberedEntries:
    """Return the changes of a commit on top of a snapshot, with first row ids and sequence numbers of added files.

    With `by_partition` the changes of a partition are adjacent, so that their ids are without gaps.
    """
    snapshot_id = FIRST_SNAPSHOT_ID if latest is None else latest.id + 1
    following = 0 if latest is None else latest.next_row_id or 0
    entries: list[ManifestEntry] = []
    for entry in _grouped(delta) if by_partition else delta:
        file = entry.file
        if entry.kind is FileKind.ADD:
            file = _with_sequences(file, snapshot_id)
            if _has_new_rows(file):
                file = replace(file, first_row_id=following)
                following += file.row_count
        entries.append(entry if file is entry.file else replace(entry, file=file))
    return NumberedEntries(entries=tuple(entries), next_row_id=following)


def _grouped(delta: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    groups: dict[bytes, list[ManifestEntry]] = {}
    for entry in delta:
        groups.setdefault(entry.partition, []).append(entry)
    return [entry for group in groups.values() for entry in group]


def _has_new_rows(file: DataFileMeta) -> bool:
    # Rows of a compaction and of a rewritten file bring their ids along.
    return file.file_source is not FileSource.COMPACT and file.first_row_id is None and not file.stores_row_ids


def _with_sequences(file: DataFileMeta, snapshot_id: int) -> DataFileMeta:
    if file.min_sequence_number == 0:
        return replace(file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id)
    if file.max_sequence_number == 0:
        return replace(file, max_sequence_number=snapshot_id)
    return file


def brings_row_ids(delta: Iterable[ManifestEntry]) -> bool:
    """Return whether files are added whose rows are in the table already, by the ids in their metadata."""
    return any(e.kind is FileKind.ADD and e.file.first_row_id is not None for e in delta)


def check_row_ranges(
    base: Iterable[ManifestEntry],
    delta: Sequence[ManifestEntry],
    *,
    read: RowsRead | None,
    schema_of: Callable[[int], TableSchema],
    place: Callable[[bytes, int], str],
) -> None:
    """Raise CommitConflictError unless files that bring their row ids along fit the files of the table.

    `base` are the live files of at least the changed buckets, `delta` has no ids of new rows yet. Each file must have
    the ids of all files that share some with it, afterwards. Files with columns of rows (`read`) need these rows in the
    table, and no newer values of the columns from which theirs were computed.
    """
    changed = {e.identifier for e in delta if e.kind is FileKind.DELETE}
    added = by_bucket(e for e in delta if e.kind is FileKind.ADD and e.file.first_row_id is not None)
    live = by_bucket(e for e in base if e.bucket_id in added and e.identifier not in changed)
    for bucket_id, new in added.items():
        files = sorted((e.file for e in live.get(bucket_id, ())), key=first_row_id)
        ends = [first_row_id(f) + f.row_count for f in files]
        # The ends ascend as well: files share all of their ids or none.
        for file in (e.file for e in new):
            start = first_row_id(file)
            first = bisect_left(ends, start + 1)
            shared = []
            for other in files[first:]:
                if first_row_id(other) >= start + file.row_count:
                    break
                shared.append(other)
            problem = _range_problem(file, shared, read, schema_of)
            if problem is not None:
                raise CommitConflictError(
                    f"{problem} in {place(*bucket_id)} since they were read. Nothing was changed; read the table again "
                    "and redo the work (run the statement again)."
                )


def _range_problem(
    file: DataFileMeta,
    shared: Sequence[DataFileMeta],
    read: RowsRead | None,
    schema_of: Callable[[int], TableSchema],
) -> str | None:
    rows = f"The {file.row_count} rows from row id {file.first_row_id} on"
    if any((f.first_row_id, f.row_count) != (file.first_row_id, file.row_count) for f in shared):
        return f"{rows} were joined with others"
    if read is None or read.columns is None:
        return None
    if not shared:
        return f"{rows} were deleted or moved"
    for other in shared:
        newer = other.max_sequence_number > read.snapshot.id
        if newer and written_ids(other, schema_of(other.schema_id)) & read.columns:
            return f"{rows} got other values by the file {other.file_name}"
    return None
