"""The merge engines whose row is one whole record of the key: the newest (`deduplicate`) or the oldest (`first-row`).

Source: documentation pages `primary-key-table/merge-engine/overview` and `primary-key-table/merge-engine/first-row`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.lsm.key_words import Order, group_ends
from interbed.storage.lsm.merge_function.api import KeyGroups, Kinds, take_rows

FIRST_ROW_REFUSAL = (
    "Tables with 'merge-engine' = 'first-row' take no -U and -D rows. Set option 'ignore-delete' to 'true' to have "
    "them left out."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplicate:
    """Keeps the last row of each key.

    With `drop_deletes` a key whose last record deletes it is left out, as reads and compactions to the highest level
    want it; other compactions must keep the record, because it hides rows of higher levels. With `ignore_delete`
    records that delete are treated as if they had never been written.
    """

    drop_deletes: bool
    ignore_delete: bool = False

    def columns(self, output: Sequence[str]) -> tuple[str, ...]:
        """Nothing but the output."""
        return tuple(output)

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        """The last rows of all keys."""
        return take_rows(groups.rows, output, self.pick(groups.order, groups.starts, groups.kinds))

    def pick(self, order: Order, starts: Mask, kinds: Kinds | None) -> Order:
        """The numbers of the last rows of all keys."""
        if kinds is None:
            return order.compress(group_ends(starts))
        if self.ignore_delete:
            adds = ~is_retract(kinds)[order]
            keys = np.cumsum(starts)[adds]
            order = order[adds]
            starts = np.ones(len(order), np.bool_)
            np.not_equal(keys[1:], keys[:-1], out=starts[1:])
        winners = order.compress(group_ends(starts))
        if self.drop_deletes:
            winners = winners.compress(~is_retract(kinds[winners]))
        return winners

    def is_newest(self, kinds: Kinds | None) -> bool:
        """Whether no record is passed over."""
        return kinds is None or not self.ignore_delete

    def kept(self, kinds: Kinds | None) -> Mask | None:
        """Those that do not delete, where such are dropped."""
        return None if kinds is None or not self.drop_deletes else ~is_retract(kinds)

    def merge_single(self, rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str]) -> pa.RecordBatch:
        """The rows without those that delete, or all of them."""
        if kinds is None or not (self.drop_deletes or self.ignore_delete):
            return rows.select(list(output))
        adds = ~is_retract(kinds)
        if adds.all():
            return rows.select(list(output))
        return rows.select(list(output)).filter(from_numpy(adds))


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRow:
    """Keeps the first row of each key that adds; there should be no others, unless `ignore_delete` leaves them out."""

    ignore_delete: bool
    drop_deletes: bool

    def columns(self, output: Sequence[str]) -> tuple[str, ...]:
        """Nothing but the output."""
        return tuple(output)

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        """The first rows of all keys."""
        return take_rows(groups.rows, output, self.pick(groups.order, groups.starts, groups.kinds))

    def pick(self, order: Order, starts: Mask, kinds: Kinds | None) -> Order:
        """The numbers of the first rows of all keys; raises InvalidInputError for rows that delete."""
        if kinds is None:
            return order.compress(starts)
        adds = ~is_retract(kinds)[order]
        if not self.ignore_delete:
            alone = starts & np.append(starts[1:], True)
            if not (adds | alone).all():
                raise InvalidInputError(FIRST_ROW_REFUSAL)
        keys = np.cumsum(starts)[adds]
        order = order[adds]
        firsts = np.ones(len(order), np.bool_)
        np.not_equal(keys[1:], keys[:-1], out=firsts[1:])
        return order.compress(firsts)

    def merge_single(self, rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str]) -> pa.RecordBatch:
        """The rows, perhaps without those that delete."""
        return single_rows(rows, kinds, output, drop_deletes=self.drop_deletes)


def is_retract(kinds: "npt.NDArray[Any]") -> Mask:
    """Which row kinds take a row back: -U (1) and -D (3)."""
    return (kinds & 1).astype(np.bool_)


def single_rows(
    rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str], *, drop_deletes: bool
) -> pa.RecordBatch:
    """The rows as they are, without those that delete when `drop_deletes` says so; not copied when need not be."""
    selected = rows.select(list(output))
    if kinds is None or not drop_deletes:
        return selected
    adds = ~is_retract(kinds)
    return selected if adds.all() else selected.filter(from_numpy(adds))
