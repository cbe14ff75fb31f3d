"""Ids and sequence numbers of the new rows of a commit, in a table with `row-tracking.enabled`. Pure.

They depend on the snapshot that the commit builds on, so each attempt assigns them again. A new file gets the next
unused id as that of its first row; the snapshot has the id after the last row. The sequence number of new and changed
rows is the id of the snapshot. A writer leaves 0 for it: as the least number of a file in which all rows are new or
changed, and as the greatest of a file in which some are. Source: Paimon's RowTrackingCommitUtils.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from interbed.storage.meta.manifest.entry import DataFileMeta, FileKind, FileSource, ManifestEntry
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
