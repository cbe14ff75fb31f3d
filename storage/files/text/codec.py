"""Text files of rows: the codec of a format, the readers and writers of files, and their lines.

A file of plain lines has one column of texts: a line is a value, an empty line the empty text. NULL has no line.

The compression of a file is that of its name, as for Hadoop's codecs: `.gz`, `.bz2`, `.zst`, `.deflate`. With a
standard delimiter a line ends with a line feed, a carriage return, or both; with another one at that text. A line
delimiter at the end of a file begins no further line. A byte order mark is skipped.
"""

import bz2
import gzip
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from interbed.storage.base.errors import CorruptFileError, InvalidInputError, InvalidOptionError, NotSupportedError
from interbed.storage.base.types.data_type import STRINGS, AtomicType, DataField, DataType, MapType, MultisetType
from interbed.storage.files.format.api import data_file_errors
from interbed.storage.files.text.csv import CsvCodec, check_begins_without_mark, check_ends_no_line, decoded_lines
from interbed.storage.files.text.json import KEY_TYPES, JsonCodec
from interbed.storage.files.text.options import (
    BYTE_ORDER_MARK,
    STANDARD_DELIMITERS,
    CsvOptions,
    JsonOptions,
    LineOptions,
    TextFileOptions,
)
from interbed.storage.files.text.values import Rows
from interbed.storage.io.api import FileIO, open_sized

_ENCODED_ROWS = 16_384
"""Rows that are encoded at once: their texts take many times the memory of their values."""


class TextCodec(Protocol):
    """Codec of the lines of a file."""

    line_delimiter: str
    header_lines: int

    @property
    def header(self) -> str | None:
        """The first line of a new file, or None."""
        ...

    def check_header(self, lines: Sequence[bytes], path: str) -> None:
        """Refuse lines that are skipped as a header, if they contradict the columns; raises CorruptFileError."""
        ...

    def decode(self, lines: Sequence[bytes], first_line: int, path: str) -> pa.RecordBatch:
        """Return the rows of lines, of which the first has that number in the file; raises CorruptFileError."""
        ...

    def encode(self, batch: pa.RecordBatch, rows: Rows) -> list[str]:
        """Return the lines of rows without their ends. Raises InvalidInputError naming the column and the row."""
        ...


class LineCodec:
    """Codec of files of plain lines."""

    header_lines = 0
    header: str | None = None

    def __init__(self, fields: Sequence[DataField], syntax: LineOptions, wanted: Sequence[str] | None = None) -> None:
        self._field = fields[0]
        self._reads = wanted is None or self._field.name in wanted
        self.line_delimiter = syntax.line_delimiter

    def check_header(self, lines: Sequence[bytes], path: str) -> None:
        """Do nothing: such files have no header."""

    def decode(self, lines: Sequence[bytes], first_line: int, path: str) -> pa.RecordBatch:
        """Return the rows of lines."""
        found = pa.RecordBatch.from_arrays([decoded_lines(lines, first_line, path)], names=[self._field.name])
        return found if self._reads else found.select([])

    def encode(self, batch: pa.RecordBatch, rows: Rows) -> list[str]:
        """Return the texts; refuse NULL, and texts that would end a line or begin with a byte order mark."""
        texts: Any = batch.column(0)
        check_ends_no_line(texts, self.line_delimiter, self._field, rows)
        check_begins_without_mark(texts, self._field, rows)
        lines: list[str] = texts.to_pylist()
        if texts.null_count:
            raise InvalidInputError(
                f"The column {self._field.name!r} is NULL in row {rows[lines.index(None)]} (counted from 0): "  # type: ignore[arg-type]
                "files of plain lines hold no NULL; leave the row out, or keep it in another format."
            )
        return lines


def text_codec(fields: Sequence[DataField], syntax: TextFileOptions, wanted: Sequence[str] | None = None) -> TextCodec:
    """Return the codec of files with these columns; `wanted` names the columns that are read, in their order."""
    match syntax:
        case CsvOptions():
            return CsvCodec(fields, syntax, wanted)
        case JsonOptions():
            return JsonCodec(fields, syntax, wanted)
        case LineOptions():
            return LineCodec(fields, syntax, wanted)


def check_text_fields(file_format: str, fields: Sequence[DataField]) -> None:
    """Raise NotSupportedError naming the first column that files of a text format can't hold."""
    if file_format == "text":
        if len(fields) != 1 or not isinstance(fields[0].type, AtomicType) or fields[0].type.root not in STRINGS:
            raise NotSupportedError(
                "Files of the format 'text' hold one column of type STRING beside the partition columns, not "
                f"{', '.join(f'{f.name} {f.type}' for f in fields) or 'none'}; choose another 'file.format'."
            )
        return
    for field in fields:
        _check(file_format, field, field.type)


def _check(file_format: str, field: DataField, data_type: DataType) -> None:
    nested = not isinstance(data_type, AtomicType)
    if isinstance(data_type, MapType) and file_format == "json":
        key = data_type.key
        if not isinstance(key, AtomicType) or key.root not in KEY_TYPES:
            raise NotSupportedError(
                f"JSON files can't hold the column {field.name!r}: the keys of a MAP are texts, integers or booleans "
                f"there, not {key}. Choose another 'file.format'."
            )
    if (nested and file_format == "csv") or isinstance(data_type, MultisetType):
        raise NotSupportedError(
            f"{file_format.upper()} files can't hold the column {field.name!r}, {field.type}; choose another "
            "'file.format', such as json for ARRAY, MAP and ROW, or parquet."
        )
    for child in data_type.children():
        _check(file_format, field, child)


def read_text_rows(
    file_io: FileIO, path: str, codec: TextCodec, *, size: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file in blocks. Raises CorruptFileError, NotSupportedError and StorageAccessError."""
    skipped, line = codec.header_lines, 1
    for lines in read_lines(file_io, path, codec.line_delimiter, size=size):
        kept = lines[skipped:]
        if skipped and line == 1:
            codec.check_header(lines[:skipped], path)
        line += len(lines) - len(kept)
        skipped -= len(lines) - len(kept)
        if kept:
            yield codec.decode(kept, line, path)
        line += len(kept)


class TextFileWriter:
    """FileWriter of a text file; a compressed file is compressed as a whole."""

    def __init__(self, sink: Any, codec: TextCodec, compression: str | None) -> None:
        self._sink = sink
        self._codec = codec
        self._compressed = compressing(sink, compression)
        if codec.header is not None:
            self._write([codec.header])

    def write(self, batches: Sequence[pa.RecordBatch], numbers: Sequence[Rows]) -> None:
        """Append rows, with their numbers in the data of the caller.

        Raises InvalidInputError naming the column and the row of a value that has no text.
        """
        for place, batch in enumerate(batches):
            rows = numbers[place]
            for start in range(0, batch.num_rows, _ENCODED_ROWS):
                end = start + _ENCODED_ROWS
                self._write(self._codec.encode(batch.slice(start, _ENCODED_ROWS), rows[start:end]))

    def _write(self, lines: Sequence[str]) -> None:
        end = self._codec.line_delimiter
        data = "".join(line + end for line in lines).encode()
        (self._sink if self._compressed is None else self._compressed).write(data)

    def position(self) -> int:
        """Return the number of bytes written so far, apart from those that the compression holds back."""
        return int(self._sink.tell())

    def finish(self) -> int:
        """Write the end of the compressed data, and return the size of the file."""
        if self._compressed is not None:
            self._compressed.close()
            self._compressed = None
        return self.position()


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
