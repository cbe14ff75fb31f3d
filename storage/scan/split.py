"""Splits and plans: a split is the files of one bucket that one task reads together; a plan is the splits of one scan.

A plan also counts the files that each step of pruning left.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import InvalidInputError, plain_errors
from interbed.storage.meta.manifest.entry import DataFileMeta, data_file_from_json, data_file_to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionFile:
    """Location of the deletion vector of one data file: `length` bytes from `offset` of an index file."""

    path: str
    offset: int
    length: int
    cardinality: int | None = None


@plain_errors
@dataclass(frozen=True, kw_only=True)
class Split:
    """Files of one bucket, whole sections of overlapping key ranges. `partition` is a serialised BinaryRow.

    With `raw_convertible` the files' rows are the table's rows: no key occurs twice and none is deleted, so every file
    can be read by itself. `bucket_path` is the directory that holds the files (unless a file has an external path).
    `deletion_files` are the deletion vectors of data files by name.

    Splits of changes are of three kinds. With `streaming` alone every record of the files is a row, with its kind, in
    the order of the files. With `streaming` and `before` the merged rows of the files `before` are retracted, and those
    of `files` are added. With `before` alone the rows are the difference between the two. `before_deletion_files` are
    the deletion vectors of the files `before`.

    `branch` is given for files of another branch than the one that is read: they are merged by its schema and options,
    with `of_past` by the schema that it had at the split's snapshot.
    `row_ranges` limits raw-convertible files to a range of rows by position in the file: the first number is included,
    the second excluded. Files that it does not name are read as a whole.
    """

    snapshot_id: int
    partition: bytes
    bucket: int
    total_buckets: int
    bucket_path: str
    files: tuple[DataFileMeta, ...]
    raw_convertible: bool
    deletion_files: Mapping[str, DeletionFile] = field(default_factory=dict)
    streaming: bool = False
    before: tuple[DataFileMeta, ...] | None = None
    before_deletion_files: Mapping[str, DeletionFile] = field(default_factory=dict)
    branch: str | None = None
    of_past: bool = False
    row_ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def bucket_id(self) -> BucketId:
        """Bucket of the split, with its partition."""
        return BucketId(self.partition, self.bucket)

    @property
    def has_changes(self) -> bool:
        """Whether the rows are changes, some of which may retract rows, instead of rows of the table."""
        return self.streaming or self.before is not None

    @cached_property
    def row_count(self) -> int:
        """Number of records to read from the files, before merging."""
        return sum(self.rows_of(f) for f in (*self.files, *(self.before or ())))

    @cached_property
    def byte_size(self) -> int:
        """Total size of the files in bytes."""
        return sum(f.file_size for f in (*self.files, *(self.before or ())))

    @cached_property
    def deleted_row_count(self) -> int | None:
        """Number of records that deletion vectors delete; None when some vector's count is not known."""
        counts = [d.cardinality for d in self.deletion_files.values()]
        return None if None in counts else sum(c for c in counts if c is not None)

    def path_of(self, file: DataFileMeta) -> str:
        """Return the path of a file of this split."""
        return file.path_in(self.bucket_path)

    def rows_of(self, file: DataFileMeta) -> int:
        """Return the number of records to read from one of the files."""
        start, end = self.row_ranges.get(file.file_name, (0, file.row_count))
        return end - start

    # -- names of pypaimon -----------------------------------------------------------------------------------------

    @property
    def file_paths(self) -> list[str]:
        """Paths of all files."""
        return [self.path_of(file) for file in self.files]

    @property
    def file_size(self) -> int:
        """Total size of the files in bytes."""
        return self.byte_size

    def merged_row_count(self) -> int | None:
        """Return the number of rows of the table in the split; None where it is known only after reading."""
        if not self.raw_convertible or self.row_ranges or self.deleted_row_count is None:
            return self.row_count if self.raw_convertible and not self.deletion_files else None
        return self.row_count - self.deleted_row_count

    # -- bytes -----------------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Return the split as bytes, for another process."""
        return json.dumps(
            {
                "snapshot": self.snapshot_id,
                "partition": b64encode(self.partition).decode(),
                "bucket": self.bucket,
                "totalBuckets": self.total_buckets,
                "bucketPath": self.bucket_path,
                "raw": self.raw_convertible,
                "files": [data_file_to_json(f) for f in self.files],
                "streaming": self.streaming,
                "before": None if self.before is None else [data_file_to_json(f) for f in self.before],
                "deletions": _deletions_to_json(self.deletion_files),
                "beforeDeletions": _deletions_to_json(self.before_deletion_files),
                "branch": self.branch,
                "ofPast": self.of_past,
                "rowRanges": {name: list(rows) for name, rows in self.row_ranges.items()},
            },
            separators=(",", ":"),
        ).encode()

    @staticmethod
    def from_bytes(content: bytes) -> "Split":
        """Return the split of bytes made by to_bytes; raises InvalidInputError for other bytes."""
        try:
            value = json.loads(content)
            return Split(
                snapshot_id=value["snapshot"],
                partition=b64decode(value["partition"]),
                bucket=value["bucket"],
                total_buckets=value["totalBuckets"],
                bucket_path=value["bucketPath"],
                raw_convertible=value["raw"],
                files=tuple(data_file_from_json(f) for f in value["files"]),
                streaming=value["streaming"],
                before=None if value["before"] is None else tuple(data_file_from_json(f) for f in value["before"]),
                deletion_files=_deletions_from_json(value["deletions"]),
                before_deletion_files=_deletions_from_json(value["beforeDeletions"]),
                branch=value["branch"],
                of_past=value["ofPast"],
                row_ranges={name: (start, end) for name, (start, end) in value["rowRanges"].items()},
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInputError(f"Not a split: {error}") from error


def _deletions_to_json(deletions: Mapping[str, DeletionFile]) -> dict[str, list[Any]]:
    return {name: [d.path, d.offset, d.length, d.cardinality] for name, d in deletions.items()}


def _deletions_from_json(value: Mapping[str, list[Any]]) -> dict[str, DeletionFile]:
    return {
        name: DeletionFile(path=path, offset=offset, length=length, cardinality=cardinality)
        for name, (path, offset, length, cardinality) in value.items()
    }


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStatistics:
    """Counts of files left after each step of pruning, for explaining a plan.

    `files_total` counts all live files, also those of manifests that were not read. The next four count the files left,
    in this order; `files_after_indexes` by the file indexes in manifests. Those of `files_with_index_beside` are
    checked when the file is read. `files_by_level` counts the planned files; level 0 holds files flushed by writers,
    higher levels compacted ones.
    """

    manifests_total: int = 0
    manifests_read: int = 0
    files_total: int = 0
    files_after_partitions: int = 0
    files_after_buckets: int = 0
    files_after_statistics: int = 0
    files_after_indexes: int = 0
    files_planned: int = 0
    files_with_index_beside: int = 0
    partitions: int = 0
    buckets: int = 0
    files_by_level: Mapping[int, int] = field(default_factory=dict)
    rows_planned: int = 0
    bytes_planned: int = 0
    splits_raw: int = 0
    splits_merged: int = 0
    limit_pushed: bool = False


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Splits of one snapshot. `snapshot_id` is None for a table without snapshots."""

    snapshot_id: int | None
    schema_id: int
    splits: tuple[Split, ...]
    statistics: PlanStatistics = PlanStatistics()
