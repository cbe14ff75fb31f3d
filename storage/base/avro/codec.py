"""The compression of the blocks of Avro files.

Codecs bear Avro's names. Blocks of `deflate` have no header; those of `snappy` end with the CRC-32 of the plain bytes.
Those of `zstandard` may end with a checksum of the plain bytes, which decoders verify; ours do. `bzip2` and `xz` always
have one; `null` and `deflate` have none. Source: Avro specification 1.11, object container files; RFC 8878.
"""

import bz2
import lzma
import sys
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_CRC_BYTES = 4
_MOST_SNAPPY = 64
"""More times smaller than the plain bytes snappy never is: a copy of at most 64 bytes takes two."""


def compressor(codec: str, zstd_level: int) -> Callable[[bytes], bytes]:
    """What compresses a block; the codec is one that Avro knows."""
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


def decompressor(codec: str) -> Callable[[bytes], bytes]:
    """What makes a block plain again; raises ArrowNotImplementedError for an unknown codec."""
    match codec:
        case "null":
            return lambda block: block
        case "zstandard":
            return zstd.decompress
        case "deflate":
            return lambda block: zlib.decompress(block, -zlib.MAX_WBITS)
        case "snappy":
            return _unsnappy
        case "bzip2":
            return bz2.decompress
        case "xz":
            return lzma.decompress
        case _:
            raise pa.ArrowNotImplementedError(f"the codec '{codec}' is unknown")


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


def _unsnappy(block: bytes) -> bytes:
    packed, checksum = block[:-_CRC_BYTES], block[-_CRC_BYTES:]
    size, shift = 0, 0
    # The plain size stands first, 7 bits a byte, least first.
    for byte in packed[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > len(packed) * _MOST_SNAPPY:
        raise ValueError("a block is smaller than its rows can be")
    plain: Any = pa.Codec("snappy").decompress(packed, size, asbytes=True)
    if zlib.crc32(plain).to_bytes(_CRC_BYTES, "big") != checksum:
        raise ValueError("the checksum of a block is wrong")
    return bytes(plain)
