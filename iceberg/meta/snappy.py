"""Avro blocks in snappy, which Java Paimon writes by default, for pyiceberg.

pyiceberg has the codec with python-snappy alone. Arrow brings the same along.
"""

from typing import Literal

from pyiceberg.avro import codecs
from pyiceberg.avro.codecs.codec import Codec

from interbed.storage.base.avro.codec import compressor, decompressor

_NAME: Literal["snappy"] = "snappy"


class ArrowSnappy(Codec):
    """Arrow's snappy, with the checksum that Avro has behind each block."""

    @staticmethod
    def compress(data: bytes) -> tuple[bytes, int]:
        packed = compressor(_NAME, 0)(data)
        return packed, len(packed)

    @staticmethod
    def decompress(data: bytes) -> bytes:
        return decompressor(_NAME)(data)


def use_arrow_snappy() -> None:
    """Let pyiceberg's readers and writers of Avro in this process take Arrow's codec."""
    codecs.KNOWN_CODECS[_NAME] = ArrowSnappy
