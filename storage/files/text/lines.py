"""Lines of text files: decompression by the extension of the file's name, and blocks of whole lines.

The compression of a file is that of its name, as for Hadoop's codecs: `.gz`, `.bz2`, `.zst`, `.deflate`. With a
standard delimiter a line ends with a line feed, a carriage return, or both; with another one at that text. A line
delimiter at the end of a file begins no further line. A byte order mark is skipped.
"""

import bz2
import gzip
import sys
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from interbed.storage.base.errors import CorruptFileError, InvalidOptionError, NotSupportedError
from interbed.storage.files.format.api import data_file_errors
from interbed.storage.files.text.options import BYTE_ORDER_MARK, STANDARD_DELIMITERS
from interbed.storage.io.api import FileIO, open_sized

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdFile
else:
    from backports.zstd import ZstdFile

EXTENSIONS: Mapping[str, str] = {"gzip": "gz", "bzip2": "bz2", "zstd": "zst", "deflate": "deflate"}
"""The extension of file names by compression."""

_UNREADABLE = ("snappy", "lz4")
"""Extensions of Hadoop's codecs whose frames are not read."""
_READ_BYTES = 4 << 20
_LINE_BYTES_MAX = 256 << 20
_BYTE_ORDER_MARK = BYTE_ORDER_MARK.encode()


def check_compression(key: str, name: str) -> str | None:
    """Return the compression of text files by its name; None for none. Raises InvalidOptionError naming the option."""
    lower = name.lower()
    if lower in ("none", "uncompressed"):
        return None
    if lower not in EXTENSIONS:
        known = ", ".join(("none", *EXTENSIONS))
        raise InvalidOptionError(f"Option '{key}' takes one of {known} for text files, not '{name}'.")
    return lower


class DeflateFile:
    """Reader and writer of a zlib stream, as Hadoop's DefaultCodec makes it."""

    def __init__(self, file: Any, mode: str) -> None:
        self._file = file
        self._reads: Any = zlib.decompressobj() if mode == "rb" else None
        self._writes: Any = zlib.compressobj() if mode == "wb" else None

    def read(self, size: int) -> bytes:
        """Return about that many bytes; none at the end. Raises EOFError when the stream ends too early."""
        while not self._reads.eof:
            data = self._file.read(size)
            if not data:
                raise EOFError("the compressed data end too early")
            found: bytes = self._reads.decompress(data)
            if found:
                return found
        return b""

    def write(self, data: bytes) -> int:
        """Write bytes, and return their number."""
        self._file.write(self._writes.compress(data))
        return len(data)

    def close(self) -> None:
        """Write the end of the stream; the file stays open."""
        if self._writes is not None:
            self._file.write(self._writes.flush())


def compressing(sink: Any, compression: str | None) -> Any:
    """Return a file object that compresses to a sink; closing it writes the end, and leaves the sink open."""
    match compression:
        case "gzip":
            # The time of writing would make equal files differ.
            return gzip.GzipFile(fileobj=sink, mode="wb", filename="", mtime=0)
        case "bzip2":
            return bz2.BZ2File(sink, "wb")
        case "zstd":
            return ZstdFile(sink, "wb")
        case "deflate":
            return DeflateFile(sink, "wb")
    return None


def _decompressing(source: Any, path: str) -> Any:
    extension = path.rpartition("/")[2].rpartition(".")[2].lower()
    if extension in _UNREADABLE:
        raise NotSupportedError(
            f"The data file {path} is compressed by Hadoop's codec for {extension}; this version reads text files with "
            f"the extensions {', '.join(EXTENSIONS.values())}, and plain ones."
        )
    match extension:
        case "gz":
            return gzip.GzipFile(fileobj=source, mode="rb")
        case "bz2":
            return bz2.BZ2File(source, "rb")
        case "zst":
            return ZstdFile(source, "rb")
        case "deflate":
            return DeflateFile(source, "rb")
    return source


def read_lines(file_io: FileIO, path: str, delimiter: str, *, size: int | None = None) -> Iterator[list[bytes]]:
    """Yield the lines of a file in blocks of some megabytes, without their ends.

    Raises CorruptFileError, NotSupportedError and StorageAccessError, which name the file.
    """
    with data_file_errors(path), open_sized(file_io, path, size) as source:
        stream = _decompressing(source, path)
        rest, begun = b"", False
        while True:
            data = stream.read(_READ_BYTES)
            if not data:
                break
            rest += data
            if not begun and len(rest) >= len(_BYTE_ORDER_MARK):
                rest, begun = rest.removeprefix(_BYTE_ORDER_MARK), True
            lines, rest = _whole_lines(rest, delimiter)
            if lines:
                yield lines
            if len(rest) > _LINE_BYTES_MAX:
                raise CorruptFileError(f"The data file {path} has a line of more than {_LINE_BYTES_MAX >> 20} MB.")
        if rest:
            yield rest.splitlines() if delimiter in STANDARD_DELIMITERS else rest.split(delimiter.encode())


def _whole_lines(data: bytes, delimiter: str) -> tuple[list[bytes], bytes]:
    """Return the lines that end in the data, and the rest."""
    if delimiter not in STANDARD_DELIMITERS:
        *lines, rest = data.split(delimiter.encode())
        return lines, rest
    # A carriage return at the end may be followed by a line feed.
    end = max(data.rfind(b"\n"), data.rfind(b"\r", 0, len(data) - 1)) + 1
    return data[:end].splitlines(), data[end:]
