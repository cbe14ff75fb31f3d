"""The index `bloom-filter`: whether a value is surely not in a file. It takes all atomic types but BOOLEAN and DECIMAL.

On disk: the number of hash functions (4 bytes, big-endian), then the bits, the lowest of a byte first. Options: `items`
(distinct values that a file is expected to have, 1000000) and `fpp` (the part of lookups that fail to rule a file out,
0.1). Specification page: `concepts/spec/fileindex`.
"""

import math
import struct

import numpy as np
import numpy.typing as npt

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import array_of
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.predicate.expr import Comparison, In, Leaf, Op
from interbed.storage.base.predicate.literals import literal
from interbed.storage.base.row.words import Array
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import BINARIES
from interbed.storage.files.file_index.api import EVERYTHING, NOTHING, Selection
from interbed.storage.files.file_index.fast_hash import Hashes, hash_values
from interbed.storage.files.file_index.values import ATOMS, ValueForm
from interbed.storage.meta.options.reader import OptionReader

KIND = "bloom-filter"
ROOTS = ATOMS | BINARIES
DEFAULT_ITEMS = 1_000_000
DEFAULT_FPP = 0.1

_COUNT = struct.Struct(">i")
_MOST_BITS = 2**31 - 16


class BloomFilterWriter:
    """IndexWriter of one column; memory is the filter's."""

    def __init__(self, form: ValueForm, options: OptionReader) -> None:
        items, fpp = options.integer("items", DEFAULT_ITEMS), options.number("fpp", DEFAULT_FPP)
        if items < 1 or not 0 < fpp < 1:
            raise InvalidOptionError(
                f"A bloom filter takes at least 1 for 'items' and between 0 and 1 for 'fpp', not {items} and {fpp}."
            )
        wanted = -items * math.log(fpp) / math.log(2) ** 2
        if wanted > _MOST_BITS:
            raise InvalidOptionError(f"A bloom filter for {items} 'items' and 'fpp' {fpp} is too large; take fewer.")
        bits = int(wanted) // 8 * 8 + 8
        self._form = form
        self._functions = max(1, math.floor(bits / items * math.log(2) + 0.5))
        self._bits = np.zeros(bits // 8, np.uint8)

    def add(self, values: Array) -> None:
        """See IndexWriter; nulls leave no trace."""
        places = _places(hash_values(values, self._form), self._functions, 8 * len(self._bits)).reshape(-1)
        np.bitwise_or.at(self._bits, places >> 3, (1 << (places & 7)).astype(np.uint8))

    def finish(self) -> bytes:
        """See IndexWriter."""
        return _COUNT.pack(self._functions) + self._bits.tobytes()


class BloomFilterReader:
    """IndexReader: rules files out by `=` and IN, never single rows."""

    def __init__(self, form: ValueForm, content: bytes) -> None:
        self._form = form
        self._functions = _COUNT.unpack_from(content)[0]
        self._bits = np.frombuffer(content, np.uint8, offset=_COUNT.size)
        if not len(self._bits) or self._functions < 1:
            raise ValueError(f"a bloom filter of {len(self._bits)} bytes and {self._functions} hash functions")

    @property
    def nbytes(self) -> int:
        """Bytes of the filter."""
        return int(self._bits.nbytes)

    def rows(self, leaf: Leaf) -> Selection:
        """See IndexReader."""
        match leaf:
            case Comparison(Op.EQ, _, value) if value is not None:
                return EVERYTHING if self._may_hold([value]) else NOTHING
            case In(_, values):
                return EVERYTHING if self._may_hold([v for v in values if v is not None]) else NOTHING
            case _:
                return EVERYTHING

    def may_hold(self, values: Array) -> Mask:
        """For each of some values, none of them null, whether it may be in the file."""
        places = _places(hash_values(values, self._form), self._functions, 8 * len(self._bits))
        bits = (self._bits[places >> 3] >> (places & 7)) & 1
        found: Mask = np.logical_and.reduce(bits, axis=0)
        return found

    def _may_hold(self, values: list[object]) -> bool:
        arrow = type_to_arrow(self._form.type)
        wanted = list(values)
        # Zeros of both signs are equal and hashed apart. Of NaN there is one form.
        if self._form.is_float and any(v == 0 for v in wanted):
            wanted += [0.0, -0.0]
        if not wanted:
            return False
        return bool(self.may_hold(array_of([literal(v, arrow) for v in wanted], arrow)).any())


def _places(hashes: Hashes, functions: int, bits: int) -> npt.NDArray[np.int64]:
    """The bits of each value, a row for each hash function: sums of the hash's halves, which wrap around at 32 bits."""
    low = (hashes & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    high = (hashes >> np.uint64(32)).astype(np.uint32)
    turns = np.arange(1, functions + 1, dtype=np.uint32)[:, None]
    with np.errstate(over="ignore"):
        sums = (low + turns * high).view(np.int32)
    return np.where(sums < 0, ~sums, sums).astype(np.int64) % bits
