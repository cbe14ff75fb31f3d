"""Files of metadata that an entry names, as Iceberg's `metadata_location`: read and unpacked up to a size.

Clients choose the file. It may be a device or a pipe, sparse, or packed so that a few kilobytes become gigabytes. So
its size is checked before it is read, and what is unpacked of it has the same bound.
"""

from interbed.catalog.server.service.errors import DamagedFileError, MetastoreError, UnboundedFileError
from interbed.catalog.server.service.warehouse import with_files
from interbed.storage.base.decompression import TooManyBytesError, plain_content
from interbed.storage.io.api import FileIO

FILE_BYTES_MAX = 256 << 20
"""Bytes of a file of metadata that are read, and those that are unpacked of it."""

_GZIP = b"\x1f\x8b"


def read_bounded(location: str, message: str) -> bytes:
    """Return the content of a file that a client names. UnboundedFileError for one that is too large, and for a pipe,
    which has no size; MetastoreError, which begins with `message`, if it cannot be read, or not whole.
    """

    def read(file_io: FileIO, path: str) -> tuple[int, bytes]:
        size = file_io.size(path)
        return size, file_io.read_bytes(path) if 0 < size <= FILE_BYTES_MAX else b""

    size, found = with_files(location, read, message)
    if not 0 < size <= FILE_BYTES_MAX:
        raise UnboundedFileError(f"{message}: it has {size} bytes, and 1 to {FILE_BYTES_MAX} are read")
    if len(found) != size:
        raise MetastoreError(f"{message}: {len(found)} of its {size} bytes were read; try again")
    return found


def read_unpacked(location: str, message: str) -> bytes:
    """Return the content of a file as `read_bounded`, unpacked if it is one of gzip, by whatever name.

    UnboundedFileError also for one whose content is too large, DamagedFileError for one that cannot be unpacked.
    """
    content = read_bounded(location, message)
    if not content.startswith(_GZIP):
        return content
    try:
        return plain_content(content, FILE_BYTES_MAX)
    except TooManyBytesError as error:
        raise UnboundedFileError(f"{message}: unpacked it has more than {FILE_BYTES_MAX} bytes") from error
    except ValueError as error:
        raise DamagedFileError(f"{message}: it is damaged: {error}") from error
