"""Decompression that ends at a limit, because a few bytes can expand to gigabytes; and metadata files in gzip.

Python's decompressors return at most a given number of bytes at a time: one byte more than the limit shows that there
are more, and no more than that is held. Source: RFC 1952.
"""

import zlib
from collections.abc import Callable
from typing import Protocol

_GZIP = b"\x1f\x8b"


class TooManyBytesError(ValueError):
    """The plain bytes are more than a limit."""


class StreamDecompressor(Protocol):
    """Decompressor of one stream, as those of zlib, bz2, lzma and zstd are."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def plain_content(content: bytes, limit: int) -> bytes:
    """Return the plain bytes of a file that may be compressed by gzip, whatever its name.

    Raises TooManyBytesError beyond the limit, ValueError for damaged bytes.
    """
    if not content.startswith(_GZIP):
        check_size(len(content), limit)
        return content
    found: list[bytes] = []
    rest = content
    try:
        while rest:
            unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
            found.append(stream_content(unpacker, rest, limit))
            limit -= len(found[-1])
            # Members may be followed by zeros.
            rest = unpacker.unused_data.lstrip(b"\0")
    except TooManyBytesError:
        raise
    except (ValueError, zlib.error) as error:
        raise ValueError(f"it is damaged: {error}") from error
    return b"".join(found)


def streams_content(made: Callable[[], StreamDecompressor], block: bytes, limit: int) -> bytes:
    """Return the plain bytes of streams one after another. Raises as stream_content."""
    found: list[bytes] = []
    rest = block
    while rest:
        unpacker = made()
        found.append(stream_content(unpacker, rest, limit))
        limit -= len(found[-1])
        rest = unpacker.unused_data
    return found[0] if len(found) == 1 else b"".join(found)


def stream_content(unpacker: StreamDecompressor, packed: bytes, limit: int) -> bytes:
    """Return the plain bytes of the first stream.

    Raises TooManyBytesError beyond the limit, ValueError for a truncated stream, and the errors of the decompressor.
    """
    plain = unpacker.decompress(packed, limit + 1)
    check_size(len(plain), limit)
    if not unpacker.eof:
        raise ValueError("it ends too early")
    return plain


def check_size(size: int, limit: int) -> None:
    """Raise TooManyBytesError if plain bytes are more than a limit."""
    if size > limit:
        raise TooManyBytesError(f"its plain bytes are more than the limit of {limit}")
