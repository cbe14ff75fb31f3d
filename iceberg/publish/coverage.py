"""How much of a table the readers of its published Iceberg table see."""

from dataclasses import dataclass

from interbed.iceberg.publish.changes import ShownLevels
from interbed.iceberg.publish.settings import shows_vectors
from interbed.storage.meta.store import TableStore
from interbed.storage.scan.live_files import LiveFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCoverage:
    """The files and rows of a snapshot, and those that readers of Iceberg see; rows of files, not yet merged."""

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
        """What makes the other rows visible, empty where readers see all."""
        if self.is_whole:
            return ""
        text = "a compaction (interbed table compact) makes the others visible"
        if self.has_vectors:
            return text
        return f"{text}. With deletion vectors and 'metadata.iceberg.format-version' = '3' each commit shows all rows"


def published_coverage(store: TableStore) -> PublishedCoverage | None:
    """The coverage of the newest snapshot, None without one; raises CorruptFileError for a manifest."""
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
