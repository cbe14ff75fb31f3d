"""A checksum inside of the bytes that it is about: the head of an Avro file, the footer of a Parquet file.

Both have room for keys and values of the writer's own, which other readers pass over. The value is the CRC-32 of all
the bytes in eight hexadecimal digits, computed with eight zeros in its place.
"""

import zlib

SEAL = "interbed.crc32"
"""The key under which the value stands."""
UNSEALED = "0" * 8
"""What stands in the place of the value until it is known."""
_DIGITS = len(UNSEALED)


def sealed(content: bytes, before: bytes) -> bytes:
    """The bytes with their checksum in the place of UNSEALED behind the last `before`; ValueError if there is none."""
    at = _place(content, before)
    if at is None or content[at : at + _DIGITS] != UNSEALED.encode():
        raise ValueError("there is no room for a checksum")
    return _with(content, at, f"{zlib.crc32(content):08x}".encode())


def check_seal(content: bytes, before: bytes) -> None:
    """Raise ValueError when the bytes are not those that were sealed; bytes without a seal are taken as they are."""
    at = _place(content, before)
    if at is None:
        return
    found = f"{zlib.crc32(_with(content, at, UNSEALED.encode())):08x}".encode()
    if content[at : at + _DIGITS] != found:
        raise ValueError("its checksum is wrong")


def _place(content: bytes, before: bytes) -> int | None:
    """Where the value begins; None when there is none. Others may have the key somewhere in their own values."""
    at = content.rfind(before)
    return None if at < 0 else at + len(before)


def _with(content: bytes, at: int, value: bytes) -> bytes:
    return content[:at] + value + content[at + _DIGITS :]
