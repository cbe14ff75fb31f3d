"""Index files of deletion vectors (specification page `spec/tableindex`, deletion vectors).

A file is the version, one byte, then the vectors of several data files one after the other; the index manifest says
which data file's vector lies where.
"""

from collections.abc import Iterator, Mapping, Sequence

from interbed.storage.base.errors import CorruptFileError, UnsupportedVersionError
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.base.fileio.writing import write_file
from interbed.storage.files.deletion.vector import FRAME_BYTES, MAGIC_64, DeletionVector, decode
from interbed.storage.meta.manifest.index_manifest import DELETION_VECTORS, DeletionVectorRange, IndexFileMeta

VERSION = 1
_VERSION_BYTES = 1
_WAY_OUT = (
    "Put a copy of the file back, roll the table back to a snapshot before it (table.rollback_to), or write the "
    "partition anew by an overwrite."
)


def write_vectors(
    file_io: FileIO, path: str, vectors: Mapping[str, DeletionVector], *, bitmap64: bool
) -> IndexFileMeta:
    """Write the vectors by name of their data files to a new index file; its metadata.

    On an error the file is deleted.
    """
    content = bytearray([VERSION])
    ranges: list[DeletionVectorRange] = []
    for name, vector in vectors.items():
        encoded = vector.encode(bitmap64=bitmap64)
        # The length that Paimon notes counts size and checksum for 64 bits alone.
        length = len(encoded) if bitmap64 else len(encoded) - FRAME_BYTES
        ranges.append(
            DeletionVectorRange(data_file_name=name, offset=len(content), length=length, cardinality=len(vector))
        )
        content += encoded
    write_file(file_io, path, bytes(content))
    return IndexFileMeta(
        index_type=DELETION_VECTORS,
        file_name=path.rpartition("/")[2],
        file_size=len(content),
        row_count=len(ranges),
        deletion_vectors=tuple(ranges),
    )


def read_vectors(
    file_io: FileIO, path: str, ranges: Sequence[DeletionVectorRange]
) -> Iterator[tuple[str, DeletionVector]]:
    """Some of the vectors of an index file, each with its data file's name; without any the file is not read.

    Raises CorruptFileError naming the file, UnsupportedVersionError for a version that is not known.
    """
    if ranges:
        yield from vectors_in(read_index_file(file_io, path), path, ranges)


def read_index_file(file_io: FileIO, path: str) -> bytes:
    """The bytes of an index file, for vectors_in; raises CorruptFileError naming it, UnsupportedVersionError."""
    try:
        content = file_io.read_bytes(path)
    except FileNotFoundError:
        raise CorruptFileError(
            f"The deletion vectors in {path} are missing. The snapshot that names them may have expired while it was "
            "read; read the newest."
        ) from None
    if not content:
        raise CorruptFileError(f"{path} is empty; it should hold deletion vectors. {_WAY_OUT}")
    if content[0] != VERSION:
        raise UnsupportedVersionError(
            f"{path} has version {content[0]} of deletion vectors; this version of interbed reads version {VERSION}."
        )
    return content


def vectors_in(
    content: bytes, path: str, ranges: Sequence[DeletionVectorRange]
) -> Iterator[tuple[str, DeletionVector]]:
    """Some of the vectors of an index file's bytes; raises CorruptFileError naming the file."""
    for found in ranges:
        source = f"{path}, for {found.data_file_name},"
        try:
            vector = decode(_framed(content, found, source), source=source)
        except CorruptFileError as error:
            raise CorruptFileError(f"{error} {_WAY_OUT}") from error
        if found.cardinality is not None and found.cardinality != len(vector):
            raise CorruptFileError(
                f"{source} has a deletion vector of {len(vector)} rows where the manifest says {found.cardinality}. "
                f"{_WAY_OUT}"
            )
        yield found.data_file_name, vector


def _framed(content: bytes, found: DeletionVectorRange, source: str) -> bytes:
    if not _VERSION_BYTES <= found.offset <= len(content) - FRAME_BYTES - len(MAGIC_64):
        raise CorruptFileError(f"{source} has no deletion vector at offset {found.offset}.")
    wide = content[found.offset + 4 : found.offset + 8] == MAGIC_64
    length = found.length if wide else found.length + FRAME_BYTES
    return content[found.offset : found.offset + length]
