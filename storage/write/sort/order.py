"""Row orders of a sort compaction (documentation: maintenance/dedicated-compaction), and space-filling curves.

`order` compares the columns one after the other, nulls first: good for filters on the first column. `zorder` and
`hilbert` lay a curve through all columns, so that a filter on any of them skips files.

A curve gives each row one number, computed from small integers, so that rows with similar values get similar numbers. A
Z-order interleaves the bits of the columns. A Hilbert curve also has no jumps (J. Skilling, "Programming the Hilbert
curve", 2004). Both work on whole columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import pairwise

import numpy as np

from interbed.storage.base.arrays import Mask, Words
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.types.data_type import (
    BINARIES,
    INTEGERS,
    STRINGS,
    TIMESTAMPS,
    DataField,
    TypeRoot,
    is_atomic,
)
from interbed.storage.meta.schema.table_schema import TableSchema

MOST_COLUMNS = 60
"""Maximum number of columns of a curve: each gives at least a bit to a number of 64 bits."""

_MOST_BITS = 12

_ORDERED = (
    *sorted({TypeRoot.BOOLEAN, TypeRoot.DECIMAL, TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DATE, TypeRoot.TIME}),
    *sorted(INTEGERS | STRINGS | BINARIES | TIMESTAMPS),
)


class OrderStrategy(Enum):
    """The way in which several columns make one order."""

    ORDER = "order"
    ZORDER = "zorder"
    HILBERT = "hilbert"


@dataclass(frozen=True, slots=True, kw_only=True)
class SortOrder:
    """A strategy and its columns."""

    strategy: OrderStrategy
    columns: tuple[str, ...]

    @staticmethod
    def of(schema: TableSchema, strategy: str | None, order_by: Sequence[str] | str | None) -> "SortOrder | None":
        """Return the order of `order_strategy` and `order_by`, None when they ask for none.

        `order_by` is a sequence of names, or names with commas between them. Raises InvalidInputError.
        """
        return SortOrder.of_columns(schema.fields, strategy, order_by, schema.partition_keys)

    @staticmethod
    def of_columns(
        fields: Sequence[DataField],
        strategy: str | None,
        order_by: Sequence[str] | str | None,
        partition_keys: Sequence[str] = (),
    ) -> "SortOrder | None":
        """Return the order for columns, of which some may be partition keys; raise InvalidInputError."""
        given = order_by.split(",") if isinstance(order_by, str) else list(order_by or ())
        names = tuple(dict.fromkeys(name.strip() for name in given if name.strip()))
        named = (strategy or "none").strip().lower()
        if named == "none":
            if names:
                raise InvalidInputError(
                    "order_by goes with an order_strategy: 'order', 'zorder' or 'hilbert'; it is 'none' now."
                )
            return None
        try:
            chosen = OrderStrategy(named)
        except ValueError:
            raise InvalidInputError(
                f"The order_strategy {strategy!r} is not known; it is 'none', 'order', 'zorder' or 'hilbert'."
            ) from None
        if not names:
            raise InvalidInputError(f"The order_strategy '{named}' needs order_by: the columns to sort by.")
        if chosen is OrderStrategy.HILBERT and len(names) < 2:
            raise InvalidInputError("A Hilbert curve goes through at least two columns; sort one by 'order'.")
        if chosen is not OrderStrategy.ORDER and len(names) > MOST_COLUMNS:
            raise InvalidInputError(f"A curve goes through at most {MOST_COLUMNS} columns, not {len(names)}.")
        for name in names:
            _check_column(fields, partition_keys, name)
        return SortOrder(strategy=chosen, columns=names)

    def __str__(self) -> str:
        return f"{self.strategy.value} by {', '.join(self.columns)}"


def _check_column(fields: Sequence[DataField], partition_keys: Sequence[str], name: str) -> None:
    field = next((field for field in fields if field.name == name), None)
    if field is None:
        names = ", ".join(field.name for field in fields)
        raise InvalidInputError(f"There is no column {name!r} to order by; the table has {names}.")
    if name in partition_keys:
        raise InvalidInputError(
            f"{name!r} is a partition column, which has one value in each file already; order by other columns."
        )
    if not is_atomic(field.type, *_ORDERED):
        raise InvalidInputError(f"The column {name!r} has the type {field.type}, which has no order to sort by.")


def bits_of(columns: int) -> int:
    """Return the number of bits of each column in the position on a curve of `columns` columns."""
    return min(_MOST_BITS, MOST_COLUMNS // columns)


def z_order(columns: Sequence[Words]) -> Words:
    """Return the position of each row on the Z-order curve, of columns with `bits_of` bits each."""
    count = len(columns)
    table = _spread(bits_of(count), count)
    index = np.zeros(len(columns[0]), np.uint64)
    for i, column in enumerate(columns):
        index |= table[column] << np.uint64(count - 1 - i)
    return index


def hilbert(columns: Sequence[Words]) -> Words:
    """Return the position of each row on the Hilbert curve, of columns with `bits_of` bits each."""
    bits = bits_of(len(columns))
    axes = [column.copy() for column in columns]
    for bit in range(bits - 1, 0, -1):
        low = np.uint64((1 << bit) - 1)
        axes[0] ^= np.where(_has(axes[0], bit), low, np.uint64(0))
        for axis in axes[1:]:
            # Where the bit is set the lower bits of the first axis are inverted, elsewhere those of the two axes are
            # swapped.
            is_set = _has(axis, bit)
            swapped = np.where(is_set, np.uint64(0), (axes[0] ^ axis) & low)
            axis ^= swapped
            axes[0] ^= np.where(is_set, low, swapped)
    for before, axis in pairwise(axes):
        axis ^= before
    flips = np.zeros(len(axes[0]), np.uint64)
    for bit in range(bits - 1, 0, -1):
        flips ^= np.where(_has(axes[-1], bit), np.uint64((1 << bit) - 1), np.uint64(0))
    return z_order([axis ^ flips for axis in axes])


def _has(axis: Words, bit: int) -> Mask:
    return np.asarray(axis & np.uint64(1 << bit), np.bool_)


@cache
def _spread(bits: int, step: int) -> Words:
    """Return for every number of `bits` bits the number with its bits `step` apart."""
    numbers = np.arange(1 << bits, dtype=np.uint64)
    spread = np.zeros(1 << bits, np.uint64)
    for bit in range(bits):
        spread |= ((numbers >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * step)
    return spread
