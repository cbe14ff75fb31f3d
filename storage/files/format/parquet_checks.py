"""Checksums of Parquet files: of pages, which the format has room for, and of the footer, which ours have.

A page's header has the CRC-32 of its bytes as they lie in the file; Arrow writes and verifies it. Where pages are, what
their values mean and between which bounds they lie stands in the footer, of which the format has no checksum. Ours has
one (`interbed.storage.base.seal`) in the field that the format leaves to extensions, which readers pass over. Among the
keys and values of the file it would go along when somebody reads the rows and writes them to another file. Source:
parquet-format, README (checksumming) and BinaryProtocolExtensions.
"""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from interbed.storage.base.seal import SEAL, UNSEALED, check_seal, sealed

MAGIC = b"PAR1"
_TAIL_BYTES = 4 + len(MAGIC)
"""The length of the footer and the magic number, with which a file ends."""
_LIKELY_FOOTER = 64 << 10
"""Read at once where files can't be mapped, in the hope that the whole footer is in it."""
_EXTENSION = bytes([0x08, 0xFE, 0xFF, 0x03])
"""How field 32767 of a struct begins in Thrift's compact protocol when it is of bytes; their number follows."""
_STOP = b"\0"
"""The end of a struct."""
_BEFORE = _EXTENSION + bytes([len(SEAL) + len(UNSEALED)]) + SEAL.encode()


def open_parquet(source: pa.NativeFile, *, verify: bool, buffer_size: int = 0) -> pq.ParquetFile:
    """The file, its footer verified; its pages are verified when they are read. Without `verify` nothing is.

    Raises ValueError and what Arrow raises for bytes that are no such file.
    """
    if not verify:
        return pq.ParquetFile(source, pre_buffer=False, buffer_size=buffer_size)
    footer = _footer_of(source)
    _check_footer(footer)
    metadata = pq.read_metadata(pa.BufferReader(b"".join((MAGIC, footer, len(footer).to_bytes(4, "little"), MAGIC))))
    return pq.ParquetFile(
        source, metadata=metadata, pre_buffer=False, buffer_size=buffer_size, page_checksum_verification=True
    )


def seal_footer(footer: bytes) -> bytes:
    """A footer with its checksum added; raises ValueError for bytes that are no footer."""
    if not footer.endswith(_STOP):
        raise ValueError("a Parquet footer that does not end as a struct does")
    return sealed(b"".join((footer[: -len(_STOP)], _BEFORE, UNSEALED.encode(), _STOP)), _BEFORE)


def _check_footer(footer: bytes) -> None:
    """Raise ValueError for a damaged footer of ours; those of other writers are taken as they are."""
    end = len(footer) - len(UNSEALED) - len(_STOP)
    found = footer[max(end - len(_BEFORE), 0) : end]
    # What stands before the checksum may be damaged as well.
    if sum(a == b for a, b in zip(found, _BEFORE, strict=False)) < len(_BEFORE) // 2:
        return
    if found != _BEFORE:
        raise ValueError("the end of its footer is damaged")
    check_seal(footer, _BEFORE)


def _footer_of(file: pa.NativeFile) -> bytes:
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
