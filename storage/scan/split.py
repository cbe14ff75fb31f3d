"""Splits and plans: a split is the files of one bucket that one task reads together; a plan is the splits of one scan.

A plan also counts the files that each step of pruning left.

`SplitGenerator` packs the files of one bucket into splits. Files of a primary-key table whose key ranges overlap must
be merged together, so a section of them is never divided. Sections and files are packed, in order, into splits of about
a target size.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import InvalidInputError, plain_errors
from interbed.storage.base.types.data_type import DataType
from interbed.storage.lsm.levels import sections_by_key
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


_T = TypeVar("_T")

Section = tuple[DataFileMeta, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Files of one split; `raw_convertible` as in Split."""

    files: tuple[DataFileMeta, ...]
    raw_convertible: bool


def pack_in_order(items: Sequence[_T], weight: Callable[[_T], int], target: int) -> list[list[_T]]:
    """Return the items in their order, in groups that end before their weight would exceed the target.

    Every item is in exactly one group; only a group of one item may exceed it.
    """
    groups: list[list[_T]] = []
    total = 0
    for item in items:
        item_weight = weight(item)
        if not groups or total + item_weight > target:
            groups.append([])
            total = 0
        groups[-1].append(item)
        total += item_weight
    return groups


def sections_of(files: Sequence[DataFileMeta], key_types: Sequence[DataType]) -> list[Section]:
    """Return the files of one bucket in sections, in key order; keys of different sections differ."""
    if _one_sorted_level(files):
        # A level above 0 is a sorted run: no two of its files share a key.
        return [(f,) for f in files]
    return sections_by_key(files, key_types)


def apart(files: Sequence[DataFileMeta]) -> list[Section]:
    """Return one section for each file. No two files show the same key, though their key ranges may overlap."""
    return [(f,) for f in files]


def merge_tree_groups(sections: Sequence[Section], *, target_size: int, open_file_cost: int) -> list[FileGroup]:
    """Return the splits of one bucket of a primary-key table."""
    packed = pack_in_order(sections, lambda s: max(sum(f.file_size for f in s), open_file_cost), target_size)
    return [
        FileGroup(
            files=tuple(f for section in group for f in section),
            # Sections of one file without deletes hold each key once, so they need no merging.
            raw_convertible=all(is_raw(section) for section in group),
        )
        for group in packed
    ]


def append_groups(
    files: Sequence[DataFileMeta],
    *,
    target_size: int,
    open_file_cost: int,
    index_of: Callable[[DataFileMeta], str | None] | None = None,
) -> list[FileGroup]:
    """Return the splits of one bucket of an append table, in the order in which the rows were written.

    `index_of` is given where rows have no promised order. It names the index file of a file's deletion vector, if it
    has one: files that share one go to the same split, if they do not exceed the target together.
    """

    def weight(section: Section) -> int:
        return sum(max(f.file_size, open_file_cost) for f in section)

    ordered = sorted(files, key=lambda f: f.min_sequence_number)
    sections: Iterable[Section] = ((file,) for file in ordered)
    if index_of is not None:
        sharing = sharing_sections(ordered, index_of)
        whole = (((s,) if weight(s) <= target_size else apart(s)) for s in sharing)
        sections = (section for several in whole for section in several)
    packed = pack_in_order(list(sections), weight, target_size)
    return [FileGroup(files=tuple(f for s in group for f in s), raw_convertible=True) for group in packed]


def column_groups(sections: Sequence[Section], *, target_size: int, open_file_cost: int) -> list[FileGroup]:
    """Return the splits of one bucket of a table whose sections are the files with columns of the same rows.

    Rows that are in one file with all columns are raw.
    """
    packed = pack_in_order(sections, lambda s: max(sum(f.file_size for f in s), open_file_cost), target_size)
    return [
        FileGroup(
            files=tuple(f for section in group for f in section),
            raw_convertible=all(len(section) == 1 for section in group),
        )
        for group in packed
    ]


def sharing_sections(files: Sequence[DataFileMeta], index_of: Callable[[DataFileMeta], str | None]) -> list[Section]:
    """Return the files grouped by the index file that they share; files without one are alone.

    Groups are in order of first appearance.
    """
    found: dict[tuple[bool, str], list[DataFileMeta]] = {}
    for file in files:
        index = index_of(file)
        found.setdefault((index is None, index or file.file_name), []).append(file)
    return [tuple(section) for section in found.values()]


def is_raw(section: Section) -> bool:
    """Return whether the section is one file that holds exactly the rows of the table in its key range.

    Old writers did not count deletes. Paimon assumes that their files have none; that is only certain of files that
    left level 0 by a full compaction, so here they are merged, which costs time but no row.
    """
    return len(section) == 1 and section[0].delete_row_count == 0


def _one_sorted_level(files: Sequence[DataFileMeta]) -> bool:
    return all(f.level > 0 for f in files) and len({f.level for f in files}) == 1
