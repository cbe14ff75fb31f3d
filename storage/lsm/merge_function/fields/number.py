"""`sum` and `product`, with the arithmetic of Java: integers wrap around, floats are added in the order of the rows."""

import math
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import from_numpy, to_numpy
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.lsm.key_words import Order
from interbed.storage.lsm.merge_function.fields.fold import Column, Fold, Late
from interbed.storage.lsm.merge_function.segments import KeyRows, Slots
from interbed.storage.lsm.merge_function.take import validity, without_nulls

Numbers = npt.NDArray[Any]

_LONG_DIGITS = 18
_MANY_ROWS = 1_000
"""A key with more rows than that makes rounds cost more than keys."""


class _Numbers(Fold):
    """Numbers by slot, and which slots have one; others hold the neutral number."""

    neutral: float

    late = Late.ANYWHERE

    def __init__(self, column: Column, slots: int, of: str) -> None:
        super().__init__(column, slots, of)
        self._valid = validity(column)
        self._decimal = column.type if isinstance(column.type, pa.Decimal128Type) else None
        self._is_float = pa.types.is_floating(column.type)
        # A negative zero is what changes no number when it is added, zeros included.
        first: float = -0.0 if self._is_float and self.neutral == 0 else self.neutral
        number = object if self._decimal else column.type.to_pandas_dtype()
        self._neutral: Any = int(first) if self._decimal else np.dtype(number).type(first)
        self._sums: Numbers = np.full(slots, self._neutral, number)
        self._has = np.zeros(slots, np.bool_)

    @cached_property
    def _values(self) -> Numbers:
        """The numbers by row, the neutral one for null."""
        values = numbers_of(self.column)
        return values if self._valid is None else np.where(self._valid, values, self._neutral)

    def put(self, slots: Slots, rows: Order) -> None:
        """See Fold."""
        self._sums[slots] = self._values[rows]
        self._has[slots] = True if self._valid is None else self._valid[rows]

    def clear(self, slots: Slots) -> None:
        """See Fold."""
        self._sums[slots] = self._neutral
        self._has[slots] = False

    def result(self) -> Column:
        """See Fold."""
        if self._decimal is not None:
            return decimals(self._sums, self._has, self._decimal)
        numbers: Column = pa.array(self._sums, type=self.column.type, mask=~self._has)
        return numbers

    def _reduced(self, function: np.ufunc, keys: KeyRows) -> "Column | None":
        """The function of each key's numbers in their order; floats must not be taken in another one."""
        if not len(keys):
            return None
        ordered = self._values.take(keys.order)
        if not self._is_float:
            sums = function is np.add
            made = sums_of(ordered, keys) if sums else function.reduceat(ordered, keys.firsts, dtype=ordered.dtype)
        elif function is np.add and ordered.dtype == np.float64:
            made = _float_sums(ordered, keys)
        elif keys.longest > _MANY_ROWS:
            # Few long keys: a loop over keys takes fewer steps than one over rounds.
            bounds = zip(keys.firsts.tolist(), keys.sizes.tolist(), strict=True)
            with np.errstate(all="ignore"):
                made = np.array([function.accumulate(ordered[a : a + n])[-1] for a, n in bounds], ordered.dtype)
        else:
            made = ordered.take(keys.firsts)
            with np.errstate(all="ignore"):
                for more, rows in keys.rounds:
                    made[more] = function(made.take(more), self._values.take(rows))
        gone = None if self._valid is None else ~keys.has(self._valid)
        numbers: Column = pa.array(made, type=self.column.type, mask=gone)
        return numbers

    def _meet(self, slots: Slots, rows: Order) -> None:
        self._has[slots] |= True if self._valid is None else self._valid[rows]

    def _store(self, slots: Slots, sums: Numbers) -> None:
        self._sums[slots] = sums
        if self._decimal is not None:
            precision = self._decimal.precision
            # Paimon keeps short decimals as 64-bit numbers without looking at their precision.
            limit = (1 << 63) - 1 if precision <= _LONG_DIGITS else 10**precision - 1
            over = (np.abs(sums) > limit).astype(np.bool_)
            if over.any():
                places = np.arange(self.slots)[slots][over]
                self.clear(places)


class Sum(_Numbers):
    """`sum`; a retraction subtracts."""

    neutral = 0
    can_retract = True

    def add(self, slots: Slots, rows: Order) -> None:
        """See Fold."""
        self._meet(slots, rows)
        with np.errstate(all="ignore"):
            self._store(slots, self._sums[slots] + self._values[rows])

    def retract(self, slots: Slots, rows: Order) -> None:
        """See Fold."""
        values = self._values[rows]
        with np.errstate(all="ignore"):
            negative = -values
            if self._valid is not None and self._is_float:
                negative = np.where(self._valid[rows], negative, self._neutral)
            self._meet(slots, rows)
            self._store(slots, self._sums[slots] + negative)

    def reduce(self, keys: KeyRows) -> "Column | None":
        """See Fold."""
        if self._decimal is not None:
            return self._short_sums(keys)
        return self._reduced(np.add, keys)

    def _short_sums(self, keys: KeyRows) -> "Column | None":
        """Sums of decimals whose digits fit into 64 bits, and so do all sums; None for others."""
        assert self._decimal is not None
        if not len(keys):
            return None
        limbs = limbs_of(self.column).view(np.int64)
        low = limbs[:, 0] if self._valid is None else np.where(self._valid, limbs[:, 0], 0)
        high = limbs[:, 1] if self._valid is None else np.where(self._valid, limbs[:, 1], 0)
        greatest = max(abs(int(low.max())), abs(int(low.min())))
        if (high != low >> 63).any() or greatest * int(keys.sizes.max()) >= 1 << 63:
            return None
        sums = sums_of(low.take(keys.order), keys)
        data: Any = np.stack([sums, sums >> 63], axis=1)
        has: Any = None if self._valid is None else from_numpy(keys.has(self._valid))
        buffers = [None if has is None else has.buffers()[1], pa.py_buffer(data)]
        built: Column = pa.Array.from_buffers(self._decimal, len(sums), buffers)
        return built


class Product(_Numbers):
    """`product`; a retraction divides."""

    neutral = 1
    can_retract = True

    def reduce(self, keys: KeyRows) -> "Column | None":
        """See Fold."""
        return None if self._decimal is not None else self._reduced(np.multiply, keys)

    def add(self, slots: Slots, rows: Order) -> None:
        """See Fold."""
        if self._decimal is None:
            self._meet(slots, rows)
            with np.errstate(all="ignore"):
                self._store(slots, self._sums[slots] * self._values[rows])
            return
        scale = 10**self._decimal.scale
        had = self._has[slots].copy()
        new = np.ones(len(rows), np.bool_) if self._valid is None else self._valid[rows]
        self._meet(slots, rows)
        met = zip(self._sums[slots], self._values[rows], had, new, strict=True)
        # A product of decimals has up to 76 digits, which only Python's numbers have.
        self._store(slots, _objects([(_rounded(a * b, scale) if h else b) if n else a for a, b, h, n in met]))

    def retract(self, slots: Slots, rows: Order) -> None:
        """See Fold."""
        both = self._has[slots] if self._valid is None else self._has[slots] & self._valid[rows]
        places = np.arange(self.slots)[slots][both]
        left, right = self._sums[places], self._values[rows[both]]
        if not self._is_float and (right == 0).any():
            raise InvalidInputError(f"The {self.of} can't take a zero back: that divides by it.")
        with np.errstate(all="ignore"):
            if self._decimal is not None:
                scale = 10**self._decimal.scale
                pairs = zip(left, right, strict=True)
                self._store(places, _objects([self._divided(int(a), int(b), scale) for a, b in pairs]))
            elif self._is_float:
                self._store(places, left / right)
            else:
                quotient = left // right
                inexact = quotient * right != left
                self._store(places, quotient + (inexact & ((left < 0) != (right < 0))).astype(quotient.dtype))

    def _divided(self, a: int, b: int, scale: int) -> int:
        rest = abs(b) // math.gcd(a, b)
        for factor in (2, 5):
            while rest % factor == 0:
                rest //= factor
        if rest != 1:
            raise InvalidInputError(f"The {self.of} can't divide {a} by {b}: the quotient has no end.")
        return _rounded(a * scale, b)


def _rounded(a: int, b: int) -> int:
    """A quotient, rounded half away from zero."""
    sign = -1 if (a < 0) != (b < 0) else 1
    return sign * ((2 * abs(a) + abs(b)) // (2 * abs(b)))


def _objects(values: "list[Any]") -> Numbers:
    out = np.empty(len(values), object)
    out[:] = values
    return out


def sums_of(ordered: Numbers, keys: KeyRows) -> Numbers:
    """The sum of each key's integers, which stand in order; sums wrap around."""
    passed = np.cumsum(ordered, dtype=ordered.dtype)
    made = passed.take(keys.lasts)
    made[1:] -= passed.take(keys.lasts[:-1])
    return made


def _float_sums(ordered: Numbers, keys: KeyRows) -> Numbers:
    """The sum of each key's doubles, added one after the other."""
    with np.errstate(all="ignore"):
        made = np.bincount(keys.keys, weights=ordered, minlength=len(keys))
    zeros = np.flatnonzero(made == 0)
    if len(zeros):
        # The sum began with a zero, which a negative zero does not change; alone it stays negative.
        positive = np.bincount(keys.keys, weights=~((ordered == 0) & np.signbit(ordered)), minlength=len(keys))
        made[zeros.compress(positive.take(zeros) == 0)] = -0.0
    return made


def limbs_of(column: Column) -> "npt.NDArray[np.uint64]":
    """A column of decimals as two words a row, the low one first."""
    buffer = column.buffers()[1]
    if buffer is None or not len(column):
        return np.zeros((len(column), 2), np.uint64)
    words = np.frombuffer(memoryview(buffer), "<u8", count=2 * len(column), offset=16 * column.offset)
    return words.reshape(-1, 2)


def numbers_of(column: Column) -> Numbers:
    """The values as numpy numbers, decimals as Python's integers without their scale; nulls are any number."""
    if isinstance(column.type, pa.Decimal128Type):
        limbs = limbs_of(column)
        low = limbs[:, 0].copy()
        if column.type.precision <= _LONG_DIGITS:
            return low.view(np.int64).astype(object)
        wide: Numbers = (limbs[:, 1].copy().view(np.int64).astype(object) << 64) + low.astype(object)
        return wide
    numbers: Numbers = to_numpy(without_nulls(column))
    return numbers


def decimals(values: Numbers, has: Mask, kind: pa.Decimal128Type) -> Column:
    """Integers without their scale as a column of decimals."""
    # Arrow has no way from wide integers to decimals but this one.
    data = b"".join(int(v).to_bytes(16, "little", signed=True) for v in values)
    mask: Any = from_numpy(has)
    built: Column = pa.Array.from_buffers(kind, len(values), [mask.buffers()[1], pa.py_buffer(data)])
    return built
