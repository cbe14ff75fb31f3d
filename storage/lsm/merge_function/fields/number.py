"""`sum` and `product`: exact for integers and decimals, in the order of the rows for floats.

A result outside of the column's type is an error that names the column. Paimon 2.0 raises one for integers, too
(FieldSumAgg, FieldProductAgg). For decimals it returns null, or a number with more digits than the type. Neither is
done here: after a null the next sum would start from nothing, so that the result would depend on past compactions. A
sum is checked after all rows of a merge are added, so that a row that compensates an excess makes the key readable
again. Floats become infinite, as in IEEE 754.
"""

import math
from decimal import Context, Decimal
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import from_numpy, to_numpy
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.lsm.key_words import Order
from interbed.storage.lsm.merge_function.api import validity, without_nulls
from interbed.storage.lsm.merge_function.fields.fold import Column, ColumnFold, LateRows
from interbed.storage.lsm.merge_function.segments import KeyRows, Slots

Numbers = npt.NDArray[Any]

_EXACT = Context(prec=100)

_LONG_DIGITS = 18
_MANY_ROWS = 1_000
"""If a key has more rows, a loop over rounds costs more than a loop over keys."""
_INTEGERS = {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}
"""The integer types by their size in bits."""


class _Limits:
    """The range of a column's type, as integers; decimals are unscaled."""

    def __init__(self, kind: pa.DataType, of: str) -> None:
        self._of = of
        self._scale = kind.scale if isinstance(kind, pa.Decimal128Type) else 0
        if isinstance(kind, pa.Decimal128Type):
            self.greatest = 10**kind.precision - 1
            self.least = -self.greatest
            self._name = f"DECIMAL({kind.precision}, {kind.scale})"
        else:
            self.greatest = (1 << (kind.bit_width - 1)) - 1
            self.least = -self.greatest - 1
            self._name = _INTEGERS[kind.bit_width]

    def check(self, values: Numbers) -> None:
        """Raise InvalidInputError if a number is outside of the range."""
        for extreme in (values.max(initial=0), values.min(initial=0)):
            if not self.least <= extreme <= self.greatest:
                self.refuse(int(extreme))

    def refuse(self, value: int) -> NoReturn:
        """Raise InvalidInputError for a number outside of the range."""
        spelled = Decimal(value).scaleb(-self._scale, _EXACT)
        raise InvalidInputError(
            f"The {self._of} makes {spelled:f}, which its type {self._name} does not hold. Give the column a wider "
            "type, or write a row that retracts the excess; other columns can be read."
        )


class _Numbers(ColumnFold):
    """A fold of numbers by slot, and the mask of the slots that have one; others have the neutral number."""

    neutral: float

    late = LateRows.ANYWHERE

    def __init__(self, column: Column, slots: int, of: str) -> None:
        super().__init__(column, slots, of)
        self._valid = validity(column)
        self._decimal = column.type if isinstance(column.type, pa.Decimal128Type) else None
        self._is_float = pa.types.is_floating(column.type)
        self._limits = None if self._is_float else _Limits(column.type, of)
        # Adding a negative zero changes no number, zeros included.
        first: float = -0.0 if self._is_float and self.neutral == 0 else self.neutral
        number = object if self._decimal else column.type.to_pandas_dtype() if self._is_float else np.int64
        self._neutral: Any = int(first) if self._decimal else np.dtype(number).type(first)
        self._sums: Numbers = np.full(slots, self._neutral, number)
        self._has = np.zeros(slots, np.bool_)

    @cached_property
    def _values(self) -> Numbers:
        """The numbers by row, the neutral number for null; integers in the size of the column."""
        values = numbers_of(self.column)
        if self._valid is None:
            return values
        neutral = self._neutral if self._decimal is not None else values.dtype.type(self._neutral)
        filled: Numbers = np.where(self._valid, values, neutral)
        return filled

    def _taken(self, rows: Order) -> Numbers:
        """Return the numbers of some rows in the type of the accumulators: integers have 64 bits."""
        return self._values[rows].astype(self._sums.dtype, copy=False)

    def put(self, slots: Slots, rows: Order) -> None:
        self._sums[slots] = self._values[rows]
        self._has[slots] = True if self._valid is None else self._valid[rows]

    def clear(self, slots: Slots) -> None:
        self._sums[slots] = self._neutral
        self._has[slots] = False

    def result(self) -> Column:
        if self._limits is not None:
            self._limits.check(self._sums)
        if self._decimal is not None:
            return decimals(self._sums, self._has, self._decimal)
        return self._column(self._sums, ~self._has)

    def _column(self, results: Numbers, missing: Mask | None) -> Column:
        """Return numbers within the range of the column's type as a column."""
        narrow = results.astype(self.column.type.to_pandas_dtype(), copy=False)
        numbers: Column = pa.array(narrow, type=self.column.type, mask=missing)
        return numbers

    def _reduced(self, function: np.ufunc, keys: KeyRows) -> "Column | None":
        """Return the function of the numbers of each key, in their order, which matters for floats."""
        if not len(keys):
            return None
        ordered = self._values.take(keys.order)
        if self._limits is not None:
            within = _sums_within if function is np.add else _products_within
            return self._column(within(ordered, keys, self._limits), self._missing(keys))
        if function is np.add and ordered.dtype == np.float64:
            floats = _float_sums(ordered, keys)
        elif keys.longest > _MANY_ROWS:
            # Keys with many rows: a loop over keys takes fewer steps than a loop over rounds.
            bounds = zip(keys.firsts.tolist(), keys.sizes.tolist(), strict=True)
            with np.errstate(all="ignore"):
                floats = np.array([function.accumulate(ordered[a : a + n])[-1] for a, n in bounds], ordered.dtype)
        else:
            floats = ordered.take(keys.firsts)
            with np.errstate(all="ignore"):
                for more, rows in keys.rounds:
                    floats[more] = function(floats.take(more), self._values.take(rows))
        return self._column(floats, self._missing(keys))

    def _missing(self, keys: KeyRows) -> Mask | None:
        """Return the mask of the keys without a number; None if all have one."""
        return None if self._valid is None else ~keys.has(self._valid)

    def _mark_present(self, slots: Slots, rows: Order) -> None:
        self._has[slots] |= True if self._valid is None else self._valid[rows]


class Sum(_Numbers):
    """`sum`; a retraction subtracts.

    Accumulators may exceed the column's type, because only the sum of all rows must be in its range. Those of integers
    wrap around at 64 bits; `_wraps` counts the overflows, negative for those below the range.
    """

    neutral = 0
    can_retract = True

    def __init__(self, column: Column, slots: int, of: str) -> None:
        super().__init__(column, slots, of)
        self._wraps = np.zeros(slots, np.int64)

    def add(self, slots: Slots, rows: Order) -> None:
        self._mark_present(slots, rows)
        held, values = self._sums[slots], self._taken(rows)
        with np.errstate(all="ignore"):
            results = held + values
        if results.dtype == np.int64:
            self._count_wraps(slots, held, ((held ^ results) & (values ^ results)) < 0)
        self._sums[slots] = results

    def retract(self, slots: Slots, rows: Order) -> None:
        held, values = self._sums[slots], self._taken(rows)
        with np.errstate(all="ignore"):
            if self._is_float:
                negative = -values
                if self._valid is not None:
                    negative = np.where(self._valid[rows], negative, self._neutral)
                results = held + negative
            else:
                results = held - values
        if results.dtype == np.int64:
            self._count_wraps(slots, held, ((held ^ values) & (held ^ results)) < 0)
        self._mark_present(slots, rows)
        self._sums[slots] = results

    def put(self, slots: Slots, rows: Order) -> None:
        super().put(slots, rows)
        self._wraps[slots] = 0

    def clear(self, slots: Slots) -> None:
        super().clear(slots)
        self._wraps[slots] = 0

    def result(self) -> Column:
        wrapped = np.flatnonzero(self._wraps)
        if len(wrapped):
            assert self._limits is not None
            slot = wrapped[0]
            self._limits.refuse(int(self._sums[slot]) + (int(self._wraps[slot]) << 64))
        return super().result()

    def _count_wraps(self, slots: Slots, held: Numbers, wrapped: Mask) -> None:
        """Count the slots whose sums have just wrapped around, in the direction of their sign before."""
        if wrapped.any():
            self._wraps[slots] += np.where(wrapped, np.where(held < 0, -1, 1), 0)

    def reduce(self, keys: KeyRows) -> "Column | None":
        if self._decimal is not None:
            return self._short_sums(keys)
        return self._reduced(np.add, keys)

    def _short_sums(self, keys: KeyRows) -> "Column | None":
        """Return sums of decimals if the values and all sums fit into 64 bits, otherwise None."""
        assert self._decimal is not None
        assert self._limits is not None
        if not len(keys):
            return None
        limbs = limbs_of(self.column).view(np.int64)
        low = limbs[:, 0] if self._valid is None else np.where(self._valid, limbs[:, 0], 0)
        high = limbs[:, 1] if self._valid is None else np.where(self._valid, limbs[:, 1], 0)
        if (high != low >> 63).any() or _greatest(low) * int(keys.sizes.max()) >= 1 << 63:
            return None
        sums = sums_of(low.take(keys.order), keys)
        if self._decimal.precision <= _LONG_DIGITS:
            self._limits.check(sums)
        data: Any = np.stack([sums, sums >> 63], axis=1)
        has: Any = None if self._valid is None else from_numpy(keys.has(self._valid))
        buffers = [None if has is None else has.buffers()[1], pa.py_buffer(data)]
        built: Column = pa.Array.from_buffers(self._decimal, len(sums), buffers)
        return built


class Product(_Numbers):
    """`product`; a retraction divides. Each step must be in the range, because a later zero would hide an overflow."""

    neutral = 1
    can_retract = True

    def reduce(self, keys: KeyRows) -> "Column | None":
        return None if self._decimal is not None else self._reduced(np.multiply, keys)

    def add(self, slots: Slots, rows: Order) -> None:
        if self._decimal is None:
            self._mark_present(slots, rows)
            held, values = self._sums[slots], self._taken(rows)
            if self._limits is not None:
                # Exact, in Python's integers, if 64 bits may be too few.
                for place in np.flatnonzero(np.abs(held.astype(np.float64) * values) >= self._limits.greatest / 2):
                    self._limits.check(_objects([int(held[place]) * int(values[place])]))
            with np.errstate(all="ignore"):
                self._sums[slots] = held * values
            return
        scale = 10**self._decimal.scale
        had = self._has[slots].copy()
        new = np.ones(len(rows), np.bool_) if self._valid is None else self._valid[rows]
        self._mark_present(slots, rows)
        met = zip(self._sums[slots], self._values[rows], had, new, strict=True)
        # A product of decimals has up to 76 digits, which only Python's integers can hold.
        self._store(slots, _objects([(_rounded(a * b, scale) if h else b) if n else a for a, b, h, n in met]))

    def retract(self, slots: Slots, rows: Order) -> None:
        both = self._has[slots] if self._valid is None else self._has[slots] & self._valid[rows]
        places = np.arange(self.slots)[slots][both]
        left, right = self._sums[places], self._taken(rows[both])
        if not self._is_float and (right == 0).any():
            raise InvalidInputError(f"The {self.of} can't retract a zero: that divides by it.")
        with np.errstate(all="ignore"):
            if self._decimal is not None:
                scale = 10**self._decimal.scale
                pairs = zip(left, right, strict=True)
                self._store(places, _objects([self._divided(int(a), int(b), scale) for a, b in pairs]))
            elif self._limits is None:
                self._sums[places] = left / right
            else:
                if ((left == self._limits.least) & (right == -1)).any():
                    self._limits.refuse(-self._limits.least)
                quotient = left // right
                inexact = quotient * right != left
                self._sums[places] = quotient + (inexact & ((left < 0) != (right < 0))).astype(quotient.dtype)

    def _store(self, slots: Slots, products: Numbers) -> None:
        assert self._limits is not None
        self._limits.check(products)
        self._sums[slots] = products

    def _divided(self, a: int, b: int, scale: int) -> int:
        rest = abs(b) // math.gcd(a, b)
        for factor in (2, 5):
            while rest % factor == 0:
                rest //= factor
        if rest != 1:
            raise InvalidInputError(f"The {self.of} can't divide {a} by {b}: the quotient has no end.")
        return _rounded(a * scale, b)


def _rounded(a: int, b: int) -> int:
    """Return a quotient, rounded half away from zero."""
    sign = -1 if (a < 0) != (b < 0) else 1
    return sign * ((2 * abs(a) + abs(b)) // (2 * abs(b)))


def _objects(values: "list[Any]") -> Numbers:
    out = np.empty(len(values), object)
    out[:] = values
    return out


def sums_of(ordered: Numbers, keys: KeyRows) -> Numbers:
    """Return the sum of the integers of each key, which are in key order; sums wrap around."""
    passed = np.cumsum(ordered, dtype=ordered.dtype)
    results = passed.take(keys.lasts)
    results[1:] -= passed.take(keys.lasts[:-1])
    return results


def _sums_within(ordered: Numbers, keys: KeyRows, limits: _Limits) -> Numbers:
    """Return the sum of the integers of each key; raises InvalidInputError for one outside of the limits."""
    bound = _greatest(ordered) * keys.longest
    if bound <= limits.greatest:
        return sums_of(ordered, keys)
    ordered = ordered.astype(np.int64, copy=False)
    sums = sums_of(ordered, keys)
    if bound >= 1 << 63:
        # The upper and lower halves of the numbers have sums of less than 64 bits.
        low = sums_of(ordered & 0xFFFF_FFFF, keys)
        high = sums_of(ordered >> 32, keys) + (low >> 32)
        over = np.flatnonzero((high >= 1 << 31) | (high < -(1 << 31)))
        if len(over):
            limits.refuse((int(high[over[0]]) << 32) + (int(low[over[0]]) & 0xFFFF_FFFF))
    limits.check(sums)
    return sums


def _products_within(ordered: Numbers, keys: KeyRows, limits: _Limits) -> Numbers:
    """Return the product of the integers of each key; raises InvalidInputError if a step is outside of the limits."""
    with np.errstate(all="ignore"):
        results = np.multiply.reduceat(ordered, keys.firsts, dtype=ordered.dtype)
        if _greatest(ordered) ** min(keys.longest, 64) <= limits.greatest:
            return results
        # Zeros count as ones, because the product before them must be within the limits, too.
        bounds = np.multiply.reduceat(np.maximum(np.abs(ordered.astype(np.float64)), 1), keys.firsts)
    # Keys whose inexact bound is near the limits. They are few, or one of the first is an error.
    for key in np.flatnonzero(~(bounds < limits.greatest / 2)).tolist():
        product = 1
        for value in ordered[keys.firsts[key] : keys.lasts[key] + 1].tolist():
            product *= value
            if not limits.least <= product <= limits.greatest:
                limits.refuse(product)
    return results


def _greatest(numbers: Numbers) -> int:
    """Return the greatest absolute value of integers."""
    return max(abs(int(numbers.max(initial=0))), abs(int(numbers.min(initial=0))))


def _float_sums(ordered: Numbers, keys: KeyRows) -> Numbers:
    """Return the sum of the doubles of each key, added one after the other."""
    with np.errstate(all="ignore"):
        results = np.bincount(keys.keys, weights=ordered, minlength=len(keys))
    zeros = np.flatnonzero(results == 0)
    if len(zeros):
        # The sum starts with a positive zero, but a sum of negative zeros alone is a negative zero.
        positive = np.bincount(keys.keys, weights=~((ordered == 0) & np.signbit(ordered)), minlength=len(keys))
        results[zeros.compress(positive.take(zeros) == 0)] = -0.0
    return results


def limbs_of(column: Column) -> "npt.NDArray[np.uint64]":
    """Return a column of decimals as two words for each row, the low word first."""
    buffer = column.buffers()[1]
    if buffer is None or not len(column):
        return np.zeros((len(column), 2), np.uint64)
    words = np.frombuffer(memoryview(buffer), "<u8", count=2 * len(column), offset=16 * column.offset)
    return words.reshape(-1, 2)


def numbers_of(column: Column) -> Numbers:
    """Return the values as numpy numbers, decimals as unscaled Python integers; arbitrary numbers for nulls."""
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
    """Return unscaled integers as a column of decimals."""
    # Arrow has no other conversion of wide integers to decimals.
    data = b"".join(int(v).to_bytes(16, "little", signed=True) for v in values)
    mask: Any = from_numpy(has)
    built: Column = pa.Array.from_buffers(kind, len(values), [mask.buffers()[1], pa.py_buffer(data)])
    return built
