"""Deletion vectors of the table as Iceberg's: for each of its index files a Puffin file of the same vectors beside the
metadata, and entries of manifests of deletes that say where in it each of them is.

An index file has the vectors, but not the footer that says of which data files they are: readers that take whole Puffin
files can't go by it. Java Paimon's entries name index files; here they are replaced when vectors change. A Puffin
file is called by its index file, so that the next run goes on with what a killed one left. Source: documentation page
`iceberg/primary-key-table`, "Deletion Vector Support".
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.typedef import Record

from interbed.iceberg.meta.live_file import LiveFile
from interbed.iceberg.meta.new_manifests import NEWEST_VERSION
from interbed.iceberg.meta.puffin import VectorPlace, puffin_of
from interbed.iceberg.publish.data_file import new_entry
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.base.fileio.resolve import normalize_path
from interbed.storage.base.fileio.writing import write_errors
from interbed.storage.files.deletion.index_file import read_vectors
from interbed.storage.meta.manifest.index_manifest import DELETION_VECTORS, IndexFileMeta, IndexManifestEntry

DataPath = Callable[[BucketId, str], str]

_CREATED_BY = "interbed"
"""Without a version: what another version has written is the same file."""


class VectorFiles:
    """The Puffin files of one run of a publication. `made` are those that no published snapshot named before: they are
    to be durable before one does.

    They stay when another run was faster, because that one names files of the same names.
    """

    def __init__(
        self,
        files: FileIO,
        *,
        index_path: Callable[[BucketId, IndexFileMeta], str],
        puffin_path: Callable[[str], str],
        partition: Callable[[bytes], Record],
    ) -> None:
        self.made: list[str] = []
        self._files = files
        self._index_path = index_path
        self._puffin_path = puffin_path
        self._partition = partition

    def entries(
        self,
        entries: Iterable[IndexManifestEntry],
        snapshot_id: int,
        *,
        named: Iterable[LiveFile],
        data_path: DataPath,
    ) -> Iterator[ManifestEntry]:
        """The entries of all vectors of a snapshot's index manifest; `named` are those of the published one before.

        Vectors are read only of index files whose Puffin file that one does not name. Raises CorruptFileError,
        UnsupportedVersionError, StorageAccessError.
        """
        before: dict[str, dict[str, LiveFile]] = {}
        for file in named:
            before.setdefault(file.path, {})[file.referenced or ""] = file
        for entry in entries:
            ranges = entry.file.deletion_vectors
            if entry.file.index_type != DELETION_VECTORS or not ranges:
                continue
            path = self._puffin_path(entry.file.file_name)
            referenced = {one.data_file_name: data_path(entry.bucket_id, one.data_file_name) for one in ranges}
            known = before.get(path, {})
            if known.keys() == set(referenced.values()):
                size = next(iter(known.values())).size
                places = {name: _place_of(file) for name, file in known.items()}
            else:
                size, places = self._make(path, entry, referenced)
            for name, place in places.items():
                made = DataFile.from_args(
                    _table_format_version=NEWEST_VERSION,
                    content=DataFileContent.POSITION_DELETES,
                    file_path=path,
                    file_format=FileFormat.PUFFIN,
                    partition=self._partition(entry.partition),
                    record_count=place.records,
                    file_size_in_bytes=size,
                    referenced_data_file=name,
                    content_offset=place.offset,
                    content_size_in_bytes=place.length,
                )
                yield new_entry(made, snapshot_id)

    def _make(
        self, path: str, entry: IndexManifestEntry, referenced: Mapping[str, str]
    ) -> tuple[int, dict[str, VectorPlace]]:
        """Write the Puffin file of an index file where it is not there yet; its size, and the places of its vectors."""
        source = self._index_path(entry.bucket_id, entry.file)
        vectors = read_vectors(self._files, source, entry.file.deletion_vectors or ())
        content, places = puffin_of({referenced[name]: vector for name, vector in vectors}, _CREATED_BY)
        own = normalize_path(path)
        if not self._is_there(own, content):
            with write_errors(own):
                self._files.overwrite(own, content, durable=False)
        self.made.append(own)
        return len(content), places

    def _is_there(self, path: str, content: bytes) -> bool:
        try:
            return self._files.read_bytes(path) == content
        except FileNotFoundError:
            return False


def _place_of(file: LiveFile) -> VectorPlace:
    return VectorPlace(offset=file.offset or 0, length=file.length or 0, records=file.records)
