"""Checksums of Parquet files: of pages, which the format has room for, and of the footer, which ours have.

A page's header has the CRC-32 of its bytes as they lie in the file; Arrow writes and verifies it. What says where pages
are, what their values mean and between which bounds they lie stands in the footer, of which the format has no checksum.
Ours has one among its own keys and values (`interbed.storage.base.seal`). Source: parquet-format, README (checksumming).
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
_STRING = 0x18
"""How Thrift's compact protocol begins a field of bytes whose number is one more than that of the field before."""
_BEFORE = SEAL.encode() + bytes([_STRING, len(UNSEALED)])


def open_parquet(source: pa.NativeFile, *, verify: bool, buffer_size: int = 0) -> pq.ParquetFile:
    """The file, its footer verified; its pages are verified when they are read. Without `verify` nothing is.

    Raises ValueError and what Arrow raises for bytes that are no such file.
    """
    if not verify:
        return pq.ParquetFile(source, pre_buffer=False, buffer_size=buffer_size)
    footer = _footer_of(source)
    check_seal(footer, _BEFORE)
    metadata = pq.read_metadata(pa.BufferReader(b"".join((MAGIC, footer, len(footer).to_bytes(4, "little"), MAGIC))))
    return pq.ParquetFile(
        source, metadata=metadata, pre_buffer=False, buffer_size=buffer_size, page_checksum_verification=True
    )


def seal_footer(footer: bytes) -> bytes:
    """A footer with the values of `unsealed_footer` as they belong into the file."""
    return sealed(footer, _BEFORE)


def unsealed_footer() -> dict[str, str]:
    """What a writer adds to the keys and values of a file for `seal_footer` to complete."""
    return {SEAL: UNSEALED}


def _footer_of(source: Any) -> bytes:
    size = source.size()
    held = min(size, _TAIL_BYTES if isinstance(source, pa.MemoryMappedFile) else _LIKELY_FOOTER)
    tail = bytes(source.read_at(held, size - held))
    length = int.from_bytes(tail[-_TAIL_BYTES : -len(MAGIC)], "little")
    if not tail.endswith(MAGIC) or not 0 < length <= size - _TAIL_BYTES:
        raise ValueError("it does not end as a Parquet file does")
    if length > held - _TAIL_BYTES:
        return bytes(source.read_at(length, size - _TAIL_BYTES - length))
    return tail[-_TAIL_BYTES - length : -_TAIL_BYTES]
