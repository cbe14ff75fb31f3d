"""Units of optimization: files of one partition that one process rewrites, and the reason; and the health of a table.

- minor: small files become larger ones; equality deletes, and positions in several files, become one vector or one file
  of positions for each data file, so a reader skips rows and matches no keys.
- major: also files with many deleted rows are rewritten without them.
- full: all files are rewritten, except those of the target size, without deletes and without a requested order.

Files are combined within their own partition spec and partition only, so deletes of other partitions still apply.
Planning does no I/O.

`iceberg_health` measures how well a table serves its readers, from its metadata only, in the figures of interbed's own
tables. The files of a partition are a bucket. Its small files are those that a minor compaction removes: small data
files, equality delete files, and data files whose positions are in several files.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table as Metadata

from interbed.iceberg.meta.live_files import LiveFile
from interbed.iceberg.meta.manifests import manifests_of
from interbed.iceberg.meta.table_metadata import manifest_target
from interbed.iceberg.optimize.expire import SnapshotRetention, expired, next_expiry
from interbed.iceberg.optimize.job import OptimizeSettings
from interbed.iceberg.plan import DataTask, plan_read
from interbed.iceberg.read.files import TableFiles
from interbed.storage.upkeep.bucket_health import BucketHealth
from interbed.storage.upkeep.health import TableHealth


class OptimizeAction(Enum):
    """The work on data files."""

    REWRITE = "rewrite"
    """Their rows are written to new files, without deleted rows."""
    CONVERT = "convert"
    """Their deletes become one vector, or one file of positions, for each of them; the data files are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeUnit:
    """Data files of one partition spec and partition with their deletes. Can be sent to another process."""

    action: OptimizeAction
    reason: str
    files: tuple[DataTask, ...]

    @property
    def spec_id(self) -> int:
        """The partition spec of all data files."""
        return self.files[0].file.spec_id

    @property
    def partition(self) -> tuple[object, ...]:
        """The partition of all data files."""
        return self.files[0].file.partition

    @property
    def rows(self) -> int:
        """The rows of the data files, including deleted ones."""
        return sum(task.file.records for task in self.files)

    @property
    def bytes(self) -> int:
        """The size of the data files."""
        return sum(task.file.size for task in self.files)

    @property
    def deletes(self) -> tuple[LiveFile, ...]:
        """The delete files that are read, each once."""
        return tuple({file.place: file for task in self.files for file in task.deletes.files}.values())

    @property
    def cost(self) -> int:
        """The bytes that it reads."""
        return sum(task.cost for task in self.files) + sum(file.cost for file in self.deletes)

    def __str__(self) -> str:
        where = "/".join(map(str, self.partition))
        return (
            f"{f'partition {where}: ' if where else ''}{self.action.value} {len(self.files)} file(s) of "
            f"{self.rows:,} rows, {self.bytes:,} bytes, with {len(self.deletes)} delete file(s): {self.reason}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the unit as a JSON object, without the names of files."""
        return {
            "action": self.action.value,
            "reason": self.reason,
            "partition": [str(value) for value in self.partition],
            "files": len(self.files),
            "rows": self.rows,
            "bytes": self.bytes,
            "delete_files": len(self.deletes),
        }


_UNIT_FILES = 4
"""The number of files of the target size that a unit makes, if its files can be divided that way."""


_MANIFESTS_LEFT = 100
"""The number of small manifests that other writers' commits leave (`commit.manifest.min-count-to-merge`)."""


class Mode(Enum):
    """The extent of an optimization."""

    MINOR = "minor"
    MAJOR = "major"
    FULL = "full"


def plan_units(
    tasks: Iterable[DataTask], mode: Mode, settings: OptimizeSettings, *, is_sorted_again: bool = False
) -> tuple[OptimizeUnit, ...]:
    """Return the units of work, the costliest first. `is_sorted_again` says that an order is requested, which takes all
    files.

    The same files give the same units, in whatever order they are given.
    """
    partitions: dict[tuple[int, tuple[object, ...]], list[DataTask]] = defaultdict(list)
    for task in sorted(tasks, key=lambda task: (task.file.sequence_number, task.file.path)):
        partitions[task.file.spec_id, task.file.partition].append(task)
    units = [
        unit
        for files in partitions.values()
        for unit in (_full(files, settings, is_sorted_again) if mode is Mode.FULL else _due(files, mode, settings))
    ]
    return tuple(sorted(units, key=lambda unit: (-unit.cost, unit.files[0].file.path)))


def _full(files: Sequence[DataTask], settings: OptimizeSettings, is_sorted_again: bool) -> list[OptimizeUnit]:
    if is_sorted_again:
        return [OptimizeUnit(action=OptimizeAction.REWRITE, reason="in the order asked for", files=tuple(files))]
    chosen = [task for task in files if task.deletes.files or not _fits(task, settings)]
    if len(chosen) == 1 and not chosen[0].deletes.files and chosen[0].file.size < settings.target:
        # There is one small file only, and no other to combine it with.
        return []
    return [
        OptimizeUnit(action=OptimizeAction.REWRITE, reason="all files", files=tuple(piece))
        for piece in _pieces(chosen, _UNIT_FILES * settings.target)
    ]


def _due(files: Sequence[DataTask], mode: Mode, settings: OptimizeSettings) -> list[OptimizeUnit]:
    found: list[OptimizeUnit] = []
    taken: set[str] = set()

    def rewrite(chosen: Sequence[DataTask], reason: str) -> None:
        for piece in _pieces(chosen, _UNIT_FILES * settings.target):
            found.append(OptimizeUnit(action=OptimizeAction.REWRITE, reason=reason, files=tuple(piece)))
            taken.update(task.file.path for task in piece)

    small = [task for task in files if task.file.size < settings.small]
    if len(small) >= settings.small_files or (
        len(small) > 1 and sum(task.file.size for task in small) >= settings.target
    ):
        rewrite(small, f"{len(small)} small files")
    if mode is Mode.MAJOR:
        shares = deleted_shares(files)
        many = [t for t in files if t.file.path not in taken and shares[t.file.path] > settings.deleted_ratio]
        if many:
            rewrite(many, f"more than {settings.deleted_ratio:.0%} of their rows deleted")
    scattered = [t for t in files if t.file.path not in taken and (t.deletes.equality or len(t.deletes.positions) > 1)]
    if scattered:
        keys = any(task.deletes.equality for task in scattered)
        reason = "rows deleted by keys" if keys else "positions in several files"
        found += [
            OptimizeUnit(action=OptimizeAction.CONVERT, reason=reason, files=tuple(piece))
            for piece in _pieces(scattered, _UNIT_FILES * settings.target)
        ]
    return found


def _fits(task: DataTask, settings: OptimizeSettings) -> bool:
    """Return whether a file has about the target size."""
    return settings.small <= task.file.size <= settings.target * 1.8


def deleted_shares(files: Sequence[DataTask]) -> dict[str, float]:
    """Return approximately which share of each file's rows is deleted.

    The estimate is that an equality delete deletes one row of all its data files, and that positions in several files
    are distributed evenly.
    """
    rows: dict[tuple[str, int | None], int] = defaultdict(int)
    for task in files:
        for delete in task.deletes.files:
            rows[delete.place] += task.file.records
    shares: dict[str, float] = {}
    for task in files:
        if not task.file.records:
            shares[task.file.path] = 0.0
            continue
        vector = task.deletes.vector
        share = 0.0 if vector is None else vector.records / task.file.records
        for delete in (*task.deletes.positions, *task.deletes.equality):
            share += delete.records / max(rows[delete.place], 1)
        shares[task.file.path] = min(share, 1.0)
    return shares


def _pieces(files: Sequence[DataTask], most: int) -> list[list[DataTask]]:
    """Split the files in order into the least number of pieces of about `most` bytes, of about the same size."""
    total = sum(task.file.size for task in files)
    number = max(-(-total // most), 1)
    pieces: list[list[DataTask]] = [[] for _ in range(number)]
    before = 0
    for task in files:
        # The piece that the middle of the file lies in.
        place = (before + task.file.size // 2) * number // max(total, 1)
        pieces[min(place, number - 1)].append(task)
        before += task.file.size
    return [piece for piece in pieces if piece]


def iceberg_health(table: Metadata, now_millis: int) -> TableHealth:
    """Return the health of the table as it was loaded. Raises what reading metadata raises, InvalidOptionError."""
    metadata = table.metadata
    snapshot = metadata.current_snapshot()
    if snapshot is None:
        return TableHealth()
    settings = OptimizeSettings.of(metadata.properties)
    files = TableFiles.of(metadata, table.io.properties)
    plan = plan_read(metadata, files.io, snapshot, metadata.schema(), None)
    partitions: dict[tuple[int, tuple[object, ...]], list[DataTask]] = defaultdict(list)
    for task in plan.tasks:
        for file in task.files:
            partitions[file.file.spec_id, file.file.partition].append(file)
    manifests = manifests_of(files.io, snapshot)
    return TableHealth(
        snapshot_id=snapshot.snapshot_id,
        newest_millis=snapshot.timestamp_ms,
        by_bucket=tuple(
            _of_partition(spec_id, partition, files, settings) for (spec_id, partition), files in partitions.items()
        ),
        manifests=len(manifests),
        manifests_due=_manifests_due(manifests, manifest_target(metadata)),
        snapshots=len(metadata.snapshots),
        snapshots_due=len(expired(metadata, SnapshotRetention(), now_millis).snapshots),
        next_expiry_millis=next_expiry(metadata, now_millis),
    )


def _of_partition(
    spec_id: int, partition: tuple[object, ...], files: list[DataTask], settings: OptimizeSettings
) -> BucketHealth:
    name = "/".join(map(str, partition))
    small = sum(task.file.size < settings.small for task in files)
    keys = {file.place for task in files for file in task.deletes.equality}
    scattered = sum(len(task.deletes.positions) > 1 for task in files)
    deletes = {file.place: file for task in files for file in task.deletes.files}
    rows = sum(task.file.records for task in files)
    shares = deleted_shares(files)
    return BucketHealth(
        partition=json.dumps([spec_id, *map(str, partition)]).encode(),
        partition_name=name,
        files=len(files),
        bytes=sum(task.file.size for task in files),
        rows=rows,
        # A single small file has no other to be combined with.
        small_files=(small if small > 1 else 0) + len(keys) + scattered,
        spare_files=max(small - 1, 0),
        vector_files=len(deletes),
        delete_rows=round(sum(shares[task.file.path] * task.file.records for task in files)),
        pending_bytes=sum(task.file.size for task in files if task.deletes.files or task.file.size < settings.small),
    )


def _manifests_due(manifests: list[ManifestFile], target: int) -> int:
    small = sum(manifest.manifest_length < target for manifest in manifests)
    return max(small - 2 * _MANIFESTS_LEFT, 0)
