"""Tables of manifests without data files, for tests of planning: rows give the partitions and metrics of their files.

Each file has its rows at hand, so that a test can evaluate a filter on them.
"""

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
)
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros

from interbed.iceberg.meta.live_files import PATH_ID
from interbed.iceberg.meta.manifests import write_manifest, write_manifest_list

COLUMNS = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "name", StringType()),
    NestedField(3, "day", DateType()),
    NestedField(4, "at", TimestampType()),
    NestedField(5, "amount", DecimalType(9, 2)),
    NestedField(6, "score", DoubleType()),
    NestedField(7, "flag", BooleanType()),
    NestedField(8, "need", LongType(), required=True),
    schema_id=0,
)
Values = tuple[Any, ...]
"""A row, in the order of the columns."""


def _spec(number: int, *fields: tuple[int, Transform[Any, Any]]) -> PartitionSpec:
    parts = [
        PartitionField(source, 1000 + 10 * number + place, transform, f"p{number}_{place}")
        for place, (source, transform) in enumerate(fields)
    ]
    return PartitionSpec(*parts, spec_id=number)


_ONE: Transform[Any, Any] = IdentityTransform()
SPECS = [
    _spec(0),
    _spec(1, (3, _ONE)),
    _spec(2, (1, BucketTransform(4))),
    _spec(3, (2, TruncateTransform(2))),
    _spec(4, (4, MonthTransform())),
    _spec(5, (4, DayTransform()), (2, BucketTransform(3))),
    _spec(6, (4, HourTransform())),
    _spec(7, (3, YearTransform()), (7, _ONE)),
    _spec(8, (5, TruncateTransform(100)), (1, TruncateTransform(10))),
    _spec(9, (6, _ONE)),
    _spec(10, (2, _ONE), (1, BucketTransform(2)), (1, TruncateTransform(5))),
    _spec(11, (5, _ONE)),
    _spec(12, (1, _ONE)),
]


@dataclass(slots=True)
class ManifestTable:
    """A table whose snapshots are added one by one; `rows` has the rows of each data file by its path."""

    directory: Path
    schemas: list[Schema] = field(default_factory=lambda: [COLUMNS])
    rows: dict[str, Sequence[Values]] = field(default_factory=dict)
    files: dict[str, DataFile] = field(default_factory=dict)
    snapshots: list[Snapshot] = field(default_factory=list)
    manifests: list[ManifestFile] = field(default_factory=list)

    def append(self, spec: PartitionSpec, rows: Sequence[Values]) -> list[str]:
        """Commit the rows in one manifest, one data file for each partition; return the paths."""
        by: dict[Values, list[Values]] = defaultdict(list)
        for row in rows:
            by[_partition(spec, row)].append(row)
        files = []
        for partition, of in by.items():
            path = f"file:/data/{uuid.uuid4().hex}.parquet"
            file = _data_file(path, spec, partition, of)
            self.rows[path], self.files[path] = of, file
            files.append(file)
        self._commit(spec, files, Operation.APPEND)
        return [file.file_path for file in files]

    def delete_positions(self, spec: PartitionSpec, paths: Sequence[str]) -> str:
        """Commit one position delete file for data files of one partition, and return its path."""
        partition = self.files[paths[0]].partition
        path = f"file:/data/{uuid.uuid4().hex}-deletes.parquet"
        bounds = {PATH_ID: min(paths).encode()}, {PATH_ID: max(paths).encode()}
        made = _file(
            path, DataFileContent.POSITION_DELETES, spec, tuple(partition[i] for i in range(len(partition))), 1
        )
        made._data[_LOWER], made._data[_UPPER] = bounds
        self._commit(spec, [made], Operation.DELETE)
        return path

    @property
    def metadata(self) -> TableMetadata:
        """The metadata of the table now."""
        return TableMetadataV2.model_validate(
            {
                "location": f"file:{self.directory}",
                "table-uuid": uuid.UUID(int=1),
                "last-updated-ms": 1,
                "last-column-id": 8,
                "schemas": self.schemas,
                "current-schema-id": self.schemas[-1].schema_id,
                "partition-specs": SPECS,
                "default-spec-id": 0,
                "last-partition-id": 2000,
                "current-snapshot-id": self.snapshots[-1].snapshot_id if self.snapshots else None,
                "snapshots": self.snapshots,
                "last-sequence-number": len(self.snapshots),
                "sort-orders": [],
            }
        )

    @property
    def table(self) -> StaticTable:
        """The table as pyiceberg plans its scans."""
        return StaticTable(("t",), self.metadata, "file:/metadata.json", PyArrowFileIO(), NoopCatalog("t"))

    def _commit(self, spec: PartitionSpec, files: Sequence[DataFile], operation: Operation) -> None:
        number = len(self.snapshots) + 1
        entries = [
            ManifestEntry.from_args(
                _table_format_version=3, status=ManifestEntryStatus.ADDED, snapshot_id=number, data_file=file
            )
            for file in files
        ]
        content = ManifestContent.DATA if operation is Operation.APPEND else ManifestContent.DELETES
        manifest = write_manifest(
            PyArrowFileIO(),
            str(self.directory / f"{number}.avro"),
            format_version=2,
            schema=COLUMNS,
            spec=spec,
            content=content,
            snapshot_id=number,
            entries=entries,
        )
        manifest.sequence_number = number
        manifest.min_sequence_number = number
        self.manifests.append(manifest)
        path = str(self.directory / f"list-{number}.avro")
        write_manifest_list(
            PyArrowFileIO(),
            path,
            format_version=2,
            snapshot_id=number,
            parent_snapshot_id=number - 1 or None,
            sequence_number=number,
            manifests=self.manifests,
        )
        snapshot = {
            "snapshot-id": number,
            "parent-snapshot-id": number - 1 or None,
            "sequence-number": number,
            "timestamp-ms": number,
            "manifest-list": path,
            "summary": Summary(operation),
            "schema-id": self.schemas[-1].schema_id,
        }
        self.snapshots.append(Snapshot.model_validate(snapshot))


_LOWER, _UPPER = 10, 11
"""The places of the bounds in the record of a data file."""


def _partition(spec: PartitionSpec, row: Values) -> Values:
    found = []
    for part in spec.fields:
        kind = COLUMNS.find_type(part.source_id)
        found.append(part.transform.transform(kind)(physical(row[part.source_id - 1])))
    return tuple(found)


def physical(value: Any) -> Any:
    """Return a value as manifests have it: days and microseconds for dates and times."""
    if isinstance(value, datetime):
        return datetime_to_micros(value)
    return date_to_days(value) if isinstance(value, date) else value


def record(row: Values) -> Record:
    """Return a row for pyiceberg's evaluation of a filter."""
    return Record(*(physical(value) for value in row))


def _file(path: str, content: DataFileContent, spec: PartitionSpec, partition: Values, records: int) -> DataFile:
    made = DataFile.from_args(
        _table_format_version=3,
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=records,
        file_size_in_bytes=100,
    )
    made.spec_id = spec.spec_id
    return made


def _data_file(path: str, spec: PartitionSpec, partition: Values, rows: Sequence[Values]) -> DataFile:
    made = DataFile.from_args(
        _table_format_version=3,
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=len(rows),
        file_size_in_bytes=100,
        **_metrics(rows),
    )
    made.spec_id = spec.spec_id
    return made


def _metrics(rows: Sequence[Values]) -> Mapping[str, dict[int, Any]]:
    metrics: dict[str, dict[int, Any]] = {
        name: {} for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    }
    for place, column in enumerate(COLUMNS.fields):
        number, kind = column.field_id, column.field_type
        assert isinstance(kind, PrimitiveType)
        values = [physical(row[place]) for row in rows if row[place] is not None]
        metrics["value_counts"][number] = len(rows)
        metrics["null_value_counts"][number] = len(rows) - len(values)
        if isinstance(kind, DoubleType):
            metrics["nan_value_counts"][number] = sum(value != value for value in values)
            values = [value for value in values if value == value]
        if values:
            metrics["lower_bounds"][number] = to_bytes(kind, min(values))
            metrics["upper_bounds"][number] = to_bytes(kind, max(values))
    return metrics
