"""Reading the manifest lists and manifests of snapshots."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from interbed.storage.errors import CorruptFileError
from interbed.storage.fileio.api import FileIO
from interbed.storage.manifest.entry import ManifestEntry, ManifestFileMeta
from interbed.storage.manifest.manifest_file import read_manifest
from interbed.storage.manifest.manifest_list import read_manifest_list
from interbed.storage.paths import TablePaths
from interbed.storage.snapshot.snapshot import Snapshot

_REMOTE_READERS = 16


class ManifestReader:
    """Reads the manifests of one table; keeps nothing. Raises CorruptFileError naming a file that is bad or missing."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths

    def base(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """The manifests that the snapshot took over from its predecessors."""
        return self._list(snapshot.base_manifest_list, snapshot)

    def delta(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """The manifests that the snapshot added."""
        return self._list(snapshot.delta_manifest_list, snapshot)

    def changelog(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """The manifests of the snapshot's changelog files."""
        name = snapshot.changelog_manifest_list
        return [] if name is None else self._list(name, snapshot)

    def data(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """All manifests of data files, in order of creation."""
        return [*self.base(snapshot), *self.delta(snapshot)]

    def entries(self, manifests: Sequence[ManifestFileMeta]) -> Iterator[ManifestEntry]:
        """The entries of the manifests, in order."""
        for entries in self._contents(manifests):
            yield from entries

    def manifest(self, meta: ManifestFileMeta) -> list[ManifestEntry]:
        """The entries of one manifest."""
        path = self._paths.manifest(meta.file_name)
        return read_manifest(self._read(path), source=path)

    def content(self, name: str) -> bytes:
        """The bytes of a file of the manifest directory."""
        return self._read(self._paths.manifest(name))

    def _contents(self, manifests: Sequence[ManifestFileMeta]) -> Iterable[list[ManifestEntry]]:
        # Decoding is bound to one core; only waiting for a remote store gains from threads.
        if self._file_io.scheme == "file" or len(manifests) < 2:
            yield from map(self.manifest, manifests)
            return
        with ThreadPoolExecutor(min(_REMOTE_READERS, len(manifests))) as pool:
            yield from pool.map(self.manifest, manifests)

    def _list(self, name: str, snapshot: Snapshot) -> list[ManifestFileMeta]:
        path = self._paths.manifest(name)
        try:
            return read_manifest_list(self._read(path), source=path)
        except CorruptFileError as error:
            raise CorruptFileError(f"Snapshot {snapshot.id} can't be read: {error}") from error

    def _read(self, path: str) -> bytes:
        try:
            return self._file_io.read_bytes(path)
        except FileNotFoundError:
            raise CorruptFileError(
                f"{path} is missing. The snapshot that names it may have expired while it was read; read the newest."
            ) from None
