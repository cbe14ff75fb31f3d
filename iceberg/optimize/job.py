"""What the units of a job have in common: the table as it was when it was planned, and how new files are written."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table as Metadata
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record

from interbed.iceberg.meta.dropped_columns import with_dropped
from interbed.iceberg.meta.new_manifests import NEWEST_VERSION
from interbed.iceberg.optimize.settings import OptimizeSettings
from interbed.iceberg.read.files import TableFiles
from interbed.iceberg.read.lineage import LAST_UPDATED, ROW_ID
from interbed.storage.write.sort.order import SortOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeJob:
    """A job over one snapshot. Can be sent to other processes.

    `known` are all columns, those that were dropped among them; `written` those of new files. New files have `name` in
    their names.
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
        """The job over a snapshot of the table."""
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
        """Where a new file of a partition goes."""
        spec = self.specs[spec_id]
        record: Any = Record(*(float("nan") if value == "NaN" else value for value in partition))
        folder = spec.partition_to_path(record, self.known) if spec.fields else ""
        provider = load_location_provider(self.location, dict(self.properties))
        return provider.new_data_location(f"{folder}/{self.name}-{file_name}" if folder else f"{self.name}-{file_name}")
