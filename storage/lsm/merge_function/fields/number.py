"""`sum` and `product`, with the arithmetic of Java: integers wrap around, floats are added in the order of the rows."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.errors import InvalidInputError
from interbed.storage.lsm.key_words import Order
from interbed.storage.lsm.merge_function.fields.fold import Column, Fold, validity
from interbed.storage.lsm.merge_function.segments import Segments, Slots

Numbers = npt.NDArray[Any]

_LONG_DIGITS = 18


class _Numbers(Fold):
    """Numbers by slot, and which slots have one; others hold the neutral number."""

    neutral: float

    def __init__(self, column: Column, slots: int, of: str) -> None:
        super().__init__(column, slots, of)
        self._valid = validity(column)
        self._decimal = column.type if isinstance(column.type, pa.Decimal128Type) else None
        values = numbers_of(column, self._valid)
        self._is_float = values.dtype.kind == "f"
        # A negative zero is what changes no number when it is added, zeros included.
        first: float = -0.0 if self._is_float and self.neutral == 0 else self.neutral
        self._neutral: Any = int(first) if self._decimal else values.dtype.type(first)
        if self._valid is not None:
            values = np.where(self._valid, values, self._neutral)
        self._values = values
        self._sums: Numbers = np.full(slots, self._neutral, values.dtype)
        self._has = np.zeros(slots, np.bool_)

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

    def reduce(self, segments: Segments) -> bool:
        """See Fold."""
        if self._decimal is not None or not len(segments):
            return False
        order, starts = segments.joined, segments.starts
        values = self._values[order]
        if not self._is_float:
            self._sums = np.add.reduceat(values, starts, dtype=values.dtype)
        elif int(segments.sizes[0]) > len(segments):
            # Few long segments: a loop over them takes fewer steps than rounds do. Other ways to add up whole
            # segments change the order of the additions, and with it the result.
            bounds = zip(starts.tolist(), segments.sizes.tolist(), strict=True)
            with np.errstate(all="ignore"):
                self._sums = np.array([np.add.accumulate(values[a : a + n])[-1] for a, n in bounds], values.dtype)
        else:
            return False
        self._has = (
            np.ones(len(starts), np.bool_)
            if self._valid is None
            else np.logical_or.reduceat(self._valid[order], starts)
        )
        return True


class Product(_Numbers):
    """`product`; a retraction divides."""

    neutral = 1
    can_retract = True

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


def numbers_of(column: Column, valid: "npt.NDArray[np.bool_] | None") -> Numbers:
    """The values as numpy numbers, decimals as Python's integers without their scale; those of nulls are zero."""
    if isinstance(column.type, pa.Decimal128Type):
        buffer = column.buffers()[1]
        if buffer is None or not len(column):
            return np.zeros(len(column), object)
        limbs = np.frombuffer(memoryview(buffer), "<u8", count=2 * len(column), offset=16 * column.offset).reshape(
            -1, 2
        )
        if column.type.precision <= _LONG_DIGITS:
            out = limbs[:, 0].copy().view(np.int64).astype(object)
        else:
            out = (limbs[:, 1].copy().view(np.int64).astype(object) << 64) + limbs[:, 0].astype(object)
        return out if valid is None else np.where(valid, out, 0)
    filled: Any = column if valid is None else column.fill_null(0)
    numbers: Numbers = filled.to_numpy(zero_copy_only=False)
    return numbers


def decimals(values: Numbers, has: "npt.NDArray[np.bool_]", kind: pa.Decimal128Type) -> Column:
    """Integers without their scale as a column of decimals."""
    # Arrow has no way from wide integers to decimals but this one.
    data = b"".join(int(v).to_bytes(16, "little", signed=True) for v in values)
    mask: Any = pa.array(has)
    built: Column = pa.Array.from_buffers(kind, len(values), [mask.buffers()[1], pa.py_buffer(data)])
    return built
