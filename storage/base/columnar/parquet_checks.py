"""Checksums of Parquet files: of pages, which the format has room for, and of footer and page index, which ours have.

A page's header has the CRC-32 of its bytes as they lie in the file; Arrow writes and verifies it. Where pages are, what
their values mean and between which bounds they lie stands in the footer, of which the format has no checksum. Ours has
one (`interbed.storage.base.seal`) in the field that the format leaves to extensions, which readers pass over. Among the
keys and values of the file it would go along when somebody reads the rows and writes them to another file. Before it
stand the CRC-32 and the length of what lies between the data and the footer, the index of the pages, which is verified
when it is used. Source: parquet-format, README (checksumming) and BinaryProtocolExtensions.
"""

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from interbed.storage.base.seal import SEAL, UNSEALED, check_seal, sealed

if TYPE_CHECKING:
    import pyarrow.parquet as pq

MAGIC = b"PAR1"
_TAIL_BYTES = 4 + len(MAGIC)
"""The length of the footer and the magic number, with which a file ends."""
_LIKELY_FOOTER = 64 << 10
"""Read at once where files can't be mapped, in the hope that the whole footer is in it."""
_EXTENSION = bytes([0x08, 0xFE, 0xFF, 0x03])
"""How field 32767 of a struct begins in Thrift's compact protocol when it is of bytes; their number follows."""
_STOP = b"\0"
"""The end of a struct."""
_KEY = SEAL.encode()
_INDEX_DIGITS = 16
"""The CRC-32 and the length of the page index, each in eight hexadecimal digits."""
_HEAD_WITHOUT_INDEX = _EXTENSION + bytes([len(SEAL) + len(UNSEALED)])
_HEAD = _EXTENSION + bytes([_INDEX_DIGITS + len(SEAL) + len(UNSEALED)])


def open_parquet(source: pa.NativeFile) -> "pq.ParquetFile":
    """The file, its footer verified; its pages are verified when they are read.

    Raises ValueError and what Arrow raises for bytes that are no such file.
    """
    footer = footer_of(source)
    check_footer(footer)
    return opened(source, metadata_of(footer), verify=True)


def opened(
    source: Any,
    metadata: "pq.FileMetaData | None",
    *,
    verify: bool,
    buffer_size: int = 0,
    as_dictionaries: Sequence[str] = (),
) -> "pq.ParquetFile":
    """The file with that footer, its own when None; with `verify` its pages are verified when they are read.

    Of columns of texts `as_dictionaries` come as they are encoded.
    """
    import pyarrow.parquet as pq

    return pq.ParquetFile(
        source,
        metadata=metadata,
        pre_buffer=False,
        buffer_size=buffer_size,
        page_checksum_verification=verify,
        read_dictionary=list(as_dictionaries),
    )


def metadata_of(footer: bytes) -> "pq.FileMetaData":
    """The decoded FileMetaData; raises what Arrow raises for bytes that are none."""
    import pyarrow.parquet as pq

    return pq.read_metadata(pa.BufferReader(b"".join((MAGIC, footer, len(footer).to_bytes(4, "little"), MAGIC))))


def seal_footer(footer: bytes, index: bytes) -> bytes:
    """A footer with its checksum added, and that of what lies before it; ValueError for bytes that are no footer."""
    if not footer.endswith(_STOP):
        raise ValueError("a Parquet footer that does not end as a struct does")
    of_index = f"{zlib.crc32(index):08x}{len(index):08x}".encode()
    return sealed(b"".join((footer[: -len(_STOP)], _HEAD, of_index, _KEY, UNSEALED.encode(), _STOP)), _KEY)


def check_index(file: pa.NativeFile, footer: bytes) -> None:
    """Raise ValueError when what lies before the footer is not what was written; files without its checksum pass."""
    at = _place_of_key(footer)
    if at is None or footer[at - _INDEX_DIGITS - len(_HEAD) : at - _INDEX_DIGITS] != _HEAD:
        return
    digits = footer[at - _INDEX_DIGITS : at]
    length = int(digits[8:], 16)
    # The stubs of pyarrow lag behind what a file can do.
    source: Any = file
    content = source.read_at(length, source.size() - _TAIL_BYTES - len(footer) - length)
    if zlib.crc32(content) != int(digits[:8], 16):
        raise ValueError("the index of its pages is damaged")


def _place_of_key(footer: bytes) -> int | None:
    """Where what comes before the checksum begins; None in files of other writers. It may be damaged as well."""
    at = len(footer) - len(_STOP) - len(UNSEALED) - len(_KEY)
    alike = sum(a == b for a, b in zip(footer[max(at, 0) : at + len(_KEY)], _KEY, strict=False))
    return at if at > 0 and alike >= len(_KEY) // 2 else None


def is_ours(footer: bytes) -> bool:
    """Whether the footer has our checksum."""
    return _place_of_key(footer) is not None


def check_footer(footer: bytes) -> None:
    """Raise ValueError for a damaged footer of ours; those of other writers are taken as they are."""
    at = _place_of_key(footer)
    if at is None:
        return
    before = footer[:at]
    is_whole = before[:-_INDEX_DIGITS].endswith(_HEAD) or before.endswith(_HEAD_WITHOUT_INDEX)
    if footer[at : at + len(_KEY)] != _KEY or not is_whole:
        raise ValueError("the end of its footer is damaged")
    check_seal(footer, _KEY)


def footer_of(file: pa.NativeFile) -> bytes:
    """The encoded FileMetaData of an open file; ValueError for one that does not end as Parquet files do."""
    is_mapped = isinstance(file, pa.MemoryMappedFile)
    # The stubs of pyarrow lag behind what a file can do.
    source: Any = file
    size = source.size()
    held = min(size, _TAIL_BYTES if is_mapped else _LIKELY_FOOTER)
    tail = bytes(source.read_at(held, size - held))
    length = int.from_bytes(tail[-_TAIL_BYTES : -len(MAGIC)], "little")
    if not tail.endswith(MAGIC) or not 0 < length <= size - _TAIL_BYTES:
        raise ValueError("it does not end as a Parquet file does")
    if length > held - _TAIL_BYTES:
        return bytes(source.read_at(length, size - _TAIL_BYTES - length))
    return tail[-_TAIL_BYTES - length : -_TAIL_BYTES]
