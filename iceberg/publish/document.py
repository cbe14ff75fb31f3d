"""The metadata file of a published table, `v<snapshot id>.metadata.json`, as Iceberg's and Paimon's readers accept it.

pyiceberg has the model, and writes none of version 3. The reference `main` is left out, as Paimon does, which takes
every reference for a tag; the current snapshot is the same information.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError as InvalidModelError
from pyiceberg.exceptions import ValidationError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataV2, TableMetadataV3
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef
from pyiceberg.table.snapshots import Snapshot, SnapshotLogEntry
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.typedef import TableVersion

from interbed.iceberg.publish.columns import FIRST_PARTITION_ID

Metadata = TableMetadataV2 | TableMetadataV3

PROPERTIES = {"gc.enabled": "false"}
"""Forbids Iceberg's own maintenance to delete files: the data files belong to the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InheritedIds:
    """Values of metadata that cannot be continued: the table's UUID, and the highest ids in use."""

    table_uuid: str | None = None
    last_column_id: int = 0
    next_row_id: int = 0

    @staticmethod
    def of(content: bytes) -> "InheritedIds":
        """Return the ids in a metadata file, whatever else is in it."""
        try:
            found = json.loads(content)
        except ValueError:
            return InheritedIds()
        if not isinstance(found, dict):
            return InheritedIds()
        name, column, row = found.get("table-uuid"), found.get("last-column-id"), found.get("next-row-id")
        return InheritedIds(
            table_uuid=name if isinstance(name, str) else None,
            last_column_id=column if isinstance(column, int) else 0,
            next_row_id=row if isinstance(row, int) else 0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataDocument:
    """The content of a metadata file. `next_row_id` is None before version 3 of the format. A table without snapshots
    is never published, and has a document all the same.
    """

    format_version: TableVersion
    table_uuid: str
    location: str
    last_column_id: int
    schemas: tuple[Schema, ...]
    current_schema_id: int
    spec: PartitionSpec
    snapshots: tuple[Snapshot, ...]
    refs: Mapping[str, SnapshotRef]
    next_row_id: int | None

    @property
    def current(self) -> Snapshot:
        """The newest published snapshot."""
        return self.snapshots[-1]

    @property
    def schema(self) -> Schema:
        """The current published schema."""
        return next(one for one in self.schemas if one.schema_id == self.current_schema_id)

    def is_same_as(self, other: "MetadataDocument") -> bool:
        """Return whether both name the same snapshots, schemas and references."""
        return (
            self.snapshots == other.snapshots
            and self.schemas == other.schemas
            and self.current_schema_id == other.current_schema_id
            and dict(self.refs) == dict(other.refs)
        )

    def encode(self, now_millis: int) -> bytes:
        """Return the bytes of the metadata file."""
        log = _log_of(self.snapshots)
        kind: type[Metadata] = TableMetadataV3 if self.format_version == 3 else TableMetadataV2
        model = kind.model_validate(
            {
                "format-version": self.format_version,
                "location": self.location,
                "table-uuid": self.table_uuid,
                "last-updated-ms": max([now_millis, *(entry.timestamp_ms for entry in log)]),
                "last-column-id": self.last_column_id,
                "schemas": list(self.schemas),
                "current-schema-id": self.current_schema_id,
                "partition-specs": [self.spec],
                "default-spec-id": self.spec.spec_id,
                "last-partition-id": max((f.field_id for f in self.spec.fields), default=FIRST_PARTITION_ID - 1),
                "properties": PROPERTIES,
                "current-snapshot-id": self.current.snapshot_id if self.snapshots else None,
                "snapshots": list(self.snapshots),
                "snapshot-log": log,
                "sort-orders": [UNSORTED_SORT_ORDER],
                "default-sort-order-id": UNSORTED_SORT_ORDER.order_id,
                "refs": dict(self.refs),
                "last-sequence-number": max((one.snapshot_id for one in self.snapshots), default=0),
                "next-row-id": self.next_row_id,
            }
        )
        content = model.model_dump(mode="json", by_alias=True, exclude_none=True)
        content["refs"].pop(MAIN_BRANCH, None)
        return json.dumps(content).encode()

    @staticmethod
    def decode(content: bytes) -> "MetadataDocument | None":
        """Decode a metadata file; None if it cannot be continued.

        That is the case for a damaged file, one without a snapshot, and one of version 3 without row ids, which older
        versions of Java Paimon write.
        """
        try:
            raw = json.loads(content)
            kind: type[Metadata] = TableMetadataV3 if raw.get("format-version") == 3 else TableMetadataV2
            model = kind.model_validate(raw)
        except (ValueError, AttributeError, InvalidModelError, ValidationError):
            return None
        next_row_id = model.next_row_id if isinstance(model, TableMetadataV3) else None
        snapshots = sorted(model.snapshots, key=lambda one: one.snapshot_id)
        if not snapshots or (model.format_version == 3 and next_row_id is None):
            return None
        if snapshots[-1].snapshot_id != model.current_snapshot_id:
            return None
        return MetadataDocument(
            format_version=model.format_version,
            table_uuid=str(model.table_uuid),
            location=model.location,
            last_column_id=model.last_column_id,
            schemas=tuple(model.schemas),
            current_schema_id=model.current_schema_id,
            spec=model.spec(),
            snapshots=tuple(snapshots),
            refs={name: ref for name, ref in model.refs.items() if name != MAIN_BRANCH},
            next_row_id=next_row_id,
        )


def _log_of(snapshots: Sequence[Snapshot]) -> list[SnapshotLogEntry]:
    """Return the log of current snapshots, with ascending times whatever the clocks of the writers were.

    Where a number is missing, because its snapshot was expired between a tagged one and the others, the log starts
    after it: a read as of a time in the gap would show the snapshot before it.
    """
    found: list[SnapshotLogEntry] = []
    for one in snapshots:
        if found and one.snapshot_id != found[-1].snapshot_id + 1:
            found.clear()
        time = max(one.timestamp_ms, found[-1].timestamp_ms if found else 0)
        found.append(SnapshotLogEntry.model_validate({"snapshot-id": one.snapshot_id, "timestamp-ms": time}))
    return found
