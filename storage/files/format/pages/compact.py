"""Thrift's compact protocol, as far as the metadata of Parquet files needs it: structs by the numbers of their fields.

Source: Apache Thrift, doc/specs/thrift-compact-protocol.md.
"""

import struct
from collections.abc import Iterator
from typing import Any

BOOL_TRUE, BOOL_FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
STOP = 0
_INTEGERS = (I16, I32, I64)
_LONG_LIST = 0x0F
_MAX_DEPTH = 32

Struct = dict[int, Any]
"""Values by number of the field: int, bool, float, bytes, list, or Struct."""


class CompactReader:
    """Reads values one after the other; raises ValueError or IndexError for bytes that are none."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position
        self._depth = 0

    def byte(self) -> int:
        """The next byte."""
        value = self.data[self.position]
        self.position += 1
        return value

    def varint(self) -> int:
        """An unsigned number."""
        data, position = self.data, self.position
        part = data[position]
        position += 1
        value, shift = part & 0x7F, 7
        while part >= 0x80:
            part = data[position]
            position += 1
            value |= (part & 0x7F) << shift
            shift += 7
        self.position = position
        return value

    def integer(self) -> int:
        """A signed number."""
        encoded = self.varint()
        return (encoded >> 1) ^ -(encoded & 1)

    def binary(self) -> bytes:
        """Bytes with their length before them."""
        length = self.varint()
        start, end = self.position, self.position + length
        if end > len(self.data):
            raise ValueError(f"{length} bytes where {len(self.data) - start} are left")
        self.position = end
        return self.data[start:end]

    def fields(self) -> Iterator[tuple[int, int]]:
        """The fields of a struct by number and type; each value must be read or skipped before the next one."""
        number = 0
        while (head := self.byte()) != STOP:
            delta = head >> 4
            # The long form is for numbers that are not just a little greater than the one before.
            number = number + delta if delta else self.integer()
            yield number, head & 0x0F

    def list_head(self) -> tuple[int, int]:
        """How many values a list has, and their type."""
        head = self.byte()
        size = head >> 4
        return (self.varint() if size == _LONG_LIST else size), head & 0x0F

    def value(self, kind: int) -> Any:
        """The value of a field of that type."""
        if kind in _INTEGERS:
            return self.integer()
        if kind == BINARY:
            return self.binary()
        if kind == STRUCT:
            return self.struct()
        if kind in (BOOL_TRUE, BOOL_FALSE):
            return kind == BOOL_TRUE
        if kind in (LIST, SET):
            return self.list()
        if kind == BYTE:
            return self.byte()
        if kind == DOUBLE:
            self.position += 8
            return struct.unpack("<d", self.data[self.position - 8 : self.position])[0]
        raise ValueError(f"a value of Thrift's type {kind}")

    def struct(self) -> Struct:
        """A struct with all that is in it."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ValueError("structs in structs without end")
        found = {number: self.value(kind) for number, kind in self.fields()}
        self._depth -= 1
        return found

    def list(self) -> list[Any]:
        """A list with all that is in it."""
        size, kind = self.list_head()
        if size > len(self.data) - self.position:
            raise ValueError(f"a list of {size} values where {len(self.data) - self.position} bytes are left")
        if kind in (BOOL_TRUE, BOOL_FALSE):
            # In lists a byte stands for each.
            return [self.byte() == BOOL_TRUE for _ in range(size)]
        return [self.value(kind) for _ in range(size)]

    def skip(self, kind: int) -> None:
        """Move behind a value."""
        if kind in _INTEGERS:
            while self.data[self.position] >= 0x80:
                self.position += 1
            self.position += 1
        elif kind == BINARY:
            length = self.varint()
            self.position += length
        elif kind == STRUCT:
            for _, inner in self.fields():
                self.skip(inner)
        elif kind in (LIST, SET):
            size, inner = self.list_head()
            if inner in (BOOL_TRUE, BOOL_FALSE):
                self.position += size
            else:
                for _ in range(size):
                    self.skip(inner)
        elif kind not in (BOOL_TRUE, BOOL_FALSE):
            self.value(kind)


class CompactWriter:
    """Writes structs field by field, in the order of their numbers."""

    def __init__(self, after: int = 0) -> None:
        """With `after` the struct goes on behind that field."""
        self._parts = bytearray()
        self._last = [after]

    def to_bytes(self) -> bytes:
        """What was written."""
        return bytes(self._parts)

    def field(self, number: int, kind: int) -> None:
        """Begin a field; its value follows."""
        delta = number - self._last[-1]
        if 0 < delta < 16:
            self._parts.append(delta << 4 | kind)
        else:
            self._parts.append(kind)
            self._varint(_zigzag(number))
        self._last[-1] = number

    def integer(self, number: int, value: int, kind: int = I64) -> None:
        """A field of a number."""
        self.field(number, kind)
        self._varint(_zigzag(value))

    def raw(self, number: int, kind: int, value: bytes) -> None:
        """A field whose value is encoded already."""
        self.field(number, kind)
        self._parts += value

    def encoded(self, value: bytes) -> None:
        """A value that is encoded already, of a list."""
        self._parts += value

    def list_head(self, size: int, kind: int) -> None:
        """How many values of which type a list has; they follow."""
        if size < _LONG_LIST:
            self._parts.append(size << 4 | kind)
        else:
            self._parts.append(_LONG_LIST << 4 | kind)
            self._varint(size)

    def begin(self) -> None:
        """Begin a struct as the value of a field or of a list."""
        self._last.append(0)

    def end(self) -> None:
        """End the struct that was begun last, or the outermost."""
        self._parts.append(STOP)
        self._last.pop()

    def _varint(self, value: int) -> None:
        while value >= 0x80:
            self._parts.append(value & 0x7F | 0x80)
            value >>= 7
        self._parts.append(value)


def _zigzag(value: int) -> int:
    return value << 1 ^ value >> 63
