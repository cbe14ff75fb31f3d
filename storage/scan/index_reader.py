"""The index files of a snapshot, by bucket (specification page `spec/manifest`, index manifest)."""

from collections.abc import Iterable, Mapping

from interbed.storage.base.bucket_id import BucketId, by_bucket
from interbed.storage.base.errors import CorruptFileError
from interbed.storage.meta.manifest.entry import FileKind
from interbed.storage.meta.manifest.index_file import DELETION_VECTORS, IndexFileMeta
from interbed.storage.meta.manifest.index_manifest import IndexManifestEntry, read_index_manifest
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.store import TableStore
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.scan.split import DeletionFile


def index_entries(reader: ManifestReader, snapshot: Snapshot) -> list[IndexManifestEntry]:
    """The entries of the snapshot's index manifest, none when it has none; raises CorruptFileError."""
    name = snapshot.index_manifest
    if name is None:
        return []
    path = reader.path(name)
    entries = read_index_manifest(reader.content(name), source=path)
    if any(e.kind is not FileKind.ADD for e in entries):
        raise CorruptFileError(f"The index manifest {path} has entries that take files away; it may only add.")
    return entries


def index_files_by_bucket(entries: Iterable[IndexManifestEntry]) -> dict[BucketId, list[IndexFileMeta]]:
    """The index files by bucket."""
    return {bucket_id: [e.file for e in found] for bucket_id, found in by_bucket(entries).items()}


def deletion_files(
    store: TableStore, entries: Iterable[IndexManifestEntry]
) -> Mapping[BucketId, Mapping[str, DeletionFile]]:
    """Where the deletion vectors lie: by partition and bucket, then by name of the data file."""
    found: dict[BucketId, dict[str, DeletionFile]] = {}
    for entry in entries:
        if entry.file.index_type != DELETION_VECTORS:
            continue
        path = store.index_path(entry.bucket_id, entry.file)
        bucket = found.setdefault(entry.bucket_id, {})
        for place in entry.file.deletion_vectors or ():
            bucket[place.data_file_name] = DeletionFile(
                path=path, offset=place.offset, length=place.length, cardinality=place.cardinality
            )
    return found
