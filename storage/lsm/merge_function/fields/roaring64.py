"""Roaring bitmaps of 64-bit numbers in the serialization of Java's Roaring64Bitmap, for `rbm64` columns.

This is not the portable format, which pyroaring's BitMap64 has. The high 48 bits of a number are a key in a radix tree,
whose leaf has the place of a container with the low 16 bits. On disk: one byte (0 for an empty bitmap, otherwise 1);
the number of keys (int64); the nodes of the tree in depth-first order; the containers by place. All numbers are
little-endian, but keys are not.

- node: kind (0 to 3: branch of up to 4, 16, 48, 256 children; 4: leaf), children (int16), prefix length (int8), prefix.
  A branch of 4 or 16 continues with the bytes of its children, one of 48 with the place of the child for each of 256
  bytes (-1: none), one of 256 with a bit mask; a leaf with the key in 6 bytes and the place of its container in 8. The
  bytes of a branch of 48, the bits of a mask and the bytes of a branch of 16 are in words of 8 bytes, the bytes of a
  branch of 4 in a word of 4 bytes.
- containers: number of arrays (int32; an array has up to 2^31), and for each array a mark (int8, -2), its length
  (int32) and the containers: 0 for an empty place, otherwise 1, kind (0: runs, 1: bits, 2: numbers), cardinality
  (int32) and content. Then the number of containers (int64) and the last place used (two int32).

A union gives the same bytes as Java: containers keep their places, new ones are appended, arrays grow by half. Source:
`Roaring64Bitmap`, `HighLowContainer`, `Art` and `Containers` of RoaringBitmap 1.2.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from interbed.storage.base.errors import CorruptFileError

_RUNS, _BITS, _NUMBERS = 0, 1, 2
_ARRAY_LIMIT = 4096
_BITS_SIZE = 8192
_ALL = 1 << 16
_KEY_BYTES = 6
_SIZES = {0: 4, 1: 16, 2: 48, 3: 256}
_LEAF = 4
_NO_CHILD = 0xFF

Values: TypeAlias = npt.NDArray[np.uint16]


@dataclass(slots=True)
class _Container:
    kind: int
    cardinality: int
    content: bytes

    def values(self) -> Values:
        """Return the low 16 bits of the numbers, ascending."""
        numbers: Values
        if self.kind == _NUMBERS:
            numbers = np.frombuffer(self.content, "<u2")
            return numbers
        if self.kind == _BITS:
            bits = np.unpackbits(np.frombuffer(self.content, np.uint8), bitorder="little")
            return np.flatnonzero(bits).astype(np.uint16)
        runs = np.frombuffer(self.content, "<u2", offset=2).reshape(-1, 2).astype(np.int64)
        sizes = runs[:, 1] + 1
        before = np.cumsum(sizes) - sizes
        numbers = (np.arange(int(sizes.sum())) + np.repeat(runs[:, 0] - before, sizes)).astype(np.uint16)
        return numbers

    def optimized(self) -> "_Container":
        """Return the container in runs if that is smaller."""
        if self.kind == _RUNS:
            return self
        values = self.values()
        return _as_runs(values) if 2 + 4 * _count_runs(values) < len(self.content) else self

    def union(self, other: "_Container") -> "_Container":
        """Return the union of both, in the kind of container that Java's library chooses."""
        values = np.union1d(self.values(), other.values())
        size = 2 + 4 * _count_runs(values)
        kinds = {self.kind, other.kind}
        if len(values) == _ALL:
            return _as_runs(values)
        if kinds == {_RUNS}:
            return _as_runs(values) if size <= _BITS_SIZE else _as_bits(values)
        in_runs = _RUNS in kinds and _BITS not in kinds and size <= min(_BITS_SIZE, 2 * len(values) + 2)
        plain = _as_bits(values) if _BITS in kinds or len(values) > _ARRAY_LIMIT else _as_numbers(values)
        return _as_runs(values) if in_runs or size < len(plain.content) else plain


@dataclass(slots=True)
class _Leaf:
    key: bytes
    place: int


@dataclass(slots=True)
class _Branch:
    """An inner node; `children` are by byte, in order of insertion, the order of places in a branch of 48."""

    kind: int
    prefix: bytes
    children: "dict[int, _Node]" = field(default_factory=dict)

    def insert(self, byte: int, child: "_Node") -> None:
        """Add a child; grow if no place is left."""
        self.children[byte] = child
        if len(self.children) > _SIZES[self.kind]:
            self.kind += 1
            if _SIZES[self.kind] == 48:
                # The children of a smaller branch are sorted; the new one is appended.
                self.children = {**{b: self.children[b] for b in sorted(self.children) if b != byte}, byte: child}


_Node: TypeAlias = _Leaf | _Branch


class Roaring64Bitmap:
    """A mutable bitmap of 64-bit numbers."""

    def __init__(self, data: bytes) -> None:
        """Deserialize a bitmap; raises CorruptFileError."""
        self._root: _Node | None = None
        self._places: dict[bytes, int] = {}
        self._arrays: list[list[_Container | None]] = []
        self._last = (-1, 0)
        self._optimized = False
        try:
            self._read(data)
        except (struct.error, IndexError, ValueError, KeyError) as error:
            raise CorruptFileError(f"This is no 64-bit roaring bitmap of Java's library: {error}.") from error

    @staticmethod
    def of(numbers: Iterable[int]) -> "Roaring64Bitmap":
        """Return a bitmap of these numbers, each from 0 to 2^64 - 1."""
        bitmap = Roaring64Bitmap(b"\0")
        lows: dict[bytes, list[int]] = {}
        for number in sorted(set(numbers)):
            lows.setdefault((number >> 16).to_bytes(_KEY_BYTES, "big"), []).append(number & 0xFFFF)
        for key, values in lows.items():
            low = np.array(values, np.uint16)
            container = _as_bits(low) if len(low) > _ARRAY_LIMIT else _as_numbers(low)
            bitmap._put(key, container.optimized())
        return bitmap

    def numbers(self) -> Iterator[int]:
        """Yield the numbers as unsigned integers, ascending."""
        for key, container in self._containers():
            high = int.from_bytes(key, "big") << 16
            yield from (high + low for low in container.values().tolist())

    def add_all(self, other: "Roaring64Bitmap") -> None:
        """Add the numbers of another bitmap, container by container, because each pair may have different kinds."""
        for key, container in other._containers():
            place = self._places.get(key)
            if place is None:
                self._put(key, container.optimized())
            else:
                self._arrays[place >> 32][place & 0xFFFFFFFF] = self._at(place).union(container)
        if not self._optimized:
            self._arrays = [[c and c.optimized() for c in array] for array in self._arrays]
            self._optimized = True

    def to_bytes(self) -> bytes:
        """Return the bitmap in the serialization of Java's library."""
        if self._root is None:
            return b"\0"
        parts = [b"\1", struct.pack("<q", len(self._places))]
        _write_node(self._root, parts)
        parts.append(struct.pack("<i", len(self._arrays)))
        for array in self._arrays:
            parts.append(struct.pack("<bi", -2, len(array)))
            for container in array:
                if container is None:
                    parts.append(b"\0")
                else:
                    parts.append(struct.pack("<bbi", 1, container.kind, container.cardinality))
                    parts.append(container.content)
        parts.append(struct.pack("<qii", len(self._places), *self._last))
        return b"".join(parts)

    def _read(self, data: bytes) -> None:
        if data[0] == 0:
            return
        reader = _Reader(data, 9)
        self._root = _read_node(reader, self._places)
        (arrays,) = reader.take("<i")
        for _ in range(arrays):
            _, length = reader.take("<bi")
            self._arrays.append([reader.container() for _ in range(length)])
        _, *last = reader.take("<qii")
        self._last = (last[0], last[1])
        for place in self._places.values():
            self._at(place)

    def _containers(self) -> Iterator[tuple[bytes, _Container]]:
        for key in sorted(self._places):
            yield key, self._at(self._places[key])

    def _at(self, place: int) -> _Container:
        container = self._arrays[place >> 32][place & 0xFFFFFFFF]
        if container is None:
            raise ValueError(f"there is no container at place {place}")
        return container

    def _put(self, key: bytes, container: _Container) -> None:
        first, second = self._last
        if first < 0:
            self._arrays.append([None])
            self._last = (0, 0)
        else:
            self._last = (first, second + 1)
        array = self._arrays[-1]
        if self._last[1] >= len(array):
            array.extend([None] * max(len(array) >> 1, 1))
        array[self._last[1]] = container
        place = self._last[0] << 32 | self._last[1]
        self._places[key] = place
        self._root = _inserted(self._root, key, 0, place)


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    def take(self, layout: str) -> tuple[Any, ...]:
        """Return the next numbers, in a format of module struct."""
        numbers = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return numbers

    def bytes(self, size: int) -> bytes:
        """Return the next `size` bytes."""
        taken = self._data[self._at : self._at + size]
        if size < 0 or len(taken) != size:
            raise ValueError("its end is missing")
        self._at += size
        return taken

    def container(self) -> _Container | None:
        """Return the next container; None for an empty place."""
        (is_used,) = self.take("<b")
        if not is_used:
            return None
        kind, cardinality = self.take("<bi")
        if kind == _RUNS:
            (runs,) = struct.unpack_from("<H", self._data, self._at)
            return _Container(kind, cardinality, self.bytes(2 + 4 * runs))
        if kind not in (_BITS, _NUMBERS):
            raise ValueError(f"it has a container of the unknown kind {kind}")
        return _Container(kind, cardinality, self.bytes(_BITS_SIZE if kind == _BITS else 2 * cardinality))


def _read_node(reader: _Reader, places: dict[bytes, int]) -> _Node:
    kind, count, prefix_length = reader.take("<bhb")
    prefix = reader.bytes(prefix_length)
    if kind == _LEAF:
        key = reader.bytes(_KEY_BYTES)
        (place,) = reader.take("<q")
        places[key] = place
        return _Leaf(key, place)
    branch = _Branch(kind, prefix)
    size = _SIZES[kind]
    if size <= 16:
        word = min(size, 8)
        content = reader.bytes(size)
        found = b"".join(content[i : i + word][::-1] for i in range(0, size, word))[:count]
        for byte in found:
            branch.children[byte] = _read_node(reader, places)
    elif size == 48:
        index = np.frombuffer(reader.bytes(256), np.uint8).reshape(32, 8)[:, ::-1].reshape(-1)
        read = {byte: _read_node(reader, places) for byte in np.flatnonzero(index != _NO_CHILD).tolist()}
        branch.children = {byte: read[byte] for byte in sorted(read, key=lambda b: int(index[b]))}
    else:
        mask = np.unpackbits(np.frombuffer(reader.bytes(32), np.uint8), bitorder="little")
        branch.children = {byte: _read_node(reader, places) for byte in np.flatnonzero(mask).tolist()}
    return branch


def _write_node(node: _Node, parts: list[bytes]) -> None:
    if isinstance(node, _Leaf):
        parts.append(struct.pack("<bhb", _LEAF, 0, 0) + node.key + struct.pack("<q", node.place))
        return
    size = _SIZES[node.kind]
    parts.append(struct.pack("<bhb", node.kind, len(node.children), len(node.prefix)) + node.prefix)
    in_order = sorted(node.children)
    if size <= 16:
        word = min(size, 8)
        content = bytes(in_order).ljust(size, b"\0")
        parts.extend(content[i : i + word][::-1] for i in range(0, size, word))
    elif size == 48:
        index = np.full(256, _NO_CHILD, np.uint8)
        index[list(node.children)] = np.arange(len(node.children))
        parts.append(index.reshape(32, 8)[:, ::-1].tobytes())
    else:
        mask = np.zeros(256, np.uint8)
        mask[in_order] = 1
        parts.append(np.packbits(mask, bitorder="little").tobytes())
    for byte in in_order:
        _write_node(node.children[byte], parts)


def _inserted(node: _Node | None, key: bytes, depth: int, place: int) -> _Node:
    """Return the tree with one more leaf."""
    leaf = _Leaf(key, place)
    if node is None:
        return leaf
    path = node.key[depth:] if isinstance(node, _Leaf) else node.prefix
    common = 0
    while common < len(path) and path[common] == key[depth + common]:
        common += 1
    if isinstance(node, _Leaf) or common < len(path):
        branch = _Branch(0, path[:common])
        branch.insert(path[common], node)
        if isinstance(node, _Branch):
            node.prefix = path[common + 1 :]
        branch.insert(key[depth + common], leaf)
        return branch
    depth += common
    child = node.children.get(key[depth])
    if child is None:
        node.insert(key[depth], leaf)
    else:
        node.children[key[depth]] = _inserted(child, key, depth + 1, place)
    return node


def _count_runs(values: Values) -> int:
    return int(np.count_nonzero(np.diff(values) != 1)) + (len(values) > 0)


def _as_runs(values: Values) -> _Container:
    firsts = np.flatnonzero(np.diff(values, prepend=values[:1] - np.uint16(2)) != 1)
    sizes = np.diff(firsts, append=len(values)) - 1
    runs = np.stack([values[firsts], sizes.astype(np.uint16)], axis=1)
    return _Container(_RUNS, len(values), struct.pack("<H", len(firsts)) + runs.astype("<u2").tobytes())


def _as_bits(values: Values) -> _Container:
    bits = np.zeros(_ALL, np.uint8)
    bits[values] = 1
    return _Container(_BITS, len(values), np.packbits(bits, bitorder="little").tobytes())


def _as_numbers(values: Values) -> _Container:
    return _Container(_NUMBERS, len(values), values.astype("<u2").tobytes())
