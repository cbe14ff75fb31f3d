"""Files that clients name, read whole: of a limited size, and no devices or pipes, which have no end."""

from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.warehouse import with_files
from interbed.storage.io.api import FileIO

FILE_BYTES_MAX = 256 << 20
"""Bytes of a file of metadata, as stored and decompressed, that are read."""


class UnboundedFileError(MetastoreError):
    """A file is too large, or has no size: it was not read."""


def read_bounded(location: str, message: str, *, bytes_max: int = FILE_BYTES_MAX) -> bytes:
    """Return the content of a file. UnboundedFileError; MetastoreError, which begins with `message`, if it cannot be
    read.
    """

    def read(file_io: FileIO, path: str) -> bytes | int:
        size = file_io.size(path)
        return file_io.read_bytes(path) if 0 < size <= bytes_max else size

    found = with_files(location, read, message)
    if isinstance(found, int):
        raise UnboundedFileError(f"{message}: it has {found} bytes, and 1 to {bytes_max} are read")
    return found
