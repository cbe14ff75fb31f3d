"""Looking deletion vectors up while the files of a split are read."""

from collections.abc import Callable, Mapping

from interbed.storage.base.fileio.api import FileIO
from interbed.storage.files.deletion.index_file import read_vectors
from interbed.storage.files.deletion.vector import DeletionVector
from interbed.storage.meta.manifest.data_file import DataFileMeta
from interbed.storage.meta.manifest.index_file import DeletionVectorRange
from interbed.storage.scan.split import DeletionFile


def deletions_in(
    file_io: FileIO, places: Mapping[str, DeletionFile]
) -> Callable[[DataFileMeta], DeletionVector | None]:
    """Which rows of a data file are gone, by where the deletion vectors lie; a vector is read when asked for.

    What is returned raises CorruptFileError naming an index file that can't be read.
    """

    def deleted_of(file: DataFileMeta) -> DeletionVector | None:
        found = places.get(file.file_name)
        if found is None:
            return None
        place = DeletionVectorRange(
            data_file_name=file.file_name, offset=found.offset, length=found.length, cardinality=found.cardinality
        )
        return dict(read_vectors(file_io, found.path, [place]))[file.file_name]

    return deleted_of
