"""Invalid frames of Thrift: requests of all methods, mutated as structures and as bytes.

A request is generated from the specification of the arguments of a method, as a tree of wire values, so that a mutation
can put any type anywhere. `FrameGenerator` yields encoded messages; the same seed yields the same frames.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TMessageType, TType
from thrift.transport.TTransport import TMemoryBuffer

from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore

METHODS = sorted(name.removesuffix("_args") for name in dir(ThriftHiveMetastore) if name.endswith("_args"))
"""All methods of the interface definition, including those that the server does not serve."""

INTEGERS = {
    TType.BYTE: (0, 1, -1, 127, -128),
    TType.I16: (0, 1, -1, 2**15 - 1, -(2**15)),
    TType.I32: (0, 1, 2, 3, -1, 100, 2**31 - 1, -(2**31)),
    TType.I64: (0, 1, 2, -1, 100, 2**31, -(2**31), 2**63 - 1, -(2**63)),
}
DOUBLES = (0.0, -1.5, float("nan"), float("inf"), float("-inf"), 1e308, 5e-324)
KINDS = (
    TType.BOOL,
    TType.BYTE,
    TType.I16,
    TType.I32,
    TType.I64,
    TType.DOUBLE,
    TType.STRING,
    TType.STRUCT,
    TType.MAP,
    TType.SET,
    TType.LIST,
)

HOSTILE_TEXTS = (
    b"",
    b" ",
    b"\n",
    b"\x00",
    b"a\x00b",
    b"\x1b[31mred\x1b[0m",
    "\u2028\u202e\x85".encode(),
    b"\xed\xa0\x80",
    b"\xed\xb0\x80x",
    b"\xff\xfe\xfd",
    b"\xc3",
    b"a" * 300,
    b"b" * 5000,
    b"/" * 300,
    b"x/" * 1500,
    b"file:/" + b"y/" * 1500,
    b"file:/" + b"z" * 300,
    b"ftp://host/x",
    b"gopher:x",
    b"://",
    b":",
    b"%",
    b"%41%",
    b"a=1/b=2",
    b"=",
    b"/=/",
    b"p=__HIVE_DEFAULT_PARTITION__",
    b"@hive#",
    b"@#",
    b"@hive#!",
    b"@nope#default",
    b"*",
    b"a|b*|.*",
    b"*" * 400,
    b"|" * 400,
    b"(" * 400,
    b"[" * 50 + b"\\",
    b"' or 1=1 --",
    b"9" * 60,
    b"-1",
    b"1e999",
    b"NaN",
    b"{}",
    b"[null]",
    b'{"a":' * 200,
    b"\xf0\x9f\x92\xa9",
)

WORDS = (b"default", b"d", b"t", b"p", b"f", b"x", b"tester", b"1", b"a", b"hive", b"true")

_BY_NAME: tuple[tuple[tuple[str, ...], tuple[bytes, ...]], ...] = (
    (("filter",), (b"p = '1'", b"p > 1 and p like 'a%'", b'hive_filter_field_owner__ = "x"', b"not p in (1, 2)")),
    (("pattern", "patterns"), (b"*", b"d*", b".*", b"t|p", b"%")),
    (("partname", "part_name", "name", "partnames"), (b"t", b"p", b"d", b"default", b"p=1", b"f")),
    (("vals", "values"), (b"1", b"2", b"", b"a/b")),
    (("schedule",), (b"0 0 * * * ? *", b"*/5 * * * * ?", b"0 0 0 31 2 ?", b"@daily")),
    (("type",), (b"int", b"string", b"MANAGED_TABLE", b"EXTERNAL_TABLE", b"VIRTUAL_VIEW", b"decimal(10,2)")),
    (("db", "database"), (b"default", b"d", b"@hive#d")),
    (("tbl", "table"), (b"t", b"p")),
)


@dataclass(slots=True)
class Node:
    """Value on the wire. `items` are the (field, value) of a structure, the values of a list or the (key, value) of a
    map.
    """

    kind: int
    scalar: Any = None
    items: list[Any] = field(default_factory=list)
    element: int = 0
    key: int = 0
    claimed: int | None = None
    """Number of elements in the header of the value, when it differs from the real number."""


class FrameGenerator:
    """Encoded messages in the compact or the binary protocol. `root` is a directory for the locations in them. Without
    locations no message has a path; use this for servers whose deletions are not guarded.
    """

    def __init__(self, seed: int, root: Path, *, compact: bool = False, with_locations: bool = True) -> None:
        self._random = random.Random(seed)
        self._root = str(root).encode()
        self._protocol: Callable[[Any], Any] = TCompactProtocol if compact else TBinaryProtocol
        self._last = b""
        self._with_locations = with_locations

    def next(self) -> bytes:
        """Return the next frame."""
        chance = self._random
        if chance.random() < 0.02:
            return chance.randbytes(chance.randrange(1, 200))
        method = chance.choice(METHODS)
        frame = self.encoded(method, self.mutated(self.arguments(method)))
        if chance.random() < 0.3:
            frame = self._bytes_mutated(frame)
        self._last = frame
        return frame

    def encoded(self, method: str, arguments: Node, kind: int = TMessageType.CALL) -> bytes:
        """Return the encoded message of a call."""
        buffer = TMemoryBuffer()
        protocol = self._protocol(buffer)
        protocol.writeMessageBegin(method, kind, self._random.randrange(1, 2**31))
        _write(protocol, arguments)
        protocol.writeMessageEnd()
        data: bytes = buffer.getvalue()
        return data

    def arguments(self, method: str, *, whole: bool = False) -> Node:
        """Return arguments of the method, mostly valid; `whole` sets every field."""
        structure = getattr(ThriftHiveMetastore, f"{method}_args")
        return self._structure(structure, 0, whole=whole)

    def _structure(self, structure: Any, depth: int, *, whole: bool) -> Node:
        items = []
        for each in structure.thrift_spec or ():
            if each is None or (not whole and depth and self._random.random() < 0.15):
                continue
            if depth > 6:
                continue
            items.append((each[0], self._value(each[1], each[3], each[2], depth + 1, whole=whole)))
        return Node(TType.STRUCT, items=items)

    def _value(self, kind: int, spec: Any, name: str, depth: int, *, whole: bool) -> Node:
        chance = self._random
        if kind == TType.STRUCT:
            return self._structure(spec[0], depth, whole=whole)
        if kind in (TType.LIST, TType.SET):
            count = 1 if whole else chance.choice((0, 1, 1, 2, 3)) if depth < 6 else 0
            items = [self._value(spec[0], spec[1], name, depth + 1, whole=whole) for _ in range(count)]
            return Node(kind, items=items, element=spec[0])
        if kind == TType.MAP:
            count = 1 if whole else chance.choice((0, 1, 2)) if depth < 6 else 0
            pairs = [
                (
                    self._value(spec[0], spec[1], name, depth + 1, whole=whole),
                    self._value(spec[2], spec[3], name, depth + 1, whole=whole),
                )
                for _ in range(count)
            ]
            return Node(TType.MAP, items=pairs, key=spec[0], element=spec[2])
        return Node(kind, self._scalar(kind, name.lower()))

    def _scalar(self, kind: int, name: str) -> Any:
        chance = self._random
        if kind == TType.BOOL:
            return chance.random() < 0.5
        if kind == TType.DOUBLE:
            return chance.choice(DOUBLES)
        if kind in INTEGERS:
            return chance.choice(INTEGERS[kind][:4] if chance.random() < 0.7 else INTEGERS[kind])
        if chance.random() < 0.12:
            return chance.choice(HOSTILE_TEXTS)
        if "location" in name or "uri" in name or "path" in name:
            if not self._with_locations:
                return b""
            return b"file:" + self._root + b"/made/" + chance.choice(WORDS)
        for parts, texts in _BY_NAME:
            if any(part in name for part in parts):
                return chance.choice(texts)
        return chance.choice(WORDS)

    def with_texts(self, tree: Node, text: bytes) -> Node:
        """Replace all texts of the tree in place, and return the tree."""
        for holder, index in _places(tree):
            value = _value_of(holder, index)
            if value.kind == TType.STRING:
                value.scalar = text
        return tree

    def mutated(self, tree: Node) -> Node:
        """Change up to three values of the tree in place, and return the tree."""
        for _ in range(self._random.choice((0, 1, 1, 1, 2, 3))):
            places = list(_places(tree))
            if places:
                self._mutate(*self._random.choice(places))
        return tree

    def _mutate(self, holder: Node, index: int) -> None:
        chance = self._random
        what = chance.randrange(9)
        if what == 0:
            del holder.items[index]
        elif what == 1:
            _set_value(holder, index, self._anything(chance.choice(KINDS), 0))
        elif what in (2, 3):
            value = _value_of(holder, index)
            if value.kind in INTEGERS:
                value.scalar = chance.choice(INTEGERS[value.kind])
            elif value.kind == TType.STRING:
                value.scalar = chance.choice(HOSTILE_TEXTS)
            else:
                value.items = []
        elif what == 4:
            holder.items.append(holder.items[index])
        elif what == 5 and holder.kind == TType.STRUCT:
            deep = Node(TType.STRUCT)
            for _ in range(chance.choice((10, 70, 200))):
                deep = Node(TType.STRUCT, items=[(chance.choice((1, 99)), deep)])
            holder.items.append((chance.choice((1, 2, 99, -1)), deep))
        elif what == 6:
            value = _value_of(holder, index)
            if value.kind in (TType.LIST, TType.SET, TType.MAP):
                value.claimed = chance.choice((0, 1, 5, 1000, 2**31 - 1, 999_999))
                value.element = chance.choice((value.element, *KINDS))
        elif what == 7 and holder.kind == TType.STRUCT:
            holder.items[index] = (chance.choice((0, 1, 2, 3, 50, -7, 32767)), holder.items[index][1])
        else:
            value = _value_of(holder, index)
            if value.kind == TType.LIST and value.items:
                value.items = value.items * chance.choice((2, 50))

    def _anything(self, kind: int, depth: int) -> Node:
        chance = self._random
        if kind == TType.STRUCT:
            count = chance.choice((0, 1, 3)) if depth < 3 else 0
            numbers = [chance.randrange(1, 12) for _ in range(count)]
            return Node(kind, items=[(number, self._anything(chance.choice(KINDS), depth + 1)) for number in numbers])
        if kind in (TType.LIST, TType.SET):
            element = chance.choice(KINDS)
            count = chance.choice((0, 1, 3)) if depth < 3 else 0
            return Node(kind, items=[self._anything(element, depth + 1) for _ in range(count)], element=element)
        if kind == TType.MAP:
            key, element = chance.choice(KINDS), chance.choice(KINDS)
            count = chance.choice((0, 1, 2)) if depth < 3 else 0
            pairs = [(self._anything(key, depth + 1), self._anything(element, depth + 1)) for _ in range(count)]
            return Node(kind, items=pairs, key=key, element=element)
        return Node(kind, self._scalar(kind, ""))

    def _bytes_mutated(self, frame: bytes) -> bytes:
        chance = self._random
        data = bytearray(frame)
        what = chance.randrange(8)
        at = chance.randrange(len(data))
        if what == 0:
            return bytes(data[:at])
        if what == 1:
            for _ in range(chance.choice((1, 1, 2, 8))):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        elif what == 2:
            data[at:at] = chance.randbytes(chance.randrange(1, 9))
        elif what == 3:
            del data[at : at + chance.randrange(1, 9)]
        elif what == 4:
            data[at : at + 4] = chance.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0"))
        elif what == 5:
            data[at:] = self._last[chance.randrange(len(self._last) + 1) :]
        elif what == 6:
            # Nested structures, in both protocols.
            data[at:at] = chance.choice((b"\x0c\x00\x01", b"\x1c", b"\x0f\x00\x01\x0c\0\0\0\1")) * 5000
        else:
            data[at] = chance.randrange(256)
        return bytes(data)


def _value_of(holder: Node, index: int) -> Node:
    item = holder.items[index]
    value: Node = item if isinstance(item, Node) else item[1]
    return value


def _set_value(holder: Node, index: int, value: Node) -> None:
    item = holder.items[index]
    if isinstance(item, Node):
        # All elements of a list have the type that its header names.
        holder.items, holder.element = [value], value.kind
    elif holder.kind == TType.MAP:
        holder.items, holder.element = [(item[0], value)], value.kind
    else:
        holder.items[index] = (item[0], value)


def _places(tree: Node) -> Iterator[tuple[Node, int]]:
    """Yield all values within a tree: the value that holds each of them, and its index there."""
    for index in range(len(tree.items)):
        yield tree, index
        yield from _places(_value_of(tree, index))


def without_each_part(tree: Node) -> Iterator[None]:
    """Remove each value of a tree in turn, one at a time; the next step restores it."""
    for holder, index in list(_places(tree)):
        taken = holder.items.pop(index)
        yield
        holder.items.insert(index, taken)


def _write(protocol: Any, node: Node) -> None:
    if node.kind == TType.STRUCT:
        protocol.writeStructBegin("")
        for number, value in node.items:
            protocol.writeFieldBegin("", value.kind, number)
            _write(protocol, value)
            protocol.writeFieldEnd()
        protocol.writeFieldStop()
        protocol.writeStructEnd()
    elif node.kind in (TType.LIST, TType.SET):
        claimed = len(node.items) if node.claimed is None else node.claimed
        begin, end = ("writeListBegin", "writeListEnd") if node.kind == TType.LIST else ("writeSetBegin", "writeSetEnd")
        getattr(protocol, begin)(node.element, claimed)
        for value in node.items:
            _write(protocol, value)
        getattr(protocol, end)()
    elif node.kind == TType.MAP:
        protocol.writeMapBegin(node.key, node.element, len(node.items) if node.claimed is None else node.claimed)
        for key, value in node.items:
            _write(protocol, key)
            _write(protocol, value)
        protocol.writeMapEnd()
    else:
        getattr(protocol, _WRITERS[node.kind])(node.scalar)


_WRITERS = {
    TType.BOOL: "writeBool",
    TType.BYTE: "writeByte",
    TType.I16: "writeI16",
    TType.I32: "writeI32",
    TType.I64: "writeI64",
    TType.DOUBLE: "writeDouble",
    TType.STRING: "writeBinary",
}
