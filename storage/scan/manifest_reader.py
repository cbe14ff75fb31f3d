"""Reader of the manifest lists, manifests and index manifests of snapshots (specification page `spec/manifest`).

Decoded entries are cached for the process, within bounds: manifests never change, and a plan of a table with many
commits needs few manifests that the plan before it did not decode. For object stores the bytes are cached as well, by
file names, which are unique: there a saved request is worth more than noticing that a file was deleted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from interbed.storage.base.bucket_id import BucketId, by_bucket
from interbed.storage.base.errors import CorruptFileError
from interbed.storage.base.memory_cache import MemoryCache
from interbed.storage.io.api import FileIO
from interbed.storage.io.parallel import PARALLEL_REQUESTS, in_parallel
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import FileKind, ManifestEntry, ManifestFileMeta
from interbed.storage.meta.manifest.index_manifest import (
    DELETION_VECTORS,
    IndexFileMeta,
    IndexManifestEntry,
    read_index_manifest,
)
from interbed.storage.meta.manifest.manifest_file import read_manifest, read_manifest_list
from interbed.storage.meta.paths import TablePaths
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.scan.split import DeletionFile

_T = TypeVar("_T")
_R = TypeVar("_R", covariant=True)

CACHED_BYTES = 32 << 20
"""Budget of decoded manifests in memory, estimated."""
_ENTRY_BYTES = 2_000
"""Estimated size of an entry: its metadata has some dozen values and statistics."""
_CACHE = MemoryCache()

CONTENT_BYTES = 32 << 20
"""Budget of the bytes of manifests from object stores in memory."""
_CONTENTS = MemoryCache()


@dataclass(frozen=True, slots=True)
class _FileContent:
    """Bytes of one file."""

    content: bytes

    @property
    def nbytes(self) -> int:
        """Size of the content in bytes."""
        return len(self.content)


def note_content(file_io: FileIO, path: str, content: bytes) -> None:
    """Cache the content of a file that this process has written to a manifest directory in an object store."""
    if file_io.capabilities.slow_requests:
        _CONTENTS.get(path, lambda: _FileContent(content), limit=CONTENT_BYTES)


@dataclass(frozen=True, slots=True)
class _DecodedFile(Generic[_T]):
    """Decoded records of one file."""

    records: tuple[_T, ...]
    file_bytes: int

    @property
    def nbytes(self) -> int:
        """Estimated size in memory, with the bytes of the file, which are the key in the cache."""
        return _ENTRY_BYTES * len(self.records) + self.file_bytes


class _RecordDecoder(Protocol[_R]):
    """Decoder of the content of a file, which errors call `source`."""

    def __call__(self, content: bytes, *, source: str) -> Sequence[_R]:
        """Return the records of the file."""
        ...


class ManifestReader:
    """Reader of the manifests of one table. Raises CorruptFileError naming a file that is damaged or missing."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths

    def base(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """Return the manifests that the snapshot inherited from its predecessors."""
        return self._list(snapshot.base_manifest_list, snapshot.base_manifest_list_size, snapshot)

    def delta(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """Return the manifests that the snapshot added."""
        return self._list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size, snapshot)

    def changelog(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """Return the manifests of the snapshot's changelog files."""
        name = snapshot.changelog_manifest_list
        return [] if name is None else self._list(name, snapshot.changelog_manifest_list_size, snapshot)

    def data(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """Return all manifests of data files, in order of creation."""
        base, delta = in_parallel(self._file_io, [partial(self.base, snapshot), partial(self.delta, snapshot)])
        return [*base, *delta]

    def entries(self, manifests: Sequence[ManifestFileMeta]) -> Iterator[ManifestEntry]:
        """Yield the entries of the manifests, in order."""
        for entries in self._contents(manifests):
            yield from entries

    def manifest(self, meta: ManifestFileMeta) -> Sequence[ManifestEntry]:
        """Return the entries of one manifest."""
        return self._decoded(meta.file_name, meta.file_size, read_manifest)

    def path(self, name: str) -> str:
        """Return the path of a file of the manifest directory."""
        return self._paths.manifest(name)

    def content(self, name: str) -> bytes:
        """Return the bytes of a file of the manifest directory."""
        return self._read(self._paths.manifest(name))

    def _contents(self, manifests: Sequence[ManifestFileMeta]) -> Iterable[Sequence[ManifestEntry]]:
        # Decoding uses one core; only waiting for a remote file system gains from threads.
        if not self._file_io.capabilities.slow_requests:
            yield from map(self.manifest, manifests)
            return
        for start in range(0, len(manifests), PARALLEL_REQUESTS):
            some = manifests[start : start + PARALLEL_REQUESTS]
            yield from in_parallel(self._file_io, [partial(self.manifest, m) for m in some])

    def _list(self, name: str, size: int | None, snapshot: Snapshot) -> list[ManifestFileMeta]:
        try:
            return list(self._decoded(name, size, read_manifest_list))
        except CorruptFileError as error:
            place = self._paths.snapshot(snapshot.id)
            raise CorruptFileError(f"Snapshot {snapshot.id} ({place}) can't be read: {error}") from error

    def _decoded(self, name: str, size: int | None, decode: "_RecordDecoder[_T]") -> Sequence[_T]:
        """Return the records of a file of the manifest directory. `size` is in bytes, None where it is not known."""
        path = self._paths.manifest(name)
        try:
            return self._decoded_of(path, size, decode)
        except CorruptFileError:
            _CONTENTS.discard(path)
            if not self._file_io.capabilities.slow_requests:
                raise
        # A response may have been cut short or belong to another request. Real damage persists.
        try:
            return self._decoded_of(path, size, decode)
        except CorruptFileError:
            _CONTENTS.discard(path)
            raise

    def _decoded_of(self, path: str, size: int | None, decode: "_RecordDecoder[_T]") -> Sequence[_T]:
        # The key is the content, not the name, so that a file that was damaged or deleted is noticed although it is
        # cached.
        content = self._read(path)
        if size not in (None, len(content)):
            raise CorruptFileError(f"{path} has {len(content)} bytes instead of {size}: it is damaged.")
        made = _CACHE.get(
            (decode, content),
            lambda: _DecodedFile(tuple(decode(content, source=path)), len(content)),
            limit=CACHED_BYTES,
        )
        return made.records

    def _read(self, path: str) -> bytes:
        if not self._file_io.capabilities.slow_requests:
            return self._fetched(path)
        return _CONTENTS.get(path, lambda: _FileContent(self._fetched(path)), limit=CONTENT_BYTES).content

    def _fetched(self, path: str) -> bytes:
        try:
            return self._file_io.read_bytes(path)
        except FileNotFoundError:
            raise CorruptFileError(
                f"{path} is missing. The snapshot that names it may have expired while it was read; read the newest."
            ) from None


def index_entries(reader: ManifestReader, snapshot: Snapshot) -> list[IndexManifestEntry]:
    """Return the entries of the snapshot's index manifest, none without one; raises CorruptFileError."""
    name = snapshot.index_manifest
    if name is None:
        return []
    path = reader.path(name)
    entries = read_index_manifest(reader.content(name), source=path)
    if any(e.kind is not FileKind.ADD for e in entries):
        raise CorruptFileError(f"The index manifest {path} has entries that remove files; it may only add.")
    return entries


def index_files_by_bucket(entries: Iterable[IndexManifestEntry]) -> dict[BucketId, list[IndexFileMeta]]:
    """Return the index files by bucket."""
    return {bucket_id: [e.file for e in found] for bucket_id, found in by_bucket(entries).items()}


def deletion_files(
    store: FileStore, entries: Iterable[IndexManifestEntry]
) -> Mapping[BucketId, Mapping[str, DeletionFile]]:
    """Return the locations of deletion vectors by partition and bucket, then by name of the data file."""
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
