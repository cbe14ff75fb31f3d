"""Deletion vectors of the table as entries of manifests of deletes, which name the table's own index files.

A vector of 64 bits is what Iceberg has in Puffin files, byte for byte, and its readers go to its place without looking
at the rest of the file. Vectors of 32 bits are not. Source: documentation page `iceberg/primary-key-table`, "Deletion
Vector Support".
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.typedef import Record

from interbed.iceberg.meta.new_manifests import NEWEST_VERSION
from interbed.iceberg.publish.data_file import new_entry
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.meta.manifest.index_file import DELETION_VECTORS, IndexFileMeta
from interbed.storage.meta.manifest.index_manifest import IndexManifestEntry

DataPath = Callable[[BucketId, str], str]


def vector_entries(
    entries: Iterable[IndexManifestEntry],
    snapshot_id: int,
    *,
    data_path: DataPath,
    index_path: Callable[[BucketId, IndexFileMeta], str],
    partition: Callable[[bytes], Record],
) -> Iterator[ManifestEntry]:
    """The entries of all vectors of a snapshot's index manifest; raises NotSupportedError for one of 32 bits."""
    for entry in entries:
        file = entry.file
        if file.index_type != DELETION_VECTORS:
            continue
        path = index_path(entry.bucket_id, file)
        if not is_wide(file):
            raise NotSupportedError(
                f"{path} has deletion vectors of 32 bits, which readers of Iceberg do not know; compact the table "
                "fully, after which they are of 64 bits."
            )
        for vector in file.deletion_vectors or ():
            made = DataFile.from_args(
                _table_format_version=NEWEST_VERSION,
                content=DataFileContent.POSITION_DELETES,
                file_path=path,
                file_format=FileFormat.PUFFIN,
                partition=partition(entry.partition),
                record_count=vector.cardinality,
                file_size_in_bytes=file.file_size,
                referenced_data_file=data_path(entry.bucket_id, vector.data_file_name),
                content_offset=vector.offset,
                content_size_in_bytes=vector.length,
            )
            yield new_entry(made, snapshot_id)


def is_wide(file: IndexFileMeta) -> bool:
    """Whether all vectors of an index file are of 64 bits and say how many rows they delete.

    Of such a vector alone the noted length is all that lies between it and what comes next.
    """
    ranges: Sequence[tuple[int, int]] = sorted((v.offset, v.length) for v in file.deletion_vectors or ())
    ends = [(offset + length, following) for (offset, length), (following, _) in pairwise(ranges)]
    if ranges:
        ends.append((sum(ranges[-1]), file.file_size))
    known = all(vector.cardinality is not None for vector in file.deletion_vectors or ())
    return known and all(end == following for end, following in ends)
