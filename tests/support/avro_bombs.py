"""Avro files with a block of a few kilobytes that expands to gigabytes."""

import io

from interbed.storage.base.avro.records import PlainBlocks, block_bytes, header_bytes

_CHUNK = 128 << 10
_SYNC = bytes(range(16))


def zstandard_bomb(size: int) -> bytes:
    """Return a frame of about `size` zeros: each block of the frame repeats one byte 131,072 times."""
    frame = bytearray(b"\x28\xb5\x2f\xfd\x00\x38")
    count = max(size // _CHUNK, 1)
    for number in range(count):
        is_last = number == count - 1
        frame += (is_last | 1 << 1 | _CHUNK << 3).to_bytes(3, "little") + b"\x00"
    return bytes(frame)


def with_bombs(content: bytes, size: int, blocks: int = 1) -> bytes:
    """Return an Avro file of the same schema whose blocks expand to about `size` bytes each."""
    header = header_bytes(PlainBlocks(io.BytesIO(content)).schema_text, "zstandard", _SYNC)
    return header + blocks * block_bytes(1, zstandard_bomb(size), _SYNC)
