"""A view of the LSM tree of a table: files, rows and bytes of every level of every bucket."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from io import StringIO
from os import PathLike
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from interbed.storage.base.bucket_id import by_bucket
from interbed.storage.base.clock import Clock, local_millis
from interbed.storage.base.errors import InvalidInputError, plain_errors
from interbed.storage.base.shown_text import escaped
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import ManifestEntry, merge_entries
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.scan.partition_filter import Partitions, partition_choice, partition_filter
from interbed.storage.views.level_drawing import (
    BUCKETS_DRAWN,
    BucketTree,
    LevelsDrawing,
    draw_trees,
    most_runs,
    tree_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelSummary:
    """One level of one bucket, or of all buckets if `bucket` is None. `runs` is the number of sorted runs."""

    partition: str | None
    bucket: int | None
    level: int
    runs: int
    files: int
    rows: int
    deletes: int
    bytes: int


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class TableLevels:
    """The levels of a table at one snapshot (None: no snapshot yet).

    `trees` has the LSM tree of every bucket of a primary-key table. `seen_millis` is the time of the read, in local
    time without zone.
    """

    table: str
    snapshot_id: int | None
    levels: tuple[LevelSummary, ...]
    trees: tuple[BucketTree, ...] = ()
    seen_millis: int = 0

    def by_level(self) -> list[LevelSummary]:
        """Return one summary for each level, over all partitions and buckets."""
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
        """Return the view as a JSON object."""
        names = ("partition", "bucket", "level", "runs", "files", "rows", "deletes", "bytes")
        return {
            "snapshotId": self.snapshot_id,
            "levels": [{name: getattr(summary, name) for name in names} for summary in self.levels],
            "buckets": [tree.to_json() for tree in self.trees],
        }

    def drawing(self, *, all_buckets: bool = False) -> LevelsDrawing:
        """Return a drawing of the trees for rich: those with the most sorted runs, or all of them."""
        trees = self.trees if all_buckets else most_runs(self.trees, BUCKETS_DRAWN)
        return LevelsDrawing(
            title=self.title, trees=trees, now_millis=self.seen_millis, left_out=len(self.trees) - len(trees)
        )

    def plot(self, path: str | PathLike[str]) -> None:
        """Draw the trees (of the twelve buckets with the most sorted runs) to an SVG, PNG or PDF file.

        Raises NotSupportedError without matplotlib (the extra `plot`), InvalidInputError for another kind of file or
        without a tree, StorageAccessError if the file can't be written.
        """
        if not self.trees:
            raise InvalidInputError(f"There is nothing to draw of {self.title}: it has no buckets of an LSM tree.")
        draw_trees(self.title, self.trees, self.seen_millis, path)

    @property
    def title(self) -> str:
        """The name of the table and its snapshot."""
        snapshot = "no snapshot" if self.snapshot_id is None else f"snapshot {self.snapshot_id}"
        return f"{self.table}, {snapshot}"

    def __str__(self) -> str:
        view = RichTable(title=Text(escaped(self.title)), title_justify="left")
        for name in ("partition", "bucket", "level", "sorted runs", "files", "rows", "deletes", "KiB"):
            view.add_column(name, justify="left" if name == "partition" else "right")
        for s in self.levels:
            cells = (s.bucket, s.level, s.runs, s.files, f"{s.rows:,}", f"{s.deletes:,}", f"{s.bytes / 1024:,.0f}")
            view.add_row(Text(escaped(s.partition or "")), *(str(c) for c in cells))
        target = StringIO()
        Console(file=target, width=120, color_system=None).print(view)
        return target.getvalue().rstrip()


def levels_of(
    store: FileStore,
    *,
    name: str,
    partitions: Partitions | None = None,
    bucket: int | None = None,
    clock: Clock = local_millis,
) -> TableLevels:
    """Return the levels of the newest snapshot: of all buckets, of some partitions, or of one bucket number.

    Raises InvalidInputError for an unknown partition column.
    """
    schema = store.schema
    wanted = partition_filter(
        partition_choice(partitions, schema.fields),
        schema.partition_fields,
        default_name=store.options.partition_default_name,
    )
    snapshot = store.newest_snapshot()
    if snapshot is None:
        return TableLevels(table=name, snapshot_id=None, levels=(), seen_millis=clock())
    reader = ManifestReader(store.file_io, store.paths)
    live = merge_entries(reader.entries(reader.data(snapshot)))
    chosen = wanted.select({e.partition for e in live})
    entries = [e for e in live if e.partition in chosen and bucket in (None, e.bucket)]
    return TableLevels(
        table=name,
        snapshot_id=snapshot.id,
        levels=summarize(entries, store),
        trees=_trees(entries, store) if schema.has_primary_key else (),
        seen_millis=clock(),
    )


def _trees(entries: Iterable[ManifestEntry], store: FileStore) -> tuple[BucketTree, ...]:
    """Return the trees, in order of partition directory and bucket."""
    files = by_bucket(entries)
    directories = {partition: store.paths.partition_directory(partition) for partition, _ in files}
    return tuple(
        tree_of(
            [e.file for e in group],
            store.schema,
            store.options,
            partition=directories[partition] or None,
            bucket=bucket,
        )
        for (partition, bucket), group in sorted(files.items(), key=lambda item: (directories[item[0][0]], item[0][1]))
    )


def summarize(entries: Iterable[ManifestEntry], store: FileStore) -> tuple[LevelSummary, ...]:
    """Return summaries of live files by partition directory, bucket and level."""
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
            # Each file of level 0 is a sorted run; any other level is one run.
            runs=len(group) if level == 0 else 1,
            files=len(group),
            rows=sum(e.file.row_count for e in group),
            deletes=sum(e.file.delete_row_count or 0 for e in group),
            bytes=sum(e.file.file_size for e in group),
        )
        for (partition, bucket, level), group in sorted(grouped.items())
    )
