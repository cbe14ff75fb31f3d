"""Thrift's protocols, binary and compact: the end of a message in its bytes as they arrive, and decoding and encoding
of messages, by Thrift's code in C where available.

Thrift's messages have no length around them where the transport is buffered. A scanner walks over the heads of values
and skips their content, so that each byte is read at most once, however many pieces a message arrives in. A structure
of one byte becomes an object of 300; the sum of the sizes of its decoded values is the weight of a message, in bytes,
overestimated rather than underestimated.

A codec also splits the beginning of a message without decoding it: the bytes that are the same for every equal call
(the key of a cached answer), and those of the sequence id, which differ and are returned in the reply.
"""

import struct
from abc import ABC, abstractmethod
from io import BytesIO
from typing import Any, Protocol

from thrift.protocol.TBinaryProtocol import TBinaryProtocol, TBinaryProtocolAccelerated
from thrift.protocol.TCompactProtocol import TCompactProtocol, TCompactProtocolAccelerated
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TType
from thrift.transport.TTransport import CReadableTransport, TMemoryBuffer, TTransportBase, TTransportException

CONTAINER_ELEMENTS_MAX = 1_000_000
"""Elements of one list, set or map: the decoder allocates all of them before it has read one."""

DEPTH_MAX = 64
"""Nesting of structures and containers; those of the interface are ten deep at most."""

_STRUCTURE_WEIGHT = 280
_TEXT_WEIGHT = 64
_CHARACTER_WEIGHT = 4
_CONTAINER_WEIGHT = 72
_ELEMENT_WEIGHT = 16
_ENTRY_WEIGHT = 110
_NUMBER_WEIGHT = 32

_STRUCTURE: list[int] = []
"""The frame of a structure; that of a container is [values left, type of keys or elements, type of values or -1]."""


class Scanner(ABC):
    """Scanner of one message. `position` is the least length of the message that is known so far."""

    __slots__ = ("_bytes_max", "_has_begun", "_stack", "position", "weight")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._stack: list[list[int]] = []
        self._has_begun = False
        self.position = 0
        self.weight = 0

    @abstractmethod
    def scan(self, data: bytes | bytearray) -> int | None:
        """Continue with all bytes of the message so far, and return where it ends; None if it continues after them.
        TException for an invalid message, or one that exceeds the limit.
        """


class BinaryScanner(Scanner):
    """Scanner of the binary protocol."""

    __slots__ = ()

    def scan(self, data: bytes | bytearray) -> int | None:
        """Continue the scan; see Scanner."""
        if not self._has_begun and not self._begin(data):
            return None
        stack = self._stack
        size = len(data)
        position = self.position
        while stack and position <= size:
            frame = stack[-1]
            if frame is _STRUCTURE:
                if position == size:
                    break
                kind = data[position]
                if kind == 0:
                    position += 1
                    stack.pop()
                    continue
                at = position + 3
            elif frame[0] == 0:
                stack.pop()
                continue
            else:
                kind = frame[1] if frame[2] < 0 or frame[0] % 2 == 0 else frame[2]
                at = position
            fixed = _BINARY_SIZES.get(kind)
            pushed: list[int] | None = None
            if fixed is not None:
                self.weight += _NUMBER_WEIGHT
                following = at + fixed
            elif kind == 12:
                self.weight += _STRUCTURE_WEIGHT
                following, pushed = at, _STRUCTURE
            elif at + 6 > size and at + _BINARY_HEADS.get(kind, 0) > size:
                break
            elif kind == 11:
                length = _length(data, at, self._bytes_max)
                self.weight += _TEXT_WEIGHT + _CHARACTER_WEIGHT * length
                following = at + 4 + length
            elif kind in (14, 15):
                count = _length(data, at + 1, CONTAINER_ELEMENTS_MAX)
                self.weight += _CONTAINER_WEIGHT + _ELEMENT_WEIGHT * count
                following, pushed = at + 5, [count, data[at], -1]
            elif kind == 13:
                count = _length(data, at + 2, CONTAINER_ELEMENTS_MAX)
                self.weight += _CONTAINER_WEIGHT + _ENTRY_WEIGHT * count
                following, pushed = at + 6, [2 * count, data[at], data[at + 1]]
            else:
                raise TProtocolException(TProtocolException.INVALID_DATA, f"there is no type {kind}")
            if frame is not _STRUCTURE:
                frame[0] -= 1
            position = following
            if pushed is not None:
                _push(stack, pushed)
            if position > self._bytes_max:
                raise too_long(self._bytes_max)
        self.position = position
        return None if stack or position > size else position

    def _begin(self, data: bytes | bytearray) -> bool:
        if len(data) < 4:
            return False
        if data[0] & 0x80:
            if data[0] != 0x80 or data[1] != 1:
                raise TProtocolException(TProtocolException.BAD_VERSION, "this is no message of the binary protocol")
            if len(data) < 8:
                return False
            self.position = 12 + _length(data, 4, self._bytes_max)
        else:
            self.position = 9 + _length(data, 0, self._bytes_max)
        self._has_begun = True
        self._stack.append(_STRUCTURE)
        return True


class CompactScanner(Scanner):
    """Scanner of the compact protocol."""

    __slots__ = ()

    def scan(self, data: bytes | bytearray) -> int | None:
        """Continue the scan; see Scanner."""
        if len(data) < self.position:
            return None
        try:
            if not self._has_begun:
                self._begin(data)
            while self._stack and self.position <= len(data):
                self._step(data)
        except IndexError:
            # A value's head continues after the bytes; the step is repeated when more have arrived.
            return None
        return None if self._stack or self.position > len(data) else self.position

    def _begin(self, data: bytes | bytearray) -> None:
        if data[0] != 0x82:
            raise TProtocolException(TProtocolException.BAD_VERSION, "this is no message of the compact protocol")
        _, position = _scanned_varint(data, 2)
        length, position = _scanned_varint(data, position)
        self.position = self._checked(position + length)
        self._has_begun = True
        self._stack.append(_STRUCTURE)

    def _step(self, data: bytes | bytearray) -> None:
        frame = self._stack[-1]
        position = self.position
        if frame is _STRUCTURE:
            head = data[position]
            kind = head & 0x0F
            position += 1
            if kind == 0:
                self.position = position
                self._stack.pop()
                return
            if not head & 0xF0:
                _, position = _scanned_varint(data, position)
            if kind <= 2:
                # A truth value is in the head.
                self.position = position
                self.weight += _NUMBER_WEIGHT
                return
        elif frame[0] == 0:
            self._stack.pop()
            return
        else:
            kind = frame[1] if frame[2] < 0 or frame[0] % 2 == 0 else frame[2]
        weight, following, pushed = _compact_value(data, position, kind, self._bytes_max)
        self.weight += weight
        if frame is not _STRUCTURE:
            frame[0] -= 1
        self.position = self._checked(following)
        if pushed is not None:
            _push(self._stack, pushed)

    def _checked(self, position: int) -> int:
        if position > self._bytes_max:
            raise too_long(self._bytes_max)
        return position


def too_long(bytes_max: int) -> TTransportException:
    """Return the error of a message that exceeds the limit."""
    return TTransportException(
        TTransportException.SIZE_LIMIT, f"a message of more than {bytes_max} bytes (the setting message_bytes_max)"
    )


_BINARY_SIZES = {2: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8}
"""Bytes of the types of fixed length."""

_BINARY_HEADS = {11: 4, 13: 6, 14: 5, 15: 5}


def _compact_value(
    data: bytes | bytearray, position: int, kind: int, bytes_max: int
) -> tuple[int, int, list[int] | None]:
    """Return the weight of a value, its end, and the frame of its content. IndexError if its head is incomplete."""
    if kind in (4, 5, 6):
        return _NUMBER_WEIGHT, _scanned_varint(data, position)[1], None
    if kind in (1, 2, 3):
        return _NUMBER_WEIGHT, position + 1, None
    if kind == 7:
        return _NUMBER_WEIGHT, position + 8, None
    if kind == 8:
        length, position = _scanned_varint(data, position)
        if length > bytes_max:
            raise too_long(bytes_max)
        return _TEXT_WEIGHT + _CHARACTER_WEIGHT * length, position + length, None
    if kind in (9, 10):
        head = data[position]
        count, position = (head >> 4, position + 1) if head < 0xF0 else _scanned_varint(data, position + 1)
        _check_count(count)
        return _CONTAINER_WEIGHT + _ELEMENT_WEIGHT * count, position, [count, head & 0x0F, -1]
    if kind == 11:
        count, position = _scanned_varint(data, position)
        _check_count(count)
        if not count:
            return _CONTAINER_WEIGHT, position, None
        kinds = data[position]
        return _CONTAINER_WEIGHT + _ENTRY_WEIGHT * count, position + 1, [2 * count, kinds >> 4, kinds & 0x0F]
    if kind == 12:
        return _STRUCTURE_WEIGHT, position, _STRUCTURE
    raise TProtocolException(TProtocolException.INVALID_DATA, f"there is no type {kind}")


def _push(stack: list[list[int]], frame: list[int]) -> None:
    if len(stack) == DEPTH_MAX:
        raise TProtocolException(
            TProtocolException.DEPTH_LIMIT, f"structures and containers more than {DEPTH_MAX} deep in one another"
        )
    stack.append(frame)


def _length(data: bytes | bytearray, at: int, most: int) -> int:
    length = int.from_bytes(data[at : at + 4], "big", signed=True)
    if length < 0:
        raise TProtocolException(TProtocolException.NEGATIVE_SIZE, f"a negative length, {length}")
    if length > most:
        raise TProtocolException(TProtocolException.SIZE_LIMIT, f"a length of {length}, allowed are {most}")
    return length


def _check_count(count: int) -> None:
    if count > CONTAINER_ELEMENTS_MAX:
        raise TProtocolException(
            TProtocolException.SIZE_LIMIT, f"{count} elements in one container, allowed are {CONTAINER_ELEMENTS_MAX}"
        )


def _scanned_varint(data: bytes | bytearray, position: int) -> tuple[int, int]:
    """Return a number and its end. IndexError if it is incomplete."""
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7
        if shift > 63:
            raise TProtocolException(TProtocolException.INVALID_DATA, "a number of more than ten bytes")


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
