"""`rbm32`, `rbm64`, `hll_sketch` and `theta_sketch`: unions of serialized sets, and of sketches of sets.

Values are in the formats of Java's libraries: RoaringBitmap's portable format for `rbm32` and its own one for `rbm64`
(see `roaring64`), compact sketches of Apache DataSketches. Unions have the same bytes as in Paimon (`RoaringBitmap64`,
`HllSketchUtil` and `ThetaSketch` of its utilities), except HLL sketches of different precision, whose unions have
another intermediate estimate (a number of 8 bytes). The only value of a key is unchanged.

The functions loop over rows in Python, because each union is one call of a library.
"""

import struct
from typing import Any

from pyroaring import BitMap

from interbed.storage.base.errors import CorruptFileError, load_extra
from interbed.storage.lsm.merge_function.fields.fold import Column, FieldValues
from interbed.storage.lsm.merge_function.fields.roaring64 import Roaring64Bitmap

_FLAGS, _EMPTY, _OUT_OF_ORDER, _SINGLE_ITEM = 5, 0x04, 0x10, 0x20
_MODE, _REGISTERS = 7, 2
_PREAMBLE_LONGS = 0x3F
_PROBABILITY = struct.pack("<f", 1.0)


class Union(FieldValues):
    """A fold of serialized sets by slot."""

    def _agg(self, held: Any, value: Any) -> Any:
        if held is None or value is None:
            return value if held is None else held
        try:
            return self._union(held, value)
        except (CorruptFileError, ValueError, RuntimeError, IndexError) as error:
            raise CorruptFileError(f"The {self.of} can't read a value: {error}.") from error

    def _union(self, held: Any, value: Any) -> Any:
        """Return the union; `held` is the older value."""
        raise NotImplementedError


class RoaringUnion(Union):
    """`rbm32`: the union of 32-bit roaring bitmaps."""

    def _union(self, held: bytes, value: bytes) -> bytes:
        union = BitMap.deserialize(held) | BitMap.deserialize(value)
        union.run_optimize()
        return bytes(union.serialize())


class Roaring64Union(Union):
    """`rbm64`: the union of 64-bit roaring bitmaps, which are kept deserialized."""

    def result(self) -> Column:
        self._held = [held.to_bytes() if isinstance(held, Roaring64Bitmap) else held for held in self._held]
        return super().result()

    def _union(self, held: "bytes | Roaring64Bitmap", value: "bytes | Roaring64Bitmap") -> Roaring64Bitmap:
        union = held if isinstance(held, Roaring64Bitmap) else Roaring64Bitmap(held)
        union.add_all(value if isinstance(value, Roaring64Bitmap) else Roaring64Bitmap(value))
        return union


class HllUnion(Union):
    """`hll_sketch`: the union of HLL sketches, with at most the precision of the newer one."""

    def __init__(self, column: Column, slots: int, of: str) -> None:
        super().__init__(column, slots, of)
        self._library = datasketches(of)

    def _union(self, held: bytes, value: bytes) -> bytes:
        merged = [s for s in (held, value) if _is_array(s) and s[_FLAGS] & _OUT_OF_ORDER]
        lists = [s for s in (held, value) if not _is_array(s)]
        if merged and lists:
            # Java continues the running estimate of such a sketch, although it is never read again. C++ does so only
            # if the sketch is not marked as merged.
            data = bytearray(self._united(*(_unmarked(s) if s in merged else s for s in (held, value))))
            data[_FLAGS] |= _OUT_OF_ORDER
            return bytes(data)
        return self._united(held, value)

    def _united(self, held: bytes, value: bytes) -> bytes:
        newer = self._library.hll_sketch.deserialize(value)
        union = self._library.hll_union(newer.lg_config_k)
        union.update(newer)
        union.update(self._library.hll_sketch.deserialize(held))
        return bytes(union.get_result(self._library.HLL_4).serialize_compact())


class ThetaUnion(Union):
    """`theta_sketch`: the union of theta sketches of the default size and seed."""

    def __init__(self, column: Column, slots: int, of: str) -> None:
        super().__init__(column, slots, of)
        self._library = datasketches(of)

    def _union(self, held: bytes, value: bytes) -> bytes:
        union = self._library.theta_union()
        union.update(self._library.compact_theta_sketch.deserialize(held))
        union.update(self._library.compact_theta_sketch.deserialize(value))
        data = bytearray(union.get_result().serialize())
        # Java marks a sketch of one number, writes no seed into an empty one, and writes the sampling probability,
        # which compact sketches do not use. C++ does none of this.
        if data[_FLAGS] & _EMPTY:
            data[6:8] = b"\0\0"
        elif data[0] & _PREAMBLE_LONGS == 1:
            data[_FLAGS] |= _SINGLE_ITEM
        else:
            data[12:16] = _PROBABILITY
        return bytes(data)


def _is_array(sketch: bytes) -> bool:
    """Return whether an HLL sketch has registers, and is not a list or set of a few numbers."""
    return sketch[_MODE] & 3 == _REGISTERS


def _unmarked(sketch: bytes) -> bytes:
    return sketch[:_FLAGS] + bytes([sketch[_FLAGS] & ~_OUT_OF_ORDER]) + sketch[_FLAGS + 1 :]


def datasketches(of: str) -> Any:
    """Return the library of sketches; raises MissingExtraError, naming the function `of`, if it is not installed."""
    return load_extra("datasketches", needed_by=f"The {of}")
