"""Entries of manifests and of manifest lists (specification page `spec/manifest`)."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import CorruptFileError
from interbed.storage.meta.manifest.data_file import DataFileMeta, SimpleStats


class FileKind(IntEnum):
    """Whether an entry adds or deletes its file."""

    ADD = 0
    DELETE = 1


class FileIdentifier(NamedTuple):
    """What makes two entries speak of the same file.

    The level is part of it, because files move between levels, and so are the file's indexes, which may be made anew.
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
        """The bucket that it belongs to."""
        return BucketId(self.partition, self.bucket)

    @property
    def identifier(self) -> FileIdentifier:
        """The identity of the entry's file."""
        f = self.file
        return FileIdentifier(
            self.partition, self.bucket, f.level, f.file_name, f.extra_files, f.external_path, f.embedded_file_index
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFileMeta:
    """One manifest, as a manifest list names it; the bucket and level ranges are None for older writers."""

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
    """The entries that remain when deletions have cancelled additions, in order of first appearance.

    A deletion whose addition is not among the entries is kept with `keep_deletes` (when merging some of the manifests)
    and raises CorruptFileError without, because a whole snapshot never deletes what it did not add.
    """
    entries = list(entries)
    names = {e.file.file_name for e in entries if e.kind is FileKind.ADD}
    if len(names) == len(entries):
        # Only additions, no two of them alike in name: nothing cancels anything.
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
                # What earlier manifests added, these deleted and added again (a rollback): it is there as before.
                del remaining[identifier]
        elif known is not None and known.kind is FileKind.ADD:
            del remaining[identifier]
        elif keep_deletes:
            remaining[identifier] = entry
        else:
            raise CorruptFileError(f"The data file {entry.file.file_name} is deleted, but was never added.")
    return list(remaining.values())
