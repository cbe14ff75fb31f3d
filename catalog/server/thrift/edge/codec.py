"""Thrift's protocols, binary and compact: decoding and encoding of messages, by Thrift's code in C where available.

A codec also splits the beginning of a message without decoding it: the bytes that are the same for every equal call
(the key of a cached answer), and those of the sequence id, which differ and are returned in the reply.
"""

import struct
from io import BytesIO
from typing import Any, Protocol

from thrift.protocol.TBinaryProtocol import TBinaryProtocol, TBinaryProtocolAccelerated
from thrift.protocol.TCompactProtocol import TCompactProtocol, TCompactProtocolAccelerated
from thrift.Thrift import TType
from thrift.transport.TTransport import CReadableTransport, TMemoryBuffer, TTransportBase

from interbed.catalog.server.thrift.edge.scan import CONTAINER_ELEMENTS_MAX, BinaryScanner, CompactScanner, Scanner

MESSAGE_BYTES_LIMIT = 1 << 30
"""Limit of every text of a message; the setting message_bytes_max is mostly much lower."""

_BINARY_VERSION = b"\x80\x01"
_COMPACT_ID = 0x82
_VARINT_BYTES_MAX = 5


UNREADABLE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
"""Exceptions of Thrift's decoders for invalid bytes, besides TProtocolException: a length below zero, a type that does
not exist, a text that is not UTF-8, structures nested without end.
"""


class IncompleteMessageError(Exception):
    """The message continues after the bytes that are available."""


class MemorySource(TTransportBase, CReadableTransport):  # type: ignore[misc]
    """Bytes that Thrift's decoder in C reads from. IncompleteMessageError if it reads beyond their end."""

    def __init__(self, data: bytes) -> None:
        self._buffer = BytesIO(data)
        self.has_run_out = False

    @property
    def cstringio_buf(self) -> BytesIO:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The buffer that the decoder reads."""
        return self._buffer

    def read(self, sz: int) -> bytes:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return up to `sz` bytes, at least one."""
        data = self._buffer.read(sz)
        if not data and sz > 0:
            self.has_run_out = True
            raise IncompleteMessageError
        return data

    def cstringio_refill(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, partialread: bytes, reqlen: int
    ) -> BytesIO:
        """Signal that more bytes are needed; the decoder calls it at the end of the buffer."""
        self.has_run_out = True
        raise IncompleteMessageError

    def rest(self) -> bytes:
        """Return the bytes after the message that was read."""
        return self._buffer.read()


class _BinarySkipper:
    """Skips unused values without decoding them as text: the wire does not distinguish binaries from strings."""

    # Some versions of thrift pass no depth.
    def skip(self, ttype: int, *depth: int) -> None:
        if ttype == TType.STRING:
            self.readBinary()  # type: ignore[attr-defined]
        else:
            super().skip(ttype, *depth)  # type: ignore[misc]


class _BinaryReader(_BinarySkipper, TBinaryProtocolAccelerated):  # type: ignore[misc]
    pass


class _CompactReader(_BinarySkipper, TCompactProtocolAccelerated):  # type: ignore[misc]
    pass


class Codec(Protocol):
    """Codec of one of Thrift's protocols."""

    def reader(self, source: Any) -> Any:
        """Return a protocol that reads messages from a source, within the limits above."""
        ...

    def scanner(self, bytes_max: int) -> Scanner:
        """Return a scanner for one message of at most `bytes_max` bytes."""
        ...

    def encode(self, structure: Any) -> bytes:
        """Return the bytes of a structure."""
        ...

    def header(self, name: str, kind: int) -> tuple[bytes, bytes]:
        """Return the bytes before and after the sequence id of a message."""
        ...

    def sequence(self, number: int) -> bytes:
        """Return the bytes of a sequence id."""
        ...

    def split(self, message: bytes) -> tuple[bytes, bytes] | None:
        """Return the message without its sequence id, and that; None for bytes that do not begin like a call."""
        ...


class BinaryCodec:
    """Codec of the binary protocol; it reads strict and non-strict messages, and writes strict ones."""

    def __init__(self) -> None:
        self._encode: Any = TBinaryProtocolAccelerated(TMemoryBuffer())._fast_encode

    def reader(self, source: Any) -> Any:
        """Return a protocol that reads from a source."""
        return _BinaryReader(
            source, string_length_limit=MESSAGE_BYTES_LIMIT, container_length_limit=CONTAINER_ELEMENTS_MAX
        )

    def scanner(self, bytes_max: int) -> Scanner:
        """Return a scanner for one message of at most `bytes_max` bytes."""
        return BinaryScanner(bytes_max)

    def encode(self, structure: Any) -> bytes:
        """Return the bytes of a structure."""
        if self._encode is None:
            return _encoded_in_python(TBinaryProtocol, structure)
        encoded: bytes = self._encode(structure, [structure.__class__, structure.thrift_spec])
        return encoded

    def header(self, name: str, kind: int) -> tuple[bytes, bytes]:
        """Return version, kind and name, which precede the sequence id."""
        encoded = name.encode()
        return _BINARY_VERSION + bytes((0, kind)) + len(encoded).to_bytes(4, "big") + encoded, b""

    def sequence(self, number: int) -> bytes:
        """Return four bytes, big-endian."""
        return number.to_bytes(4, "big", signed=True)

    def split(self, message: bytes) -> tuple[bytes, bytes] | None:
        """Cut out the four bytes after the name."""
        if message[:2] != _BINARY_VERSION:
            return None
        end = 8 + int.from_bytes(message[4:8], "big")
        sequence = message[end : end + 4]
        if len(sequence) != 4:
            return None
        return message[:end] + message[end + 4 :], sequence


class CompactCodec:
    """Codec of the compact protocol."""

    def __init__(self) -> None:
        self._encode: Any = TCompactProtocolAccelerated(TMemoryBuffer())._fast_encode

    def reader(self, source: Any) -> Any:
        """Return a protocol that reads from a source."""
        return _CompactReader(
            source, string_length_limit=MESSAGE_BYTES_LIMIT, container_length_limit=CONTAINER_ELEMENTS_MAX
        )

    def scanner(self, bytes_max: int) -> Scanner:
        """Return a scanner for one message of at most `bytes_max` bytes."""
        return CompactScanner(bytes_max)

    def encode(self, structure: Any) -> bytes:
        """Return the bytes of a structure."""
        if self._encode is None:
            return _encoded_in_python(TCompactProtocol, structure)
        encoded: bytes = self._encode(structure, [structure.__class__, structure.thrift_spec])
        return encoded

    def header(self, name: str, kind: int) -> tuple[bytes, bytes]:
        """Return version and kind, which precede the sequence id, and the name, which follows it."""
        encoded = name.encode()
        return bytes((_COMPACT_ID, kind << 5 | 1)), _varint(len(encoded)) + encoded

    def sequence(self, number: int) -> bytes:
        """Return a varint of the 32 bits."""
        return _varint(number & 0xFFFFFFFF)

    def split(self, message: bytes) -> tuple[bytes, bytes] | None:
        """Cut out the varint after the first two bytes."""
        if len(message) < 4 or message[0] != _COMPACT_ID:
            return None
        end = 2
        while message[end] & 0x80:
            end += 1
            if end == len(message) or end == 2 + _VARINT_BYTES_MAX:
                return None
        return message[:2] + message[end + 1 :], message[2 : end + 1]


def codec_named(name: str) -> Codec:
    """Return the codec called `binary` or `compact`."""
    return CompactCodec() if name == "compact" else BinaryCodec()


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _encoded_in_python(protocol: Any, structure: Any) -> bytes:
    buffer = TMemoryBuffer()
    structure.write(protocol(buffer))
    encoded: bytes = buffer.getvalue()
    return encoded
