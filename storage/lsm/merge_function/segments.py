"""The rows of many keys, taken one round after the other: first the oldest row of every key, then the next oldest …

Functions that must see a key's rows in their order are computed for all keys at once this way: a round is a handful of
vectorised steps over the keys that have so many rows. Keys with one row need no function, as their row stays as it is.

Results of functions are kept by slot. Slots are the keys with several rows, those with most rows first, so that the
keys of a round are always the first so many slots.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.lsm.key_words import Mask, Order, group_ends
from interbed.storage.lsm.merge_function.api import KeyGroups, Kinds, block_memory_pool
from interbed.storage.schema.table_schema import VALUE_KIND

Slots: TypeAlias = "slice | npt.NDArray[np.int64]"
Column: TypeAlias = "pa.Array[Any]"

_DELETE = np.int8(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """Keys with several rows, or with `alone` all keys.

    The rows of slot i are `order[firsts[i] : firsts[i] + sizes[i]]`, oldest first; `joined` has the rows of all slots,
    one slot after the other, each from its place in `starts` on. `by_key` has the slots in key order,
    `single` says of each key, in key order, whether it has one row and so no slot, `newest` is each key's last row.
    """

    order: Order
    firsts: Order
    sizes: Order
    by_key: Order
    joined: Order
    starts: Order
    single: Mask
    newest: Order

    @staticmethod
    def of(groups: KeyGroups, *, alone: bool = False) -> "Segments":
        """The segments of sorted rows; with `alone` keys with one row have a slot, too."""
        firsts = np.flatnonzero(groups.starts)
        sizes = np.diff(firsts, append=len(groups.order))
        single = np.zeros(len(sizes), np.bool_) if alone else sizes == 1
        firsts, sizes = firsts[~single], sizes[~single]
        longest_first = np.argsort(-sizes, kind="stable")
        by_key = np.empty(len(sizes), np.int64)
        by_key[longest_first] = np.arange(len(sizes))
        firsts, sizes = firsts[longest_first], sizes[longest_first]
        starts = np.cumsum(sizes) - sizes
        places = np.arange(int(sizes.sum())) + np.repeat(firsts - starts, sizes)
        return Segments(
            order=groups.order,
            firsts=firsts,
            sizes=sizes,
            joined=groups.order[places],
            starts=starts,
            by_key=by_key,
            single=single,
            newest=groups.order.compress(group_ends(groups.starts)),
        )

    def __len__(self) -> int:
        return len(self.sizes)

    def rounds(self) -> Iterator[tuple[int, Order]]:
        """How many slots have a row in the round, and those rows."""
        longest = int(self.sizes[0]) if len(self.sizes) else 0
        # Sizes descend, so the slots that are done in a round are at the end.
        active = np.searchsorted(-self.sizes, -np.arange(longest), side="left")
        for position in range(longest):
            slots = int(active[position])
            yield slots, self.order[self.firsts[:slots] + position]


@dataclass(frozen=True, slots=True)
class Picked:
    """A function's results by slot, as numbers of rows whose value it is; -1 for null."""

    rows: Order


def assemble(
    rows: pa.RecordBatch,
    segments: Segments,
    kinds: Kinds | None,
    results: Mapping[str, "Picked | Column"],
    deleted: Mask | None,
    output: Sequence[str],
    *,
    drop_deletes: bool,
) -> pa.RecordBatch:
    """The merged rows: results by slot for keys with several rows, the row itself for others.

    `deleted` says by slot which keys are removed. Columns without results are those of the newest row.
    """
    multiple = ~segments.single
    kept: Mask | None = None
    kind_of = _kinds(segments, kinds, deleted)
    if drop_deletes and kind_of is not None:
        kept = (kind_of & 1) == 0
    columns: list[Column] = []
    for name in output:
        if name == VALUE_KIND:
            columns.append(_kind_column(rows, segments, kind_of, kept))
            continue
        result = results.get(name)
        column = rows.column(name)
        numbers = segments.newest.copy()
        if isinstance(result, Picked):
            numbers[multiple] = result.rows[segments.by_key]
        elif result is not None:
            numbers[multiple] = len(column) + segments.by_key
            column = pa.concat_arrays([column, result], memory_pool=block_memory_pool())
        if kept is not None:
            numbers = numbers.compress(kept)
        missing = numbers < 0
        indices: Any = pa.array(np.where(missing, 0, numbers), mask=missing) if missing.any() else pa.array(numbers)
        columns.append(pc.take(column, indices, boundscheck=False, memory_pool=block_memory_pool()))
    schema = pa.schema([rows.schema.field(n) for n in output])
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _kinds(segments: Segments, kinds: Kinds | None, deleted: Mask | None) -> Kinds | None:
    """The kind of each key's row in key order; None when no row deletes."""
    if kinds is None and deleted is None:
        return None
    of_rows: Kinds = np.zeros(len(segments.newest), np.int8) if kinds is None else kinds[segments.newest]
    of_slots = np.zeros(len(segments), np.int8)
    if deleted is not None:
        of_slots[deleted] = _DELETE
    of_rows[~segments.single] = of_slots[segments.by_key]
    return of_rows


def _kind_column(rows: pa.RecordBatch, segments: Segments, kind_of: Kinds | None, kept: Mask | None) -> Column:
    if kind_of is None:
        own: Kinds = rows.column(VALUE_KIND).to_numpy()
        kind_of = own[segments.newest]
        kind_of[~segments.single] = 0
    return pa.array(kind_of if kept is None else kind_of.compress(kept))
