"""The merge engine `first-row`: the oldest record of a key is the key's row.

Source: documentation page `primary-key-table/merge-engine/first-row`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.lsm.key_words import Order
from interbed.storage.lsm.merge_function.api import KeyGroups, Kinds, take_rows
from interbed.storage.lsm.merge_function.deduplicate import is_retract, single_rows

REFUSAL = (
    "Tables with 'merge-engine' = 'first-row' take no -U and -D rows. Set option 'ignore-delete' to 'true' to have "
    "them left out."
)


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
                raise InvalidInputError(REFUSAL)
        keys = np.cumsum(starts)[adds]
        order = order[adds]
        firsts = np.ones(len(order), np.bool_)
        np.not_equal(keys[1:], keys[:-1], out=firsts[1:])
        return order.compress(firsts)

    def merge_single(self, rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str]) -> pa.RecordBatch:
        """The rows, perhaps without those that delete."""
        return single_rows(rows, kinds, output, drop_deletes=self.drop_deletes)
