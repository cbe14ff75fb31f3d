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
class DeduplicateMerge:
    """The merge engine `deduplicate`: keeps the newest row of each key.

    With `drop_deletes` a key whose newest record is a delete is left out, for reads and compactions to the highest
    level. Other compactions must keep the record, because it hides rows of higher levels. With `ignore_delete` delete
    records are ignored.
    """

    drop_deletes: bool
    ignore_delete: bool = False

    def columns(self, output: Sequence[str]) -> tuple[str, ...]:
        """Return the output columns only."""
        return tuple(output)

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        """Return the newest row of each key."""
        return take_rows(groups.rows, output, self.pick(groups.order, groups.starts, groups.kinds))

    def pick(self, order: Order, starts: Mask, kinds: Kinds | None) -> Order:
        """Return the number of the newest row of each key."""
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
        """Return whether the newest record of a key is always picked."""
        return kinds is None or not self.ignore_delete

    def kept(self, kinds: Kinds | None) -> Mask | None:
        """Return the mask of the rows that do not delete; None if all are kept."""
        return None if kinds is None or not self.drop_deletes else ~is_retract(kinds)

    def merge_single(self, rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str]) -> pa.RecordBatch:
        """Return the rows, without deletes if those are dropped or ignored."""
        if kinds is None or not (self.drop_deletes or self.ignore_delete):
            return rows.select(list(output))
        adds = ~is_retract(kinds)
        if adds.all():
            return rows.select(list(output))
        return rows.select(list(output)).filter(from_numpy(adds))


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRow:
    """The merge engine `first-row`: keeps the oldest row of each key. Deletes are refused, or ignored."""

    ignore_delete: bool
    drop_deletes: bool

    def columns(self, output: Sequence[str]) -> tuple[str, ...]:
        """Return the output columns only."""
        return tuple(output)

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        """Return the oldest row of each key."""
        return take_rows(groups.rows, output, self.pick(groups.order, groups.starts, groups.kinds))

    def pick(self, order: Order, starts: Mask, kinds: Kinds | None) -> Order:
        """Return the number of the oldest row of each key; raises InvalidInputError for delete rows."""
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
        """Return the rows, with `drop_deletes` without deletes."""
        return single_rows(rows, kinds, output, drop_deletes=self.drop_deletes)


def is_retract(kinds: "npt.NDArray[Any]") -> Mask:
    """Return the mask of the row kinds that retract a row: -U (1) and -D (3)."""
    return (kinds & 1).astype(np.bool_)


def single_rows(
    rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str], *, drop_deletes: bool
) -> pa.RecordBatch:
    """Return the rows, with `drop_deletes` without deletes; not copied if none is dropped."""
    selected = rows.select(list(output))
    if kinds is None or not drop_deletes:
        return selected
    adds = ~is_retract(kinds)
    return selected if adds.all() else selected.filter(from_numpy(adds))
