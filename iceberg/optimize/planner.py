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

A job of optimization has the table as it was planned, the target sizes and formats of files, and the written files.
Settings are the properties of Iceberg's writers, and of Amoro's optimizer if Iceberg has none. Sources: Iceberg's
documentation, "Configuration", "Write properties", and the options of its procedure `rewrite_data_files`; Amoro's
documentation, "Table Configurations", "Self-optimizing".

The names of a job's files contain the job's name, so the files of tasks whose results were lost can be found and
deleted.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pyiceberg.manifest import ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table as Metadata
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record

from interbed.iceberg.meta.live_files import LiveFile
from interbed.iceberg.meta.manifests import NEWEST_VERSION, manifests_of
from interbed.iceberg.meta.table_metadata import manifest_target, with_dropped
from interbed.iceberg.optimize.expire import SnapshotRetention, expired, next_expiry
from interbed.iceberg.plan import DataTask, plan_read
from interbed.iceberg.read.files import TableFiles
from interbed.iceberg.read.task_read import LAST_UPDATED, ROW_ID
from interbed.storage.base.errors import InvalidOptionError, NotSupportedError
from interbed.storage.io.api import FileIO
from interbed.storage.meta.options.optimizing import OptimizingOptions
from interbed.storage.upkeep.bucket_health import BucketHealth
from interbed.storage.upkeep.health import TableHealth
from interbed.storage.write.sort.key import SortOrder

_TARGET = "write.target-file-size-bytes"
_FORMAT = "write.format.default"
_RATIO = "self-optimizing.major.trigger.duplicate-ratio"
_FILES = "self-optimizing.minor.trigger.file-count"

_SMALL = 0.75
"""A file below this fraction of the target size is small; as Iceberg's `min-file-size-bytes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeSettings:
    """Settings of an optimization; `target` in bytes.

    A file is rewritten if more than `deleted_ratio` of its rows are deleted. Small files are rewritten if there are
    `small_files` of them in a partition, or if together they make a file of the target size.
    """

    target: int = 512 << 20
    deleted_ratio: float = 0.1
    small_files: int = 5
    file_format: str = "parquet"

    @property
    def small(self) -> int:
        """The size below which a file is small, in bytes."""
        return int(self.target * _SMALL)

    @staticmethod
    def of(properties: Mapping[str, str]) -> "OptimizeSettings":
        """Return the settings of a table's properties. Raises InvalidOptionError."""
        default = OptimizeSettings()
        return OptimizeSettings(
            target=OptimizingOptions(properties).optimizing_target_size
            or int(_number(properties, _TARGET, default.target, least=1)),
            deleted_ratio=_number(properties, _RATIO, default.deleted_ratio, least=0),
            small_files=int(_number(properties, _FILES, default.small_files, least=2)),
            file_format=properties.get(_FORMAT, "parquet").lower(),
        )

    def check_format(self) -> None:
        """Raise NotSupportedError for a table whose new data files should be of another format than Parquet."""
        if self.file_format != "parquet":
            raise NotSupportedError(
                f"The table wants its files in {self.file_format} ('{_FORMAT}'); they are rewritten as Parquet only. "
                f"Set it to 'parquet', or rewrite them with Spark."
            )


def _number(properties: Mapping[str, str], name: str, default: float, *, least: float) -> float:
    text = properties.get(name)
    if text is None:
        return default
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not found >= least:
        raise InvalidOptionError(f"The table property '{name}' is {text!r}; it should be a number of {least} or more.")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeJob:
    """A job over one snapshot. Can be sent to other processes.

    `known` are all columns, including dropped ones; `written` those of new files. The names of new files contain
    `name`.
    """

    name: str
    snapshot_id: int
    sequence_number: int
    format_version: int
    location: str
    properties: Mapping[str, str]
    specs: Mapping[int, PartitionSpec]
    files: TableFiles
    known: Schema
    written: Schema
    settings: OptimizeSettings
    order: SortOrder | None = None

    @staticmethod
    def of(
        table: Metadata, snapshot: Snapshot, name: str, settings: OptimizeSettings, order: SortOrder | None = None
    ) -> "OptimizeJob":
        """Return the job over a snapshot of the table."""
        metadata = table.metadata
        schema = metadata.schema()
        lineage = (ROW_ID, LAST_UPDATED) if metadata.format_version >= NEWEST_VERSION else ()
        known = with_dropped(schema, metadata.schemas)
        return OptimizeJob(
            name=name,
            snapshot_id=snapshot.snapshot_id,
            sequence_number=snapshot.sequence_number or 0,
            format_version=metadata.format_version,
            location=metadata.location,
            properties=dict(metadata.properties),
            specs=metadata.specs(),
            files=TableFiles.of(metadata, table.io.properties),
            known=Schema(*known.fields, *lineage),
            written=Schema(*schema.fields, *lineage),
            settings=settings,
            order=order,
        )

    def new_path(self, spec_id: int, partition: tuple[object, ...], file_name: str) -> str:
        """Return the path of a new file of a partition."""
        spec = self.specs[spec_id]
        record: Any = Record(*(float("nan") if value == "NaN" else value for value in partition))
        folder = spec.partition_to_path(record, self.known) if spec.fields else ""
        provider = load_location_provider(self.location, dict(self.properties))
        return provider.new_data_location(f"{folder}/{self.name}-{file_name}" if folder else f"{self.name}-{file_name}")


def sweep(job: OptimizeJob, kept: Collection[str] = ()) -> None:
    """Delete the job's files except those to keep, by their paths. Failures are logged."""
    file_io, root = job.files.open(job.location)
    names = {path.rpartition("/")[2] for path in kept}
    file_io.delete_quietly(
        path
        for path, name in _files(file_io, f"{root.rstrip('/')}/data")
        if name.startswith(job.name) and name not in names
    )


def _files(file_io: FileIO, folder: str) -> Iterator[tuple[str, str]]:
    for status in file_io.list(folder):
        if status.is_directory:
            yield from _files(file_io, status.path)
        else:
            yield status.path, status.name


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
