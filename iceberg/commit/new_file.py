"""A file that was written for a commit, data or deletes, with what its manifest entry will say of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus
from pyiceberg.typedef import Record

from interbed.iceberg.meta.live_file import Content, LiveFile
from interbed.iceberg.meta.new_manifests import NEWEST_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTableFile:
    """A file; can be sent to another process. Metrics are by the ids of columns, as the field names of Iceberg say.

    `sequence_number` is that of its rows where it is older than the commit. `partition` is as in LiveFile.
    """

    path: str
    content: Content
    file_format: str
    spec_id: int
    partition: tuple[object, ...]
    records: int
    size: int
    sequence_number: int | None = None
    referenced: str | None = None
    offset: int | None = None
    length: int | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)

    def live(self, sequence_number: int) -> LiveFile:
        """The file as the plan of a reader has it, after a commit of that number."""
        return LiveFile(
            path=self.path,
            content=self.content,
            file_format=self.file_format,
            spec_id=self.spec_id,
            partition=self.partition,
            records=self.records,
            size=self.size,
            sequence_number=sequence_number if self.sequence_number is None else self.sequence_number,
            referenced=self.referenced,
            offset=self.offset,
            length=self.length,
        )

    def entry(self, snapshot_id: int) -> ManifestEntry:
        """Its entry in a manifest of the snapshot that adds it."""
        file = DataFile.from_args(
            _table_format_version=NEWEST_VERSION,
            content=DataFileContent(int(self.content)),
            file_path=self.path,
            file_format=FileFormat(self.file_format.upper()),
            partition=Record(*map(_value_of, self.partition)),
            record_count=self.records,
            file_size_in_bytes=self.size,
            referenced_data_file=self.referenced,
            content_offset=self.offset,
            content_size_in_bytes=self.length,
            **self.metrics,
        )
        file.spec_id = self.spec_id
        return ManifestEntry.from_args(
            _table_format_version=NEWEST_VERSION,
            status=ManifestEntryStatus.ADDED,
            snapshot_id=snapshot_id,
            sequence_number=self.sequence_number,
            file_sequence_number=None,
            data_file=file,
        )


def _value_of(key: object) -> object:
    """What `live_file` made a key of: NaN."""
    return float("nan") if key == "NaN" else key
