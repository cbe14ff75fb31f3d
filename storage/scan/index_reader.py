"""The index files of a snapshot, by bucket (specification page `spec/manifest`, index manifest)."""

from collections.abc import Iterable, Mapping

from interbed.storage.base.errors import CorruptFileError
from interbed.storage.meta.manifest.entry import FileKind
from interbed.storage.meta.manifest.index_file import DELETION_VECTORS, IndexFileMeta
from interbed.storage.meta.manifest.index_manifest import IndexManifestEntry, read_index_manifest
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.store import TableStore
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.scan.split import DeletionFile

BucketId = tuple[bytes, int]


def index_entries(reader: ManifestReader, snapshot: Snapshot) -> list[IndexManifestEntry]:
    """The entries of the snapshot's index manifest, none when it has none; raises CorruptFileError."""
    name = snapshot.index_manifest
    if name is None:
        return []
    entries = read_index_manifest(reader.content(name), source=name)
    if any(e.kind is not FileKind.ADD for e in entries):
        raise CorruptFileError(f"The index manifest {name} has entries that take files away; it may only add.")
    return entries


def by_bucket(entries: Iterable[IndexManifestEntry]) -> dict[BucketId, list[IndexFileMeta]]:
    """The index files by partition and bucket."""
    files: dict[BucketId, list[IndexFileMeta]] = {}
    for entry in entries:
        files.setdefault((entry.partition, entry.bucket), []).append(entry.file)
    return files


def deletion_files(
    store: TableStore, entries: Iterable[IndexManifestEntry]
) -> Mapping[BucketId, Mapping[str, DeletionFile]]:
    """Where the deletion vectors lie: by partition and bucket, then by name of the data file."""
    found: dict[BucketId, dict[str, DeletionFile]] = {}
    for entry in entries:
        if entry.file.index_type != DELETION_VECTORS:
            continue
        path = store.index_path(entry.partition, entry.bucket, entry.file)
        bucket = found.setdefault((entry.partition, entry.bucket), {})
        for place in entry.file.deletion_vectors or ():
            bucket[place.data_file_name] = DeletionFile(
                path=path, offset=place.offset, length=place.length, cardinality=place.cardinality
            )
    return found
