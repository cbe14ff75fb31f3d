"""`sum` and `product`: exact for integers and decimals, in the order of the rows for floats.

A result beyond the column's type is an error that names the column. Paimon 2.0 raises one for integers, too
(FieldSumAgg, FieldProductAgg); for decimals it makes null, or a number with more digits than the type has. Neither is
followed here: after a null the next sum would begin with nothing, so that the result depended on past compactions.
A sum counts when all rows of a merge are added, so that a row that compensates what was too much makes the key readable
again. Floats become infinite, as IEEE 754 says.
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
from interbed.storage.lsm.merge_function.fields.fold import Column, Fold, Late
from interbed.storage.lsm.merge_function.segments import KeyRows, Slots

Numbers = npt.NDArray[Any]

_EXACT = Context(prec=100)

_LONG_DIGITS = 18
_MANY_ROWS = 1_000
"""A key with more rows than that makes rounds cost more than keys."""
_INTEGERS = {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}
"""The types of integers by their bits."""


class _Limits:
    """The integers that a column's type holds, decimals as integers without their scale."""

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
        """Raise InvalidInputError for a number beyond the type."""
        for extreme in (values.max(initial=0), values.min(initial=0)):
            if not self.least <= extreme <= self.greatest:
                self.refuse(int(extreme))

    def refuse(self, value: int) -> NoReturn:
        """Raise InvalidInputError for a number beyond the type."""
        spelled = Decimal(value).scaleb(-self._scale, _EXACT)
        raise InvalidInputError(
            f"The {self._of} makes {spelled:f}, which its type {self._name} does not hold. Give the column a wider "
            "type, or write a row that takes back what is too much; other columns can be read."
        )


class _Numbers(Fold):
    """Numbers by slot, and which slots have one; others hold the neutral number."""

    neutral: float

    late = Late.ANYWHERE

    def __init__(self, column: Column, slots: int, of: str) -> None:
        super().__init__(column, slots, of)
        self._valid = validity(column)
        self._decimal = column.type if isinstance(column.type, pa.Decimal128Type) else None
        self._is_float = pa.types.is_floating(column.type)
        self._limits = None if self._is_float else _Limits(column.type, of)
        # A negative zero is what changes no number when it is added, zeros included.
        first: float = -0.0 if self._is_float and self.neutral == 0 else self.neutral
        number = object if self._decimal else column.type.to_pandas_dtype() if self._is_float else np.int64
        self._neutral: Any = int(first) if self._decimal else np.dtype(number).type(first)
        self._sums: Numbers = np.full(slots, self._neutral, number)
        self._has = np.zeros(slots, np.bool_)

    @cached_property
    def _values(self) -> Numbers:
        """The numbers by row, the neutral one for null; integers have the bits of the column."""
        values = numbers_of(self.column)
        if self._valid is None:
            return values
        neutral = self._neutral if self._decimal is not None else values.dtype.type(self._neutral)
        filled: Numbers = np.where(self._valid, values, neutral)
        return filled

    def _taken(self, rows: Order) -> Numbers:
        """The numbers of some rows in the type of the accumulators: integers have 64 bits."""
        return self._values[rows].astype(self._sums.dtype, copy=False)

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
        if self._limits is not None:
            self._limits.check(self._sums)
        if self._decimal is not None:
            return decimals(self._sums, self._has, self._decimal)
        return self._column(self._sums, ~self._has)

    def _column(self, made: Numbers, gone: Mask | None) -> Column:
        """Numbers within the column's type as a column."""
        narrow = made.astype(self.column.type.to_pandas_dtype(), copy=False)
        numbers: Column = pa.array(narrow, type=self.column.type, mask=gone)
        return numbers

    def _reduced(self, function: np.ufunc, keys: KeyRows) -> "Column | None":
        """The function of each key's numbers in their order; floats must not be taken in another one."""
        if not len(keys):
            return None
        ordered = self._values.take(keys.order)
        if self._limits is not None:
            made = _sums_within if function is np.add else _products_within
            return self._column(made(ordered, keys, self._limits), self._gone(keys))
        if function is np.add and ordered.dtype == np.float64:
            floats = _float_sums(ordered, keys)
        elif keys.longest > _MANY_ROWS:
            # Few long keys: a loop over keys takes fewer steps than one over rounds.
            bounds = zip(keys.firsts.tolist(), keys.sizes.tolist(), strict=True)
            with np.errstate(all="ignore"):
                floats = np.array([function.accumulate(ordered[a : a + n])[-1] for a, n in bounds], ordered.dtype)
        else:
            floats = ordered.take(keys.firsts)
            with np.errstate(all="ignore"):
                for more, rows in keys.rounds:
                    floats[more] = function(floats.take(more), self._values.take(rows))
        return self._column(floats, self._gone(keys))

    def _gone(self, keys: KeyRows) -> Mask | None:
        """The keys that have no number; None when all have one."""
        return None if self._valid is None else ~keys.has(self._valid)

    def _meet(self, slots: Slots, rows: Order) -> None:
        self._has[slots] |= True if self._valid is None else self._valid[rows]


class Sum(_Numbers):
    """`sum`; a retraction subtracts.

    Accumulators go beyond the column's type, because only the sum of all rows has to be within it. Those of integers
    wrap around at 64 bits, and `_wraps` counts how often, downward as negative numbers.
    """

    neutral = 0
    can_retract = True

    def __init__(self, column: Column, slots: int, of: str) -> None:
        super().__init__(column, slots, of)
        self._wraps = np.zeros(slots, np.int64)

    def add(self, slots: Slots, rows: Order) -> None:
        """See Fold."""
        self._meet(slots, rows)
        held, values = self._sums[slots], self._taken(rows)
        with np.errstate(all="ignore"):
            made = held + values
        if made.dtype == np.int64:
            self._count_wraps(slots, held, ((held ^ made) & (values ^ made)) < 0)
        self._sums[slots] = made

    def retract(self, slots: Slots, rows: Order) -> None:
        """See Fold."""
        held, values = self._sums[slots], self._taken(rows)
        with np.errstate(all="ignore"):
            if self._is_float:
                negative = -values
                if self._valid is not None:
                    negative = np.where(self._valid[rows], negative, self._neutral)
                made = held + negative
            else:
                made = held - values
        if made.dtype == np.int64:
            self._count_wraps(slots, held, ((held ^ values) & (held ^ made)) < 0)
        self._meet(slots, rows)
        self._sums[slots] = made

    def put(self, slots: Slots, rows: Order) -> None:
        """See Fold."""
        super().put(slots, rows)
        self._wraps[slots] = 0

    def clear(self, slots: Slots) -> None:
        """See Fold."""
        super().clear(slots)
        self._wraps[slots] = 0

    def result(self) -> Column:
        """See Fold."""
        wrapped = np.flatnonzero(self._wraps)
        if len(wrapped):
            assert self._limits is not None
            slot = wrapped[0]
            self._limits.refuse(int(self._sums[slot]) + (int(self._wraps[slot]) << 64))
        return super().result()

    def _count_wraps(self, slots: Slots, held: Numbers, wrapped: Mask) -> None:
        """Count the slots whose sums have just wrapped around: in the direction of what they held."""
        if wrapped.any():
            self._wraps[slots] += np.where(wrapped, np.where(held < 0, -1, 1), 0)

    def reduce(self, keys: KeyRows) -> "Column | None":
        """See Fold."""
        if self._decimal is not None:
            return self._short_sums(keys)
        return self._reduced(np.add, keys)

    def _short_sums(self, keys: KeyRows) -> "Column | None":
        """Sums of decimals whose digits fit into 64 bits, and so do all sums; None for others."""
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
    """`product`; a retraction divides. Each step has to be within the column's type, as a later zero hides much."""

    neutral = 1
    can_retract = True

    def reduce(self, keys: KeyRows) -> "Column | None":
        """See Fold."""
        return None if self._decimal is not None else self._reduced(np.multiply, keys)

    def add(self, slots: Slots, rows: Order) -> None:
        """See Fold."""
        if self._decimal is None:
            self._meet(slots, rows)
            held, values = self._sums[slots], self._taken(rows)
            if self._limits is not None:
                # Exact in Python's numbers where 64 bits may be too few.
                for place in np.flatnonzero(np.abs(held.astype(np.float64) * values) >= self._limits.greatest / 2):
                    self._limits.check(_objects([int(held[place]) * int(values[place])]))
            with np.errstate(all="ignore"):
                self._sums[slots] = held * values
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
        left, right = self._sums[places], self._taken(rows[both])
        if not self._is_float and (right == 0).any():
            raise InvalidInputError(f"The {self.of} can't take a zero back: that divides by it.")
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


def _sums_within(ordered: Numbers, keys: KeyRows, limits: _Limits) -> Numbers:
    """The sum of each key's integers; raises InvalidInputError for one beyond the limits."""
    bound = _greatest(ordered) * keys.longest
    if bound <= limits.greatest:
        return sums_of(ordered, keys)
    ordered = ordered.astype(np.int64, copy=False)
    sums = sums_of(ordered, keys)
    if bound >= 1 << 63:
        # The halves of the numbers have sums of less than 64 bits.
        low = sums_of(ordered & 0xFFFF_FFFF, keys)
        high = sums_of(ordered >> 32, keys) + (low >> 32)
        over = np.flatnonzero((high >= 1 << 31) | (high < -(1 << 31)))
        if len(over):
            limits.refuse((int(high[over[0]]) << 32) + (int(low[over[0]]) & 0xFFFF_FFFF))
    limits.check(sums)
    return sums


def _products_within(ordered: Numbers, keys: KeyRows, limits: _Limits) -> Numbers:
    """The product of each key's integers; raises InvalidInputError where a step is beyond the limits."""
    with np.errstate(all="ignore"):
        made = np.multiply.reduceat(ordered, keys.firsts, dtype=ordered.dtype)
        if _greatest(ordered) ** min(keys.longest, 64) <= limits.greatest:
            return made
        # Zeros count as ones: what was before them has to be within the limits, too.
        bounds = np.multiply.reduceat(np.maximum(np.abs(ordered.astype(np.float64)), 1), keys.firsts)
    # Keys whose bound, which is not exact, is near the limits: few, or there is an error among the first.
    for key in np.flatnonzero(~(bounds < limits.greatest / 2)).tolist():
        product = 1
        for value in ordered[keys.firsts[key] : keys.lasts[key] + 1].tolist():
            product *= value
            if not limits.least <= product <= limits.greatest:
                limits.refuse(product)
    return made


def _greatest(numbers: Numbers) -> int:
    """The greatest absolute value of integers."""
    return max(abs(int(numbers.max(initial=0))), abs(int(numbers.min(initial=0))))


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
