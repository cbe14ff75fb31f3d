"""A job of optimization: the table as it was planned, the target sizes and formats of files, and the written files.

Settings are the properties of Iceberg's writers, and of Amoro's optimizer if Iceberg has none. Sources: Iceberg's
documentation, "Configuration", "Write properties", and the options of its procedure `rewrite_data_files`; Amoro's
documentation, "Table Configurations", "Self-optimizing".

The names of a job's files contain the job's name, so the files of tasks whose results were lost can be found and
deleted.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table as Metadata
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record

from interbed.iceberg.meta.manifests import NEWEST_VERSION
from interbed.iceberg.meta.table_metadata import with_dropped
from interbed.iceberg.read.files import TableFiles
from interbed.iceberg.read.task_read import LAST_UPDATED, ROW_ID
from interbed.storage.base.errors import InvalidOptionError, NotSupportedError
from interbed.storage.io.api import FileIO
from interbed.storage.meta.options.optimizing import OptimizingOptions
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
