"""Looking deletion vectors up while the files of a split are read."""

from collections.abc import Callable, Mapping
from threading import Lock

from interbed.storage.base.fileio.api import FileIO
from interbed.storage.files.deletion.index_file import read_vectors
from interbed.storage.files.deletion.vector import DeletionVector
from interbed.storage.meta.manifest.data_file import DataFileMeta
from interbed.storage.meta.manifest.index_file import DeletionVectorRange
from interbed.storage.scan.split import DeletionFile


def deletions_in(
    file_io: FileIO, places: Mapping[str, DeletionFile]
) -> Callable[[DataFileMeta], DeletionVector | None]:
    """Which rows of a data file are gone, by where the deletion vectors lie.

    An index file is read once, when the first of its vectors is asked for. What is returned raises CorruptFileError
    naming an index file that can't be read; threads may share it.
    """
    ranges: dict[str, list[DeletionVectorRange]] = {}
    for name, place in places.items():
        ranges.setdefault(place.path, []).append(
            DeletionVectorRange(
                data_file_name=name, offset=place.offset, length=place.length, cardinality=place.cardinality
            )
        )
    vectors: dict[str, dict[str, DeletionVector]] = {}
    lock = Lock()

    def deleted_of(file: DataFileMeta) -> DeletionVector | None:
        place = places.get(file.file_name)
        if place is None:
            return None
        with lock:
            if place.path not in vectors:
                vectors[place.path] = dict(read_vectors(file_io, place.path, ranges[place.path]))
        return vectors[place.path][file.file_name]

    return deleted_of
