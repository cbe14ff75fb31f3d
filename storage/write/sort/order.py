"""The order that a sort compaction puts rows into (documentation: maintenance/dedicated-compaction).

`order` compares the columns one after the other, nulls first: good for filters on the first of them. `zorder` and
`hilbert` lay a curve through all columns, so that a filter on any of them leaves files out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

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
from interbed.storage.write.sort.curves import MOST_COLUMNS

_ORDERED = (
    *sorted({TypeRoot.BOOLEAN, TypeRoot.DECIMAL, TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DATE, TypeRoot.TIME}),
    *sorted(INTEGERS | STRINGS | BINARIES | TIMESTAMPS),
)


class OrderStrategy(Enum):
    """How several columns make one order."""

    ORDER = "order"
    ZORDER = "zorder"
    HILBERT = "hilbert"


@dataclass(frozen=True, slots=True, kw_only=True)
class SortOrder:
    """A strategy and the columns that it goes by."""

    strategy: OrderStrategy
    columns: tuple[str, ...]

    @staticmethod
    def of(schema: TableSchema, strategy: str | None, order_by: Sequence[str] | str | None) -> "SortOrder | None":
        """The order that `order_strategy` and `order_by` ask for, None when they ask for none.

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
        """The same for columns, of which some are partitioned by."""
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
