"""Strict decoding of bytes of any origin: compressed streams within a limit, base 64 in its one form, and JSON objects
of metadata files with members of known types. Input of another form is refused, never cut or guessed.

Python's decompressors return at most a given number of bytes at a time: one byte more than the limit shows that there
are more, and no more than that is held. Source: RFC 1952.

Base 64 of values that come in as text is that of RFC 4648, section 4, in its only canonical form. A text of another
form may stand for the same bytes: its last character has bits that belong to no byte, or characters of other alphabets
are in between. Two texts of one value would be two keys, and a damaged text another value.

Snapshots, schemas and consumers are JSON objects without a checksum. Damage is detected where it leaves invalid JSON, a
value of another type, or a member name that differs in one letter, which readers would treat as absent.
"""

import json
import zlib
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from interbed.storage.base.errors import CorruptFileError

_GZIP = b"\x1f\x8b"

MemberType = type | tuple[type, ...]
_LEAST, _MOST = -(2**63), 2**63 - 1


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


def bytes_of_base64(text: str) -> bytes:
    """Return the bytes of a text with padding. ValueError for a text that no encoder writes."""
    try:
        found = b64decode(text, validate=True)
    except ValueError as error:
        raise ValueError(f"{text[:40]!r} is no text in base 64: {error}") from None
    if b64encode(found).decode("ascii") != text:
        raise ValueError(f"{text[:40]!r} is no text in base 64: its end has bits that belong to no byte")
    return found


def bytes_of_base64url(text: str) -> bytes:
    """Return the bytes of a text in the alphabet for addresses, without padding. ValueError for any other text."""
    try:
        found = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError as error:
        raise ValueError(f"{text[:40]!r} is no text in base 64 for addresses: {error}") from None
    if urlsafe_b64encode(found).decode("ascii").rstrip("=") != text:
        raise ValueError(f"{text[:40]!r} is no text in base 64 for addresses: no encoder writes it")
    return found


def read_object(content: str | bytes, members: Mapping[str, MemberType], *, source: str, what: str) -> dict[str, Any]:
    """Return the object in a file, by member name; `members` are the known ones with their types, besides null.

    Members with other names are passed through. Raises CorruptFileError naming `source` when it is no `what`.
    """
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"{source} is not {what}: {error}") from error
    if not isinstance(value, dict):
        raise CorruptFileError(f"{source} is not {what}: it holds {type(value).__name__} instead of an object.")
    for name, content_of in value.items():
        expected = members.get(name)
        if expected is None:
            similar = next((m for m in members if m not in value and _is_misread(name, m)), None)
            if similar is not None:
                raise CorruptFileError(f"{source} is damaged: it has a member {name!r} where {similar!r} belongs.")
        elif content_of is not None and not _fits(content_of, expected):
            raise CorruptFileError(f"{source} is not {what}: its member {name!r} is {content_of!r:.100}.")
    return value


def _is_misread(name: str, known: str) -> bool:
    """Return whether two names differ in one letter."""
    return len(name) == len(known) and sum(a != b for a, b in zip(name, known, strict=True)) == 1


def _fits(value: object, expected: MemberType) -> bool:
    if isinstance(value, bool):
        return expected is bool
    if isinstance(value, int) and not _LEAST <= value <= _MOST:
        return False
    return isinstance(value, expected)
