"""Sequence groups of the merge engine `partial-update`, where no row of a block takes back.

A record with a sequence that is not less than all before it is newer, one with a lesser sequence is late, and one
without sequence (all its columns null) counts for nothing. Plain columns and the sequence itself are those of the
newest record. Functions take newer records in their order; late ones go before all others, the latest first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Ints, Mask
from interbed.storage.lsm.key_words import Order, row_ranks
from interbed.storage.lsm.merge_function.api import block_memory_pool
from interbed.storage.lsm.merge_function.fields.fold import Late
from interbed.storage.lsm.merge_function.fields.functions import FieldFunction
from interbed.storage.lsm.merge_function.segments import Column, KeyRows, Picked, Result
from interbed.storage.lsm.merge_function.take import validity


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceGroup:
    """Columns that follow a sequence: `sequence` are those that order, `columns` those that follow them.

    With `removes` a -D record that is not older than the group removes the row.
    """

    sequence: tuple[str, ...]
    columns: tuple[str, ...]
    removes: bool


def sequence_ranks(columns: Sequence[Column]) -> tuple[Ints, Mask]:
    """A number for each row that orders as its sequence does, and which rows have a sequence."""
    rows = len(columns[0])
    present: Mask = np.zeros(rows, np.bool_)
    for column in columns:
        valid = validity(column)
        present |= True if valid is None else valid
    if not rows:
        return np.zeros(0, np.int64), present
    ranks = row_ranks(columns)
    # The least number stands for no sequence at all.
    words = ranks.values ^ np.uint64(1 << 63) if ranks.bits == 64 else ranks.values
    return words.view(np.int64), present


def reduce_group(
    group: SequenceGroup,
    functions: Mapping[str, FieldFunction],
    rows: pa.RecordBatch,
    keys: KeyRows,
    output: Sequence[str],
    *,
    alone: bool,
) -> "Mapping[str, Result] | None":
    """The results by key of the group's columns that are in the output; None when a function can't be reduced.

    Keys with one row keep it as it is, unless `alone` says that they are merged, too.
    """
    ranks, present = sequence_ranks([rows.column(name) for name in group.sequence])
    there = _Present.of(keys, present, alone=alone)
    newer = _newer(there.keys, ranks)
    winners = np.empty(len(there.keys), np.int64)
    places = np.flatnonzero(newer)
    # Of several rows of a key the one assigned last stays.
    winners[there.keys.keys.take(places)] = there.keys.order.take(places)
    plain = there.spread_rows(winners)
    late_first: KeyRows | None = None
    results: dict[str, Result] = {}
    for name in output:
        if name in group.sequence or (name in group.columns and (name not in functions or not len(there.keys))):
            results[name] = plain
        elif name in group.columns:
            fold = functions[name].fold(rows.column(name), 0)
            if fold.late is Late.BY_ROUND:
                return None
            if fold.late is Late.BEFORE and late_first is None:
                late_first = _late_first(there.keys, newer)
            reduced = fold.reduce(late_first if fold.late is Late.BEFORE and late_first is not None else there.keys)
            if reduced is None:
                return None
            results[name] = there.spread(reduced, rows.column(name))
    return results


@dataclass(frozen=True, slots=True)
class _Present:
    """The keys that have rows with a sequence, and those rows; `which` of `all_keys` they are, None for all."""

    keys: KeyRows
    which: Order | None
    all_keys: KeyRows
    alone: bool

    @staticmethod
    def of(keys: KeyRows, present: Mask, *, alone: bool) -> "_Present":
        there = present.take(keys.order)
        if there.all():
            return _Present(keys, None, keys, alone)
        sizes = np.bincount(keys.keys.compress(there), minlength=len(keys))
        which = np.flatnonzero(sizes)
        sizes = sizes.take(which)
        return _Present(KeyRows(keys.order.compress(there), np.cumsum(sizes) - sizes), which, keys, alone)

    def spread_rows(self, numbers: Order) -> Picked:
        """Numbers of rows by key of `keys` as numbers by key of all: -1 where a key has no row with a sequence."""
        if self.which is None:
            return Picked(numbers)
        spread = np.full(len(self.all_keys), -1, np.int64)
        spread[self.which] = numbers
        if not self.alone:
            only = self.all_keys.sizes == 1
            spread[only] = self.all_keys.newest[only]
        return Picked(spread)

    def spread(self, result: Result, column: Column) -> Result:
        """The same for any result of the column."""
        if isinstance(result, Picked):
            return self.spread_rows(result.rows)
        if self.which is None:
            return result
        joined: Any = pa.concat_arrays([column, result], memory_pool=block_memory_pool())
        return Picked(self.spread_rows(len(column) + np.arange(len(result))).rows, joined)


def _newer(keys: KeyRows, ranks: Ints) -> Mask:
    """Which rows, in order, have a sequence not less than those before them of their key."""
    if not len(keys):
        return np.zeros(0, np.bool_)
    ordered = ranks.take(keys.order)
    lowest, highest = int(ordered.min()), int(ordered.max())
    bits = (highest - lowest).bit_length()
    if bits + len(keys).bit_length() > 63:
        ordered, lowest = np.unique(ordered, return_inverse=True)[1], 0
        bits = len(ordered).bit_length()
    # The key's number in the high bits makes the running maximum begin anew with each key.
    mixed = (keys.keys << bits) | (ordered - lowest)
    newer: Mask = mixed == np.maximum.accumulate(mixed)
    return newer


def _late_first(keys: KeyRows, newer: Mask) -> KeyRows:
    """The rows with each key's late ones before its newer ones, the latest first."""
    if newer.all():
        return keys
    passed: Order = np.cumsum(newer) - newer
    newer_before: Order = passed - passed.take(keys.firsts).repeat(keys.sizes)
    places = np.arange(len(newer)) - np.repeat(keys.firsts, keys.sizes)
    late_before = places - newer_before
    lates = (late_before + ~newer).take(keys.lasts).repeat(keys.sizes)
    to = np.where(newer, lates + newer_before, lates - 1 - late_before) + np.repeat(keys.firsts, keys.sizes)
    order = np.empty_like(keys.order)
    order[to] = keys.order
    return KeyRows(order, keys.firsts)
