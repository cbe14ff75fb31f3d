"""The rows of many keys, for functions that aggregate the values of each key, for all keys at once.

If all rows add, functions get `KeyRows`: sorted rows, and the first row of each key. They reduce contiguous segments.

If rows retract values, functions that depend on the order of the rows work in rounds: first on the oldest row of every
key, then on the next oldest, and so on. A round is a few vectorised steps over the keys that have that many rows. Keys
with one row need no function, because their row is unchanged. Results of such functions are kept by slot. Slots are the
keys with several rows, those with most rows first, so that the keys of a round are always the first slots.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import from_numpy, to_numpy
from interbed.storage.lsm.key_words import Order, group_ends
from interbed.storage.lsm.merge_function.api import (
    KeyGroups,
    Kinds,
    Numbers,
    block_memory_pool,
    no_columns,
    take_column,
    take_rows,
)
from interbed.storage.meta.schema.table_schema import VALUE_KIND

Slots: TypeAlias = "slice | npt.NDArray[np.int64]"
Column: TypeAlias = "pa.Array[Any]"
Result: TypeAlias = "PickedRows | Column"

_DELETE = np.int8(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """Keys with several rows, or with `alone` all keys.

    The rows of slot i are `order[firsts[i] : firsts[i] + sizes[i]]`, oldest first. `joined` has the rows of all slots,
    one slot after the other; slot i begins at `starts[i]`. `by_key` has the slots in key order. `single` is the mask of
    the keys, in key order, that have one row and no slot. `newest` is the newest row of each key.
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
        """Return the segments of sorted rows; with `alone` keys with one row have a slot, too."""
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

    def by_keys(self, result: "Result", column: Column) -> "PickedRows":
        """Return a result by slot as a result by key; keys without a slot keep their own row."""
        multiple = ~self.single
        numbers = self.newest.copy()
        if isinstance(result, PickedRows):
            numbers[multiple] = result.rows[self.by_key]
            return PickedRows(numbers)
        numbers[multiple] = len(column) + self.by_key
        return PickedRows(numbers, pa.concat_arrays([column, result], memory_pool=block_memory_pool()))

    def rounds(self) -> Iterator[tuple[int, Order]]:
        """Yield for each round the number of slots that have a row in it, and those rows."""
        longest = int(self.sizes[0]) if len(self.sizes) else 0
        # Sizes descend, so the slots that are done in a round are at the end.
        active = np.searchsorted(-self.sizes, -np.arange(longest), side="left")
        for position in range(longest):
            slots = int(active[position])
            yield slots, self.order[self.firsts[:slots] + position]


@dataclass(frozen=True, slots=True)
class PickedRows:
    """Results as row numbers, -1 for null; rows of the column itself, or of another column."""

    rows: Order
    column: "Column | None" = None


class KeyRows:
    """The rows of a block grouped by key, oldest first: their numbers `order`; keys begin at `firsts`."""

    def __init__(self, order: Order, firsts: Order) -> None:
        self.order = order
        self.firsts = firsts

    @staticmethod
    def of(groups: KeyGroups) -> "KeyRows":
        """Return the rows of all keys of the groups."""
        return KeyRows(groups.order, np.flatnonzero(groups.starts))

    def __len__(self) -> int:
        return len(self.firsts)

    @cached_property
    def sizes(self) -> Order:
        """The number of rows of each key."""
        return np.diff(self.firsts, append=len(self.order))

    @cached_property
    def lasts(self) -> Order:
        """The index in `order` of the newest row of each key."""
        return self.firsts + self.sizes - 1

    @cached_property
    def newest(self) -> Order:
        """The newest row of each key."""
        return self.order.take(self.lasts)

    @cached_property
    def oldest(self) -> Order:
        """The oldest row of each key."""
        return self.order.take(self.firsts)

    @cached_property
    def keys(self) -> Order:
        """The number of the key of each row, in order."""
        return np.repeat(np.arange(len(self.firsts)), self.sizes)

    @cached_property
    def longest(self) -> int:
        """The largest number of rows of a key: one more than there are `rounds`."""
        return int(self.sizes.max(initial=0))

    @cached_property
    def rounds(self) -> list[tuple[Order, Order]]:
        """For the second oldest, third oldest … row: the keys that have such a row, and the rows."""
        found = []
        keys, position = np.flatnonzero(self.sizes > 1), 1
        while len(keys):
            found.append((keys, self.order.take(self.firsts.take(keys) + position)))
            position += 1
            keys = keys.compress(self.sizes.take(keys) > position)
        return found

    def of_keys(self, wanted: Mask) -> "KeyRows":
        """Return the rows of some keys; `wanted` is a mask by key."""
        sizes = self.sizes.compress(wanted)
        return KeyRows(self.order.compress(wanted.repeat(self.sizes)), np.cumsum(sizes) - sizes)

    def has(self, wanted: Mask) -> Mask:
        """Return the mask of the keys with a wanted row; `wanted` is a mask by row."""
        return wanted.take(self.newest_where(wanted))

    def newest_where(self, wanted: Mask) -> Order:
        """Return the newest wanted row of each key, or its newest row if none is wanted."""
        return self._walk(wanted, self.newest, self.lasts, -1)

    def oldest_where(self, wanted: Mask) -> Order:
        """Return the oldest wanted row of each key, or its oldest row if none is wanted."""
        return self._walk(wanted, self.oldest, self.firsts, 1)

    def _walk(self, wanted: Mask, rows: Order, places: Order, step: int) -> Order:
        """Search from the rows at `places` for a wanted row. Few keys are left after the first step, usually."""
        keys = np.flatnonzero(~wanted.take(rows))
        if not len(keys):
            return rows
        found, places = rows.copy(), places.take(keys)
        ends = (self.firsts if step < 0 else self.lasts).take(keys)
        while len(keys):
            more = places != ends
            keys, places, ends = keys.compress(more), places.compress(more) + step, ends.compress(more)
            here = self.order.take(places)
            hit = wanted.take(here)
            found[keys.compress(hit)] = here.compress(hit)
            missed = ~hit
            keys, places, ends = keys.compress(missed), places.compress(missed), ends.compress(missed)
        return found


def finish(
    rows: pa.RecordBatch, results: Mapping[str, Result], newest: Order, output: Sequence[str], kinds: Kinds | None
) -> pa.RecordBatch:
    """Return the merged rows from results and `kinds` by key. Columns without a result are those of the newest row."""
    if not output:
        return no_columns(len(newest))
    pool = block_memory_pool()
    # Most columns have the same row numbers.
    numbers_of: dict[int, Numbers] = {}
    columns: list[Column] = []
    for name in output:
        result = results.get(name)
        if name == VALUE_KIND:
            columns.append(from_numpy(np.zeros(len(newest), np.int8) if kinds is None else kinds))
            continue
        if result is not None and not isinstance(result, PickedRows):
            columns.append(result)
            continue
        picked = PickedRows(newest) if result is None else result
        numbers = numbers_of.get(id(picked.rows))
        if numbers is None:
            numbers = numbers_of[id(picked.rows)] = Numbers(picked.rows)
        columns.append(take_column(rows.column(name) if picked.column is None else picked.column, numbers, pool))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([rows.schema.field(n) for n in output]))


def assemble(
    rows: pa.RecordBatch,
    segments: Segments,
    kinds: Kinds | None,
    results: Mapping[str, Result],
    deleted: Mask | None,
    output: Sequence[str],
    *,
    drop_deletes: bool,
) -> tuple[pa.RecordBatch, Kinds | None]:
    """Return the merged rows and their kinds: results by slot for keys with several rows, the row itself for others.

    `deleted` is the mask of the removed slots. Columns without a result are those of the newest row.
    """
    kind_of = _kinds(rows, segments, kinds, deleted, output)
    by_key = {name: segments.by_keys(result, rows.column(name)) for name, result in results.items()}
    newest = segments.newest
    if drop_deletes and kind_of is not None and (kind_of & 1).any():
        kept = (kind_of & 1) == 0
        kind_of, newest = kind_of.compress(kept), newest.compress(kept)
        by_key = {name: PickedRows(picked.rows.compress(kept), picked.column) for name, picked in by_key.items()}
    return finish(rows, by_key, newest, output, kind_of), kind_of


def _kinds(
    rows: pa.RecordBatch, segments: Segments, kinds: Kinds | None, deleted: Mask | None, output: Sequence[str]
) -> Kinds | None:
    """Return the row kind of each key in key order; None if no row deletes and the output has no kinds."""
    if kinds is None and deleted is None:
        if VALUE_KIND not in output:
            return None
        kinds = to_numpy(rows.column(VALUE_KIND))
    of_rows: Kinds = np.zeros(len(segments.newest), np.int8) if kinds is None else kinds[segments.newest]
    of_slots = np.zeros(len(segments), np.int8)
    if deleted is not None:
        of_slots[deleted] = _DELETE
    of_rows[~segments.single] = of_slots[segments.by_key]
    return of_rows


def kinds_of_adds(rows: pa.RecordBatch, keys: KeyRows, output: Sequence[str]) -> Kinds | None:
    """Return the row kinds of keys without retractions, if the output has them: a single row keeps its own kind."""
    if VALUE_KIND not in output:
        return None
    own: Kinds = to_numpy(rows.column(VALUE_KIND))
    return np.where(keys.sizes == 1, own[keys.newest], np.int8(0))


def merge_apart(
    groups: KeyGroups,
    output: Sequence[str],
    adding: Callable[[KeyGroups, Sequence[str]], pa.RecordBatch | None],
    other: Callable[[KeyGroups, Sequence[str], bool], tuple[pa.RecordBatch, Kinds | None]],
    *,
    drop_deletes: bool,
) -> pa.RecordBatch:
    """Merge keys without retractions by `adding`, which is faster but may return None, and other keys by `other`.

    The last argument of `other` is whether to leave out deleted keys.
    """
    whole = adding(groups, output) if groups.kinds is None else None
    if whole is not None:
        return whole
    if groups.kinds is None or not len(groups.order):
        return other(groups, output, drop_deletes)[0]
    keys = KeyRows.of(groups)
    retracted = keys.has((groups.kinds & 1).astype(np.bool_))
    if np.count_nonzero(retracted) * 2 > len(keys):
        return other(groups, output, drop_deletes)[0]
    rows = retracted.repeat(keys.sizes)
    added = adding(_subset(groups, ~rows, None), output)
    if added is None:
        return other(groups, output, drop_deletes)[0]
    rest, kinds = other(_subset(groups, rows, groups.kinds), output, False)
    places = np.empty(len(keys), np.int64)
    places[~retracted] = np.arange(added.num_rows)
    places[retracted] = added.num_rows + np.arange(rest.num_rows)
    if drop_deletes and kinds is not None:
        kept = ~retracted
        kept[retracted] = (kinds & 1) == 0
        places = places.compress(kept)
    joined: pa.RecordBatch = pa.concat_batches([added, rest], block_memory_pool())  # type: ignore[attr-defined]  # The stubs lack it.
    return take_rows(joined, output, places)


def _subset(groups: KeyGroups, wanted: Mask, kinds: Kinds | None) -> KeyGroups:
    """Return whole keys of the groups; `wanted` is a mask by row, in order."""
    return replace(groups, order=groups.order.compress(wanted), starts=groups.starts.compress(wanted), kinds=kinds)
