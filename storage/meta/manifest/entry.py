"""Data files in manifests: a file's metadata with the statistics of its columns, and entries of manifests.

Specification page `spec/manifest`: data file meta, SimpleStats, manifest entry, manifest file meta. The JSON form of a
data file's metadata is interbed's own: commit messages and splits carry it between processes.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, NamedTuple

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import CorruptFileError, plain_errors
from interbed.storage.base.path_name import entry_name
from interbed.storage.io.resolve import normalize_path

ROW_ID = "_ROW_ID"
"""The column of row ids in files that store them."""

EMPTY_ROW = b"\x00\x00\x00\x00" + b"\x00" * 8
"""Serialised BinaryRow without fields: the arity, then the header and null bits of an empty row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleStats:
    """Least and greatest values and null counts of a list of columns.

    `min_values` and `max_values` are serialised BinaryRows (4 bytes of arity, big-endian, then the row), one field
    per column, null where unknown; `null_counts` has one entry per column, None where unknown.
    """

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...]


EMPTY_STATS = SimpleStats(min_values=EMPTY_ROW, max_values=EMPTY_ROW, null_counts=())


class FileSource(IntEnum):
    """Origin of a data file: a write or a compaction."""

    APPEND = 0
    COMPACT = 1


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileMeta:
    """One data file. Sizes in bytes, `creation_time_millis` is wall-clock time without zone, as Paimon writes it.

    `min_key` and `max_key` are serialised BinaryRows of the trimmed primary key (empty rows for append tables).
    `value_stats` covers `value_stats_cols`, or all columns of the file (`write_cols`, by default those of its schema)
    when that is None.
    """

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes = EMPTY_ROW
    max_key: bytes = EMPTY_ROW
    key_stats: SimpleStats = EMPTY_STATS
    value_stats: SimpleStats = EMPTY_STATS
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int
    extra_files: tuple[str, ...] = ()
    creation_time_millis: int
    delete_row_count: int | None = None
    embedded_file_index: bytes | None = None
    file_source: FileSource | None = None
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None

    @property
    def format(self) -> str:
        """Format of the file by its name's suffix: parquet, orc or avro."""
        return self.file_name.rsplit(".", 1)[-1]

    @property
    def stores_row_ids(self) -> bool:
        """Whether the file has a column of row ids, because it took rows over from other files."""
        return self.write_cols is not None and ROW_ID in self.write_cols

    @property
    def lacks_columns(self) -> bool:
        """Whether the file may have only some columns of the table."""
        return self.write_cols is not None and not self.stores_row_ids

    def stats_names(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Return the columns that `value_stats` covers; `columns` are those of the file's schema."""
        return self.value_stats_cols if self.value_stats_cols is not None else self.write_cols or columns

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the file and of its extra files in the same directory (file indexes)."""
        return (self.file_name, *self.extra_files)

    def path_in(self, directory: str) -> str:
        """Return the path of the file; `directory` is its bucket's.

        Raises CorruptFileError for a name with directories.
        """
        if self.external_path is not None:
            # The spelling is that of the writer, most often with `file:`.
            return normalize_path(self.external_path)
        return f"{directory}/{entry_name(self.file_name, directory)}"

    def paths_in(self, directory: str) -> list[str]:
        """Return the paths of the file and of its extra files; raises CorruptFileError for a name with directories."""
        path = self.path_in(directory)
        if not self.extra_files:
            return [path]
        beside = path.rpartition("/")[0]
        return [path, *(f"{beside}/{entry_name(name, beside)}" for name in self.extra_files)]

    def upgraded(self, level: int) -> "DataFileMeta":
        """Return the same file moved to another level without a rewrite."""
        return replace(self, level=level)


def data_file_to_json(file: DataFileMeta) -> dict[str, Any]:
    """Return a data file's metadata as a JSON object."""
    return {
        "name": file.file_name,
        "size": file.file_size,
        "rows": file.row_count,
        "minKey": _base64(file.min_key),
        "maxKey": _base64(file.max_key),
        "keyStats": _stats_to_json(file.key_stats),
        "valueStats": _stats_to_json(file.value_stats),
        "minSequence": file.min_sequence_number,
        "maxSequence": file.max_sequence_number,
        "schemaId": file.schema_id,
        "level": file.level,
        "extraFiles": list(file.extra_files),
        "created": file.creation_time_millis,
        "deletes": file.delete_row_count,
        "index": None if file.embedded_file_index is None else _base64(file.embedded_file_index),
        "source": file.file_source,
        "valueStatsCols": None if file.value_stats_cols is None else list(file.value_stats_cols),
        "externalPath": file.external_path,
        "firstRowId": file.first_row_id,
        "writeCols": None if file.write_cols is None else list(file.write_cols),
    }


def data_file_from_json(value: dict[str, Any]) -> DataFileMeta:
    """Return a data file's metadata from a JSON object made by data_file_to_json."""
    return DataFileMeta(
        file_name=value["name"],
        file_size=value["size"],
        row_count=value["rows"],
        min_key=b64decode(value["minKey"]),
        max_key=b64decode(value["maxKey"]),
        key_stats=_stats_from_json(value["keyStats"]),
        value_stats=_stats_from_json(value["valueStats"]),
        min_sequence_number=value["minSequence"],
        max_sequence_number=value["maxSequence"],
        schema_id=value["schemaId"],
        level=value["level"],
        extra_files=tuple(value["extraFiles"]),
        creation_time_millis=value["created"],
        delete_row_count=value["deletes"],
        embedded_file_index=None if value["index"] is None else b64decode(value["index"]),
        file_source=None if value["source"] is None else FileSource(value["source"]),
        value_stats_cols=None if value["valueStatsCols"] is None else tuple(value["valueStatsCols"]),
        external_path=value["externalPath"],
        first_row_id=value["firstRowId"],
        write_cols=None if value["writeCols"] is None else tuple(value["writeCols"]),
    )


def _stats_to_json(stats: SimpleStats) -> list[Any]:
    return [_base64(stats.min_values), _base64(stats.max_values), list(stats.null_counts)]


def _stats_from_json(value: list[Any]) -> SimpleStats:
    return SimpleStats(min_values=b64decode(value[0]), max_values=b64decode(value[1]), null_counts=tuple(value[2]))


def _base64(content: bytes) -> str:
    return b64encode(content).decode()


class FileKind(IntEnum):
    """Whether an entry adds or deletes its file."""

    ADD = 0
    DELETE = 1


class FileIdentifier(NamedTuple):
    """Identity of the file of an entry.

    It includes the level, because files move between levels, and the file's indexes, which may be rewritten.
    """

    partition: bytes
    bucket: int
    level: int
    file_name: str
    extra_files: tuple[str, ...]
    external_path: str | None
    embedded_file_index: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """One file added to or deleted from a bucket; `partition` is a serialised BinaryRow."""

    kind: FileKind
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFileMeta

    @property
    def bucket_id(self) -> BucketId:
        """Bucket of the file, with its partition."""
        return BucketId(self.partition, self.bucket)

    @property
    def identifier(self) -> FileIdentifier:
        """Identity of the file of this entry."""
        f = self.file
        return FileIdentifier(
            self.partition, self.bucket, f.level, f.file_name, f.extra_files, f.external_path, f.embedded_file_index
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFileMeta:
    """One manifest in a manifest list; the bucket and level ranges are None for older writers."""

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None


def merge_entries(entries: Iterable[ManifestEntry], *, keep_deletes: bool = False) -> list[ManifestEntry]:
    """Return the entries that remain when deletions have cancelled additions, in order of first appearance.

    A deletion without its addition is kept with `keep_deletes` (when merging some of the manifests); otherwise it
    raises CorruptFileError, because a whole snapshot only deletes files that it added.
    """
    entries = list(entries)
    names = {e.file.file_name for e in entries if e.kind is FileKind.ADD}
    if len(names) == len(entries):
        # There are only additions with different names: nothing cancels anything.
        return entries
    remaining: dict[FileIdentifier, ManifestEntry] = {}
    for entry in entries:
        identifier = entry.identifier
        known = remaining.get(identifier)
        if entry.kind is FileKind.ADD:
            if known is None:
                remaining[identifier] = entry
            elif known.kind is FileKind.ADD:
                raise CorruptFileError(f"The data file {entry.file.file_name} is added twice.")
            else:
                # Earlier manifests added it, and these deleted it and added it again (a rollback): it exists as before.
                del remaining[identifier]
        elif known is not None and known.kind is FileKind.ADD:
            del remaining[identifier]
        elif keep_deletes:
            remaining[identifier] = entry
        else:
            raise CorruptFileError(f"The data file {entry.file.file_name} is deleted, but was never added.")
    return list(remaining.values())
