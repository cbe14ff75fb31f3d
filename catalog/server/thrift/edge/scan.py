"""Scanners that find the end of a message in its bytes as they arrive, and its memory once it is decoded.

Thrift's messages have no length around them where the transport is buffered. A scanner walks over the heads of values
and skips their content, so that each byte is read at most once, however many pieces a message arrives in. A structure
of one byte becomes an object of 300; the sum of the sizes of its decoded values is the weight of a message, in bytes,
overestimated rather than underestimated.
"""

from typing import Protocol

from thrift.protocol.TProtocol import TProtocolException
from thrift.transport.TTransport import TTransportException

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


class Scanner(Protocol):
    """Scanner of one message. `position` is the least length of the message that is known so far."""

    position: int
    weight: int

    def scan(self, data: bytes | bytearray) -> int | None:
        """Continue with all bytes of the message so far, and return where it ends; None if it continues after them.
        TException for an invalid message, or one that exceeds the limit.
        """
        ...


class BinaryScanner:
    """Scanner of the binary protocol."""

    __slots__ = ("_bytes_max", "_has_begun", "_stack", "position", "weight")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._stack: list[list[int]] = []
        self._has_begun = False
        self.position = 0
        self.weight = 0

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


class CompactScanner:
    """Scanner of the compact protocol."""

    __slots__ = ("_bytes_max", "_has_begun", "_stack", "position", "weight")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._stack: list[list[int]] = []
        self._has_begun = False
        self.position = 0
        self.weight = 0

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
        _, position = _varint(data, 2)
        length, position = _varint(data, position)
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
                _, position = _varint(data, position)
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
        return _NUMBER_WEIGHT, _varint(data, position)[1], None
    if kind in (1, 2, 3):
        return _NUMBER_WEIGHT, position + 1, None
    if kind == 7:
        return _NUMBER_WEIGHT, position + 8, None
    if kind == 8:
        length, position = _varint(data, position)
        if length > bytes_max:
            raise too_long(bytes_max)
        return _TEXT_WEIGHT + _CHARACTER_WEIGHT * length, position + length, None
    if kind in (9, 10):
        head = data[position]
        count, position = (head >> 4, position + 1) if head < 0xF0 else _varint(data, position + 1)
        _check_count(count)
        return _CONTAINER_WEIGHT + _ELEMENT_WEIGHT * count, position, [count, head & 0x0F, -1]
    if kind == 11:
        count, position = _varint(data, position)
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


def _varint(data: bytes | bytearray, position: int) -> tuple[int, int]:
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
