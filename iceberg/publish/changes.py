"""Data files added and removed for readers of Iceberg by the changes of a snapshot.

Readers of Iceberg see the files that need no merge: all files of an append table, the top level of a primary-key table,
and with deletion vectors every level except the first. `published_coverage` reports which part of a table that is.
Source: documentation page `iceberg/primary-key-table`, paimon-core's IcebergCommitCallback.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from interbed.iceberg.publish.settings import shows_vectors
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import FileKind, ManifestEntry
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.scan.live_files import LiveFiles

TOTALS = ("total-data-files", "total-records", "total-files-size")
"""The entries of a summary that continue those of the previous snapshot."""


@dataclass(frozen=True, slots=True)
class ShownLevels:
    """The levels that readers of Iceberg see: from `least` on."""

    least: int

    @staticmethod
    def of(schema: TableSchema, options: CoreOptions) -> "ShownLevels":
        """Return the visible levels of a table."""
        if not schema.has_primary_key:
            return ShownLevels(0)
        return ShownLevels(1 if shows_vectors(options) else options.num_levels - 1)

    def __call__(self, level: int) -> bool:
        """Return whether files of the level are visible."""
        return level >= self.least


@dataclass(frozen=True, slots=True)
class FileChanges:
    """Files by their paths: added files, and removed files that may have been published.

    With `adds_only` there are only additions.
    """

    added: dict[str, ManifestEntry] = field(default_factory=dict)
    removed: dict[str, ManifestEntry] = field(default_factory=dict)
    adds_only: bool = False


def changes_of(delta: Iterable[tuple[str, ManifestEntry]], shown: ShownLevels) -> FileChanges:
    """Return the visible effect of the changes of a snapshot, which are in the order in which they were made.

    A file that changes its level is deleted and added: then it counts as added, unless it is published already.
    """
    added: dict[str, ManifestEntry] = {}
    removed: dict[str, ManifestEntry] = {}
    adds_only = True
    for path, entry in delta:
        if entry.bucket < 0 or not shown(entry.file.level):
            continue
        if entry.kind is FileKind.DELETE:
            adds_only = False
            added.pop(path, None)
            removed[path] = entry
        else:
            removed.pop(path, None)
            added[path] = entry
    return FileChanges(added, removed, adds_only)


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Numbers of files, rows and bytes."""

    files: int = 0
    records: int = 0
    size: int = 0

    @staticmethod
    def of(entries: Iterable[ManifestEntry]) -> "Totals":
        """Return the totals of files."""
        found = [(entry.file.row_count, entry.file.file_size) for entry in entries]
        return Totals(files=len(found), records=sum(r for r, _ in found), size=sum(s for _, s in found))


def summary_of(
    added: Sequence[ManifestEntry],
    removed: Sequence[ManifestEntry],
    before: Mapping[str, str],
    vectors: Totals,
) -> dict[str, str]:
    """Return the metrics of a snapshot's summary; `before` are the totals of its parent snapshot, or empty."""
    plus, minus = Totals.of(added), Totals.of(removed)
    changes = (plus.files - minus.files, plus.records - minus.records, plus.size - minus.size)
    return {
        "added-data-files": str(plus.files),
        "added-records": str(plus.records),
        "added-files-size": str(plus.size),
        "deleted-data-files": str(minus.files),
        "deleted-records": str(minus.records),
        "removed-files-size": str(minus.size),
        "changed-partition-count": str(len({entry.partition for entry in (*added, *removed)})),
        **{name: str(max(0, int(before.get(name, 0)) + by)) for name, by in zip(TOTALS, changes, strict=True)},
        "total-delete-files": str(vectors.files),
        "total-position-deletes": str(vectors.records),
        "total-equality-deletes": "0",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCoverage:
    """The files and rows of a snapshot, and those that readers of Iceberg see. Rows are those of files, not yet
    merged.
    """

    files: int
    files_shown: int
    rows: int
    rows_shown: int
    has_vectors: bool

    @property
    def is_whole(self) -> bool:
        """Whether readers see all files."""
        return self.files == self.files_shown

    @property
    def way_out(self) -> str:
        """Advice to make the other rows visible, empty if readers see all."""
        if self.is_whole:
            return ""
        text = "a compaction (interbed table compact) makes the others visible"
        if self.has_vectors:
            return text
        return f"{text}. With deletion vectors and 'metadata.iceberg.format-version' = '3' each commit shows all rows"


def published_coverage(store: FileStore) -> PublishedCoverage | None:
    """Return the coverage of the newest snapshot, None without one. Raises CorruptFileError for a manifest."""
    snapshot = store.snapshots.latest()
    if snapshot is None:
        return None
    entries, _ = LiveFiles(store).entries(snapshot)
    levels = ShownLevels.of(store.schema, store.options)
    shown = [entry for entry in entries if entry.bucket >= 0 and levels(entry.file.level)]
    return PublishedCoverage(
        files=len(entries),
        files_shown=len(shown),
        rows=sum(entry.file.row_count for entry in entries),
        rows_shown=sum(entry.file.row_count for entry in shown),
        has_vectors=shows_vectors(store.options),
    )
