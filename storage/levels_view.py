"""The LSM tree of a table as a view for people and programs: files, rows and bytes of every level of every bucket."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from io import StringIO
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from interbed.storage.manifest.entry import ManifestEntry, merge_entries
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.store import TableStore


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelSummary:
    """One level: of one bucket, or of all of them when `bucket` is None. `runs` counts the sorted runs."""

    partition: str | None
    bucket: int | None
    level: int
    runs: int
    files: int
    rows: int
    deletes: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLevels:
    """The levels of a table at one snapshot (None: no snapshot yet)."""

    snapshot_id: int | None
    levels: tuple[LevelSummary, ...]

    def by_level(self) -> list[LevelSummary]:
        """One summary for each level, over all partitions and buckets."""
        grouped: dict[int, list[LevelSummary]] = defaultdict(list)
        for summary in self.levels:
            grouped[summary.level].append(summary)
        return [
            LevelSummary(
                partition=None,
                bucket=None,
                level=level,
                runs=sum(s.runs for s in group),
                files=sum(s.files for s in group),
                rows=sum(s.rows for s in group),
                deletes=sum(s.deletes for s in group),
                bytes=sum(s.bytes for s in group),
            )
            for level, group in sorted(grouped.items())
        ]

    def to_json(self) -> dict[str, Any]:
        """The view as a JSON object."""
        names = ("partition", "bucket", "level", "runs", "files", "rows", "deletes", "bytes")
        return {
            "snapshotId": self.snapshot_id,
            "levels": [{name: getattr(summary, name) for name in names} for summary in self.levels],
        }

    def __str__(self) -> str:
        title = "no snapshot" if self.snapshot_id is None else f"snapshot {self.snapshot_id}"
        view = RichTable(title=title, title_justify="left")
        for name in ("partition", "bucket", "level", "sorted runs", "files", "rows", "deletes", "KiB"):
            view.add_column(name, justify="left" if name == "partition" else "right")
        for s in self.levels:
            cells = (s.bucket, s.level, s.runs, s.files, f"{s.rows:,}", f"{s.deletes:,}", f"{s.bytes / 1024:,.0f}")
            view.add_row(s.partition or "", *(str(c) for c in cells))
        target = StringIO()
        Console(file=target, width=120, color_system=None).print(view)
        return target.getvalue().rstrip()


def levels_of(store: TableStore) -> TableLevels:
    """The levels of the newest snapshot."""
    snapshot = store.snapshots.latest()
    if snapshot is None:
        return TableLevels(snapshot_id=None, levels=())
    reader = ManifestReader(store.file_io, store.paths)
    entries = merge_entries(reader.entries(reader.data(snapshot)))
    return TableLevels(snapshot_id=snapshot.id, levels=summarize(entries, store))


def summarize(entries: Iterable[ManifestEntry], store: TableStore) -> tuple[LevelSummary, ...]:
    """The summaries of live files, by partition directory, bucket and level."""
    grouped: dict[tuple[str, int, int], list[ManifestEntry]] = defaultdict(list)
    directories: dict[bytes, str] = {}
    for entry in entries:
        if entry.partition not in directories:
            directories[entry.partition] = store.paths.partition_directory(entry.partition)
        grouped[directories[entry.partition], entry.bucket, entry.file.level].append(entry)
    return tuple(
        LevelSummary(
            partition=partition or None,
            bucket=bucket,
            level=level,
            # Files of level 0 are sorted runs by themselves; any other level is one run.
            runs=len(group) if level == 0 else 1,
            files=len(group),
            rows=sum(e.file.row_count for e in group),
            deletes=sum(e.file.delete_row_count or 0 for e in group),
            bytes=sum(e.file.file_size for e in group),
        )
        for (partition, bucket, level), group in sorted(grouped.items())
    )
