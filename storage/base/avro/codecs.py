"""The compression of blocks of Avro files, by Avro's names of the codecs.

Blocks of `deflate` have no header; blocks of `snappy` end with the CRC-32 of the plain bytes. Blocks of `zstandard` may
end with a checksum of the plain bytes, which decoders verify; interbed writes one. `bzip2` and `xz` always have one;
`null` and `deflate` have none. A few bytes can expand to gigabytes, so that decompression ends at a limit. Source: Avro
specification 1.11, "Required Codecs" and "Optional Codecs"; RFC 8878.
"""

import bz2
import lzma
import sys
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from interbed.storage.base.decoding import TooManyBytesError, check_size, stream_content, streams_content

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_CRC_BYTES = 4
_MOST_SNAPPY = 64
"""The greatest ratio of plain to compressed bytes in snappy: a copy of at most 64 bytes takes two."""
_DAMAGE: tuple[type[Exception], ...] = (
    *(ValueError, EOFError, OSError, zlib.error, lzma.LZMAError, zstd.ZstdError, pa.ArrowException),
)
"""The errors of the codecs' libraries for damaged bytes."""


def compressor(codec: str, zstd_level: int) -> Callable[[bytes], bytes]:
    """Return the function that compresses a block by one of Avro's codecs."""
    match codec:
        case "null":
            return lambda block: block
        case "zstandard":
            return _zstd(zstd_level)
        case "deflate":
            return _deflate
        case "snappy":
            return _snappy
        case "bzip2":
            return bz2.compress
        case _:
            return lzma.compress


def decompressor(codec: str, limit: int) -> Callable[[bytes], bytes]:
    """Return the function that decompresses a block of at most `limit` plain bytes.

    The function raises ValueError for damaged bytes and for a block of more bytes, of which it never holds more than
    the limit. Raises ArrowNotImplementedError for an unknown codec.
    """
    match codec:
        case "null":
            unpacked: Callable[[bytes, int], bytes] = _plain
        case "snappy":
            unpacked = _unsnappy
        case "zstandard":
            unpacked = partial(streams_content, zstd.ZstdDecompressor)
        case "deflate":
            unpacked = _inflated
        case "bzip2":
            unpacked = partial(streams_content, bz2.BZ2Decompressor)
        case "xz":
            unpacked = partial(streams_content, lzma.LZMADecompressor)
        case _:
            raise pa.ArrowNotImplementedError(f"the codec '{codec}' is unknown")

    def decompress(block: bytes) -> bytes:
        try:
            return unpacked(block, limit)
        except TooManyBytesError as error:
            raise TooManyBytesError(f"a block of the codec '{codec}' can't be decompressed: {error}") from error
        except _DAMAGE as error:
            raise ValueError(f"a block of the codec '{codec}' can't be decompressed: {error}") from error

    return decompress


def _zstd(level: int) -> Callable[[bytes], bytes]:
    parameters = zstd.CompressionParameter
    options: dict[int, int] = {parameters.compression_level: level, parameters.checksum_flag: 1}
    return lambda block: zstd.compress(block, options=options)


def _deflate(block: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(block) + packer.flush()


def _snappy(block: bytes) -> bytes:
    packed: Any = pa.Codec("snappy").compress(block, asbytes=True)
    return bytes(packed) + zlib.crc32(block).to_bytes(_CRC_BYTES, "big")


def _plain(block: bytes, limit: int) -> bytes:
    check_size(len(block), limit)
    return block


def _inflated(block: bytes, limit: int) -> bytes:
    # fastavro leaves a part of zlib's checksum behind the stream.
    return stream_content(zlib.decompressobj(-zlib.MAX_WBITS), block, limit)


def _unsnappy(block: bytes, limit: int) -> bytes:
    packed, checksum = block[:-_CRC_BYTES], block[-_CRC_BYTES:]
    size, shift = 0, 0
    # The plain size comes first, 7 bits a byte, the lowest first.
    for byte in packed[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    check_size(size, limit)
    if size > len(packed) * _MOST_SNAPPY:
        raise ValueError("a block is smaller than its rows can be")
    plain: Any = pa.Codec("snappy").decompress(packed, size, asbytes=True)
    if zlib.crc32(plain).to_bytes(_CRC_BYTES, "big") != checksum:
        raise ValueError("the checksum of a block is wrong")
    return bytes(plain)
