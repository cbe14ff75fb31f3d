"""Thrift's compact protocol, the subset for the metadata of Parquet files: structs by the numbers of their fields.

Source: Apache Thrift, doc/specs/thrift-compact-protocol.md.
"""

import struct
from collections.abc import Iterator
from typing import Any

BOOL_TRUE, BOOL_FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
STOP = 0
_INTEGERS = (I16, I32, I64)
_LONG_LIST = 0x0F
_LONG_FIELD = 0x0F
"""A greater header of a field has the difference to the previous field's number; otherwise the number follows."""
_MAX_DEPTH = 32
_TOO_DEEP = "structs and lists in each other without end"

Struct = dict[int, Any]
"""Values by number of the field: int, bool, float, bytes, list, or Struct."""


class CompactReader:
    """Sequential reader of values. Raises ValueError or IndexError for damaged bytes."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def byte(self) -> int:
        """Read and return the next byte."""
        value = self.data[self.position]
        self.position += 1
        return value

    def varint(self) -> int:
        """Read and return an unsigned number."""
        value, self.position = _unsigned(self.data, self.position)
        return value

    def integer(self) -> int:
        """Read and return a signed number."""
        encoded = self.varint()
        return (encoded >> 1) ^ -(encoded & 1)

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yield the fields of a struct by number and type; each value must be read or skipped before the next field."""
        number = 0
        while (head := self.byte()) != STOP:
            number = number + (head >> 4) if head > _LONG_FIELD else self.integer()
            yield number, head & 0x0F

    def list_head(self) -> tuple[int, int]:
        """Read and return the number of values of a list, and their type."""
        size, kind, self.position = _list_head(self.data, self.position)
        return size, kind

    def value(self, kind: int) -> Any:
        """Read and return the value of a field of that type."""
        found, self.position = _value(self.data, self.position, kind, 0)
        return found

    def struct(self) -> Struct:
        """Read and return a struct with all nested values."""
        found: Struct = self.value(STRUCT)
        return found

    def skip(self, kind: int) -> None:
        """Move to the end of a value."""
        self.position = _behind(self.data, self.position, kind, 0)


class CompactWriter:
    """Writer of structs field by field, in the order of their numbers."""

    def __init__(self, after: int = 0) -> None:
        """Continue a struct whose last field is `after`, or begin a struct."""
        self._parts = bytearray()
        self._last = [after]

    def to_bytes(self) -> bytes:
        """Return the bytes that were written."""
        return bytes(self._parts)

    def field(self, number: int, kind: int) -> None:
        """Begin a field, whose value is written next."""
        delta = number - self._last[-1]
        if 0 < delta < 16:
            self._parts.append(delta << 4 | kind)
        else:
            self._parts.append(kind)
            self._varint(_zigzag(number))
        self._last[-1] = number

    def integer(self, number: int, value: int, kind: int = I64) -> None:
        """Write a field of an integer type."""
        self.field(number, kind)
        self._varint(_zigzag(value))

    def raw(self, number: int, kind: int, value: bytes) -> None:
        """Write a field whose value is encoded already."""
        self.field(number, kind)
        self._parts += value

    def encoded(self, value: bytes) -> None:
        """Write a list's value that is encoded already."""
        self._parts += value

    def list_head(self, size: int, kind: int) -> None:
        """Write the number and the type of a list's values, which are written next."""
        if size < _LONG_LIST:
            self._parts.append(size << 4 | kind)
        else:
            self._parts.append(_LONG_LIST << 4 | kind)
            self._varint(size)

    def begin(self) -> None:
        """Begin a struct as the value of a field or of a list."""
        self._last.append(0)

    def end(self) -> None:
        """End the innermost open struct, or the outermost."""
        self._parts.append(STOP)
        self._last.pop()

    def _varint(self, value: int) -> None:
        while value >= 0x80:
            self._parts.append(value & 0x7F | 0x80)
            value >>= 7
        self._parts.append(value)


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    """Return the value at the position, and its end."""
    if kind in _INTEGERS:
        encoded, at = _unsigned(data, at)
        return (encoded >> 1) ^ -(encoded & 1), at
    if kind == BINARY:
        size, at = _unsigned(data, at)
        if at + size > len(data):
            raise ValueError(f"{size} bytes where {len(data) - at} are left")
        return data[at : at + size], at + size
    if kind in (STRUCT, LIST, SET):
        if depth >= _MAX_DEPTH:
            raise ValueError(_TOO_DEEP)
        return _struct(data, at, depth + 1) if kind == STRUCT else _list(data, at, depth + 1)
    if kind in (BOOL_TRUE, BOOL_FALSE):
        return kind == BOOL_TRUE, at
    if kind == BYTE:
        return data[at], at + 1
    if kind == DOUBLE:
        return struct.unpack("<d", data[at : at + 8])[0], at + 8
    raise ValueError(f"a value of Thrift's type {kind}")


def _struct(data: bytes, at: int, depth: int) -> tuple[Struct, int]:
    found: Struct = {}
    number = 0
    while head := data[at]:
        at += 1
        if head > _LONG_FIELD:
            number += head >> 4
        else:
            number, at = _value(data, at, I16, depth)
        kind = head & 0x0F
        if kind in _INTEGERS:
            encoded = data[at]
            at += 1
            if encoded >= 0x80:
                encoded, at = _unsigned(data, at - 1)
            found[number] = (encoded >> 1) ^ -(encoded & 1)
        else:
            found[number], at = _value(data, at, kind, depth)
    return found, at + 1


def _list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    size, kind, at = _list_head(data, at)
    if size > len(data) - at:
        raise ValueError(f"a list of {size} values where {len(data) - at} bytes are left")
    if kind in (BOOL_TRUE, BOOL_FALSE):
        # In lists each boolean is a byte.
        return [value == BOOL_TRUE for value in data[at : at + size]], at + size
    found: list[Any] = []
    for _ in range(size):
        value, at = _value(data, at, kind, depth)
        found.append(value)
    return found, at


def _list_head(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the number of values of a list, their type, and their position."""
    head = data[at]
    size, at = (head >> 4, at + 1) if head >> 4 != _LONG_LIST else _unsigned(data, at + 1)
    return size, head & 0x0F, at


def _behind(data: bytes, at: int, kind: int, depth: int) -> int:
    """Return the end of the value at the position.

    Most of a footer is skipped, so the most frequent fields are handled inline, without calls.
    """
    if depth > _MAX_DEPTH:
        raise ValueError(_TOO_DEEP)
    if kind == STRUCT:
        while head := data[at]:
            at += 1
            if head <= _LONG_FIELD:
                at = _behind(data, at, I16, depth)
            inner = head & 0x0F
            if inner in _INTEGERS:
                while data[at] >= 0x80:
                    at += 1
                at += 1
            elif inner not in (BOOL_TRUE, BOOL_FALSE):
                at = _behind(data, at, inner, depth + 1)
        return at + 1
    if kind in (LIST, SET):
        size, inner, at = _list_head(data, at)
        if inner in (BOOL_TRUE, BOOL_FALSE):
            return at + size
        for _ in range(size):
            at = _behind(data, at, inner, depth + 1)
        return at
    if kind == BINARY:
        size, at = _unsigned(data, at)
        return at + size
    if kind in _INTEGERS:
        while data[at] >= 0x80:
            at += 1
        return at + 1
    if kind in (BOOL_TRUE, BOOL_FALSE):
        return at
    if kind in (BYTE, DOUBLE):
        return at + (1 if kind == BYTE else 8)
    raise ValueError(f"a value of Thrift's type {kind}")


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned number, and its end."""
    part = data[at]
    at += 1
    value, shift = part & 0x7F, 7
    while part >= 0x80:
        part = data[at]
        at += 1
        value |= (part & 0x7F) << shift
        shift += 7
    return value, at


def _zigzag(value: int) -> int:
    return value << 1 ^ value >> 63
