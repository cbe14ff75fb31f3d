"""Decoding of Avro's binary encoding into Arrow columns, many messages of one schema in step.

The position of a value is known only after the values before it in its message were read; but messages are independent
of each other. So the first field of all messages is read at once, then the second field of all messages, and so on.
Each message has a cursor of its own. Fields that are not wanted are skipped.

A message that does not match its schema is refused, with the reason, and does not affect the others. Its cursor goes on
through meaningless bytes, and never beyond the data.

| Avro | Arrow |
|---|---|
| int, long, float, double, boolean | int32, int64, float32, float64, bool; `connect.type` makes int8 and int16 of int |
| string, enum | string |
| bytes, fixed | binary |
| record | struct |
| array | list |
| union of null and another | the other, with nulls |

Other types (maps, unions of several, records within themselves) can only be skipped, which fastavro does, message by
message. Logical types are left to the caller. Source: Avro specification 1.11, binary encoding.
"""

import io
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import fastavro
import numpy as np
import pyarrow as pa

from interbed.ingest.formats.arrays import Array, Indices, Mask
from interbed.ingest.formats.avro.schema import AvroSchema
from interbed.storage.base.avro.decode import PADDING, Bytes, Places, varints, words_of
from interbed.storage.base.errors import NotSupportedError

Wanted: TypeAlias = "Mapping[str, Wanted] | bool"
"""The wanted part of a value: all of it, none of it, or these fields of a record."""


@dataclass(frozen=True, slots=True)
class AvroValues:
    """Values in the order of their positions in `data`, which has PADDING more bytes, with the beginning and end of
    each value.
    """

    data: Bytes
    starts: Places
    ends: Places


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedValues:
    """The values as an Arrow array, and the reasons for refused values, by their place.

    The array elements of refused values are undefined.
    """

    values: Array
    refused: Mapping[int, str]


class Columns:
    """Decodes values of a schema."""

    def __init__(self, schema: AvroSchema, wanted: Wanted = True) -> None:
        """At least one field is wanted. Raises NotSupportedError for a wanted type that can only be skipped."""
        self._node = _Compiler(schema).node(schema.root, wanted, "")

    def decode(self, encoded: AvroValues) -> DecodedValues:
        """Decode the values. A value is refused if it does not end at its end."""
        batch = _Batch(encoded.data, encoded.ends)
        lane = np.arange(len(encoded.starts))
        values, at = self._node.read(batch, lane, encoded.starts)
        assert values is not None
        left = encoded.ends - at
        batch.refuse(lane, left < 0, "it ends before all of its schema's fields")
        batch.refuse(lane, left > 0, "it goes on after the last of its schema's fields")
        return DecodedValues(values=values, refused=batch.refused)


@dataclass(slots=True)
class _Batch:
    """Messages that are read in step. A lane is the place of a message among them."""

    data: Bytes
    ends: Places
    refused: dict[int, str] = field(default_factory=dict)
    words: Any = field(init=False)
    last: int = field(init=False)

    def __post_init__(self) -> None:
        self.words = words_of(self.data)
        self.last = len(self.data) - PADDING

    def refuse(self, lane: Indices, where: Mask, reason: str) -> None:
        """Record the reason why messages are refused. The first reason of a message is kept."""
        for i in lane[where].tolist():
            self.refused.setdefault(i, reason)

    def within(self, at: Places) -> Places:
        """Return the positions, with those beyond the data moved to its end, where there are zeros."""
        return np.minimum(at, self.last)

    def integers(self, at: Places) -> tuple[Places, Places]:
        """Return the integers at those positions, and the positions after them."""
        at = self.within(at)
        first = self.data[at]
        if not len(at) or first.max() < 0x80:
            few = first.astype(np.int64)
            return (few >> 1) ^ -(few & 1), at + 1
        values, sizes = varints(self.data, self.words, at)
        return values, at + sizes

    def texts(self, starts: Places, ends: Places) -> Array:
        """Return the bytes between those positions, which do not overlap, in the order of the data."""
        if not len(starts):
            return pa.array([], pa.binary())
        # Fast copy by Arrow: lay out an array in which every other value is a text, and the values between are the
        # gaps.
        offsets = np.empty(2 * len(starts), np.int32)
        offsets[::2], offsets[1::2] = starts, ends
        count = len(offsets) - 1
        laid: Any = pa.Array.from_buffers(
            pa.binary(), count, [None, pa.py_buffer(offsets.data), pa.py_buffer(self.data.data)]
        )
        found: Array = laid.take(pa.array(np.arange(0, count, 2)))
        return found


class _Node(ABC):
    """Decoder of one type; `arrow` is the type of its result, None if it only skips values."""

    def __init__(self, arrow: pa.DataType | None) -> None:
        self.arrow = arrow

    @abstractmethod
    def read(self, batch: _Batch, lane: Indices, at: Places) -> "tuple[Array | None, Places]":
        """Return the values at those positions, one of each message, and the positions after them."""


class _Integer(_Node):
    """Decoder of int, long, and the number of an enum."""

    def __init__(self, arrow: pa.DataType | None, bounds: range, what: str) -> None:
        super().__init__(arrow)
        self._bounds = bounds
        self._what = what

    def read(self, batch: _Batch, lane: Indices, at: Places) -> "tuple[Array | None, Places]":
        values, after = self.numbers(batch, lane, at)
        return (None if self.arrow is None else pa.array(values).cast(self.arrow)), after

    def numbers(self, batch: _Batch, lane: Indices, at: Places) -> tuple[Places, Places]:
        """Return the numbers, 0 for those that are out of bounds."""
        values, after = batch.integers(at)
        if self._bounds != _LONG:
            beyond = (values < self._bounds.start) | (values >= self._bounds.stop)
            if beyond.any():
                batch.refuse(lane, beyond, f"{self._what} is out of its bounds")
                values = np.where(beyond, 0, values)
        return values, after


class _Enum(_Node):
    def __init__(self, arrow: pa.DataType | None, symbols: Sequence[str], what: str) -> None:
        super().__init__(arrow)
        self._number = _Integer(None, range(len(symbols)), what)
        self._symbols = pa.array(symbols, pa.string())

    def read(self, batch: _Batch, lane: Indices, at: Places) -> "tuple[Array | None, Places]":
        values, after = self._number.numbers(batch, lane, at)
        numbers: Any = pa.array(values)
        return (None if self.arrow is None else self._symbols.take(numbers)), after


class _FixedWidth(_Node):
    """Decoder of float, double and boolean, by numpy's name of the type of the first bytes of a word."""

    def __init__(self, arrow: pa.DataType | None, bits: str, kind: str, width: int) -> None:
        super().__init__(arrow)
        self._bits, self._kind, self.width = bits, kind, width

    def read(self, batch: _Batch, lane: Indices, at: Places) -> "tuple[Array | None, Places]":
        at = batch.within(at)
        return (None if self.arrow is None else self.values(batch, at)), at + self.width

    def values(self, batch: _Batch, at: Places) -> Array:
        """Return the values at those positions."""
        bits = batch.words[at].astype(self._bits)
        # Any byte except zero is true.
        values: Any = bits != 0 if self._kind == "?" else bits.view(self._kind)
        found: Array = pa.array(values)
        return found

    def block(self, batch: _Batch, at: Places, counts: Places) -> "tuple[Array | None, Places]":
        """Return `counts` consecutive values from each position on, which are within the data."""
        after = at + counts * self.width
        if self.arrow is None:
            return None, after
        before = np.cumsum(counts) - counts
        places = np.repeat(at - before * self.width, counts) + np.arange(int(counts.sum())) * self.width
        return self.values(batch, places), after


class _Text(_Node):
    """Decoder of string, bytes and fixed; a fixed has a `size` that is the same for all values."""

    def __init__(self, arrow: pa.DataType | None, what: str, size: int | None = None) -> None:
        super().__init__(arrow)
        self._what = what
        self._size = size

    def read(self, batch: _Batch, lane: Indices, at: Places) -> "tuple[Array | None, Places]":
        if self._size is None:
            length, start = batch.integers(at)
        else:
            length, start = np.full(len(at), self._size, np.int64), at
        end = batch.ends[lane]
        wrong = (length < 0) | (length > end - start)
        if wrong.any():
            batch.refuse(lane, wrong, f"{self._what} has a length that its message has no room for")
            length = np.where(wrong, 0, length)
            start = np.minimum(start, end)
        after = start + length
        if self.arrow is None:
            return None, after
        found = batch.texts(start, after)
        return (found if self.arrow == pa.binary() else self._as_string(batch, lane, found)), after

    def _as_string(self, batch: _Batch, lane: Indices, found: Any) -> Array:
        try:
            texts: Array = found.cast(pa.string())
        except pa.ArrowInvalid:
            # One by one, to find those that are no UTF-8.
            values = found.to_pylist()
            wrong = np.array([not _is_text(value) for value in values])
            batch.refuse(lane, wrong, f"{self._what} is no text in UTF-8")
            texts = pa.array(["" if bad else v.decode() for v, bad in zip(values, wrong.tolist(), strict=True)])
        return texts


class _Null(_Node):
    def read(self, batch: _Batch, lane: Indices, at: Places) -> "tuple[Array | None, Places]":
        return (None if self.arrow is None else pa.nulls(len(at))), at


class _OptionalNode(_Node):
    """Decoder of a union of null and another type, which has the number `branch` in the union."""

    def __init__(self, inner: _Node, branch: int, what: str) -> None:
        super().__init__(inner.arrow)
        self._inner = inner
        self._branch = branch
        self._number = _Integer(None, range(2), f"the branch of {what}")

    def read(self, batch: _Batch, lane: Indices, at: Places) -> "tuple[Array | None, Places]":
        branch, after = self._number.numbers(batch, lane, at)
        present = branch == self._branch
        if present.all():
            return self._inner.read(batch, lane, after)
        if not present.any():
            return (None if self.arrow is None else _nulls(len(at), self.arrow)), after
        some = np.flatnonzero(present)
        values, after[some] = self._inner.read(batch, lane[some], after[some])
        if values is None:
            return None, after
        spread: Any = values.take(pa.array(np.cumsum(present) - 1, pa.int64(), mask=~present))
        return spread, after


class _Record(_Node):
    def __init__(self, fields: Sequence[tuple[str, _Node]], *, wanted: bool) -> None:
        self._fields = fields
        kept = [pa.field(name, node.arrow) for name, node in fields if node.arrow is not None]
        self._kind = pa.struct(kept)
        super().__init__(self._kind if wanted else None)

    def read(self, batch: _Batch, lane: Indices, at: Places) -> "tuple[Array | None, Places]":
        parts = []
        for _, node in self._fields:
            values, at = node.read(batch, lane, at)
            if values is not None:
                parts.append(values)
        if self.arrow is None:
            return None, at
        if not parts:
            empty: Any = pa.Array.from_buffers(self._kind, len(at), [None])
            return empty, at
        made: Any = pa.StructArray.from_arrays(parts, fields=list(self._kind))
        return made, at


class _List(_Node):
    """Decoder of array: blocks of items, each after its count, and a count of 0 at the end. A negative count is
    followed by the size of the block in bytes.

    Items of numbers of a fixed width are read a block at a time. Others are read in step: the first item of all
    messages at once, then the second one, so there is a step for each item of the longest list.
    """

    def __init__(self, item: _Node, what: str) -> None:
        super().__init__(None if item.arrow is None else pa.list_(item.arrow))
        self._item = item
        self._what = what

    def read(self, batch: _Batch, lane: Indices, at: Places) -> "tuple[Array | None, Places]":
        at = at.copy()
        left = np.zeros(len(at), np.int64)
        active = np.arange(len(at))
        parts: list[Array] = []
        owners: list[Indices] = []
        while len(active):
            starting = active[left[active] == 0]
            if len(starting):
                left[starting], at[starting] = self._counts(batch, lane[starting], at[starting])
                active = active[left[active] > 0]
            if not len(active):
                break
            if isinstance(self._item, _FixedWidth):
                values, at[active] = self._item.block(batch, at[active], left[active])
                owners.append(np.repeat(active, left[active]))
                left[active] = 0
            else:
                values, at[active] = self._item.read(batch, lane[active], at[active])
                owners.append(active)
                left[active] -= 1
            if values is not None:
                parts.append(values)
        return (None if self.arrow is None else self._joined(len(at), parts, owners)), at

    def _counts(self, batch: _Batch, lane: Indices, at: Places) -> tuple[Places, Places]:
        counts, after = batch.integers(at)
        sized = np.flatnonzero(counts < 0)
        if len(sized):
            counts[sized] = -counts[sized]
            _, after[sized] = batch.integers(after[sized])
        width = self._item.width if isinstance(self._item, _FixedWidth) else 1
        # Items without bytes, such as null, do not occur in practice.
        wrong = (counts < 0) | (counts > (batch.ends[lane] - after) // width)
        batch.refuse(lane, wrong, f"{self._what} has more items than its message has room for")
        return np.where(wrong, 0, counts), after

    def _joined(self, count: int, parts: Sequence[Array], owners: Sequence[Indices]) -> Array:
        whose = np.concatenate(owners) if owners else np.zeros(0, np.int64)
        offsets = np.zeros(count + 1, np.int32)
        np.cumsum(np.bincount(whose, minlength=count), out=offsets[1:])
        items: Any = pa.concat_arrays(parts) if parts else _nulls(0, self._item.arrow)
        if len(parts) > 1:
            items = items.take(pa.array(np.argsort(whose, kind="stable")))
        bounds: Any = pa.array(offsets)
        made: Array = pa.ListArray.from_arrays(bounds, items)
        return made


class _SkippedNode(_Node):
    """Decoder of a type that has no column: fastavro reads each value to find its end."""

    def __init__(self, schema: AvroSchema, of: Any, what: str) -> None:
        super().__init__(None)
        self._schema = schema.whole(of)
        self._what = what

    def read(self, batch: _Batch, lane: Indices, at: Places) -> "tuple[Array | None, Places]":
        after = batch.within(at)
        wrong = np.zeros(len(at), bool)
        # A loop over messages: only unused fields have such types.
        for i, (start, end) in enumerate(zip(after.tolist(), batch.ends[lane].tolist(), strict=True)):
            content = io.BytesIO(batch.data[start:end].tobytes())
            try:
                fastavro.schemaless_reader(content, self._schema, None)
                after[i] = start + content.tell()
            except (ValueError, EOFError, IndexError, OverflowError, MemoryError, KeyError, TypeError):
                wrong[i] = True
        batch.refuse(lane, wrong, f"{self._what} is not what its schema says")
        return None, after


_LONG = range(-(2**63), 2**63)
_INTS: Mapping[str, tuple[pa.DataType, range]] = {
    "int8": (pa.int8(), range(-(2**7), 2**7)),
    "int16": (pa.int16(), range(-(2**15), 2**15)),
    "int": (pa.int32(), range(-(2**31), 2**31)),
    "long": (pa.int64(), _LONG),
}
_WIDE: Mapping[str, tuple[pa.DataType, str, str, int]] = {
    "float": (pa.float32(), "<u4", "<f4", 4),
    "double": (pa.float64(), "<u8", "<f8", 8),
    "boolean": (pa.bool_(), "<u1", "?", 1),
}


class _Compiler:
    """Builds the decoders of the types of a schema."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._open: list[str] = []

    def node(self, kind: Any, wanted: Wanted, path: str) -> _Node:
        """Return the decoder of a type; `path` leads to it through the fields."""
        what = f"its {path}" if path else "it"
        resolved = self._schema.resolved(kind)
        if isinstance(resolved, list):
            return self._union(resolved, wanted, path, what)
        name = resolved["type"]
        match name:
            case "int" | "long":
                narrow = resolved.get("connect.type") if name == "int" else None
                arrow, bounds = _INTS[narrow if narrow in ("int8", "int16") else name]
                return _Integer(arrow if wanted else None, bounds, what)
            case "float" | "double" | "boolean":
                wide, bits, numpy_kind, width = _WIDE[name]
                return _FixedWidth(wide if wanted else None, bits, numpy_kind, width)
            case "string":
                return _Text(pa.string() if wanted else None, what)
            case "bytes":
                return _Text(pa.binary() if wanted else None, what)
            case "fixed":
                return _Text(pa.binary() if wanted else None, what, int(resolved["size"]))
            case "enum":
                return _Enum(pa.string() if wanted else None, resolved["symbols"], what)
            case "null":
                return _Null(pa.null() if wanted else None)
            case "array":
                return _List(self.node(resolved["items"], bool(wanted), f"{path}[]"), what)
            case "record" if resolved["name"] not in self._open:
                return self._record(resolved, wanted, path)
        return self._skipped(kind, wanted, what)

    def _union(self, branches: Sequence[Any], wanted: Wanted, path: str, what: str) -> _Node:
        others = [i for i, branch in enumerate(branches) if self._schema.resolved(branch) != {"type": "null"}]
        if len(branches) != 2 or len(others) != 1:
            return self._skipped(branches, wanted, what)
        return _OptionalNode(self.node(branches[others[0]], wanted, path), others[0], what)

    def _record(self, record: Mapping[str, Any], wanted: Wanted, path: str) -> _Node:
        self._open.append(record["name"])
        fields = []
        for each in record["fields"]:
            name = str(each["name"])
            chosen = wanted if isinstance(wanted, bool) else wanted.get(name, False)
            fields.append((name, self.node(each["type"], chosen, f"{path}.{name}".lstrip("."))))
        self._open.pop()
        return _Record(fields, wanted=wanted is not False)

    def _skipped(self, kind: Any, wanted: Wanted, what: str) -> _Node:
        if wanted:
            raise NotSupportedError(f"{what} has a type of Avro that becomes no column.")
        return _SkippedNode(self._schema, kind, what)


def _nulls(count: int, kind: Any) -> Array:
    found: Array = pa.nulls(count, kind)
    return found


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
