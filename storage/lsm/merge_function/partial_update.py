"""The merge engine `partial-update`: the row of a key is assembled from the values of its records.

Without sequence groups each column has its newest value that is not null. A sequence group is a set of columns with
their own sequence columns: they take the values, nulls included, of the record with the greatest sequence, and records
without a sequence do not change them. Columns of a group may have an aggregate function. Source: documentation page
`primary-key-table/merge-engine/partial-update`.

A record whose sequence is not less than all before it is newer, one with a smaller sequence is late, and one without a
sequence (all its columns null) is ignored. Plain columns and the sequence itself are those of the newest record.
Functions take newer records in their order; late ones come before all others, the latest first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Ints, Mask
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.row.kind import RowKind
from interbed.storage.lsm.key_words import Order, row_ranks
from interbed.storage.lsm.merge_function.api import (
    KeyGroups,
    Kinds,
    block_memory_pool,
    is_retract,
    single_rows,
    validity,
)
from interbed.storage.lsm.merge_function.fields.fold import ColumnFold, LastNonNullValue, LastValue, LateRows
from interbed.storage.lsm.merge_function.fields.functions import FieldFunction
from interbed.storage.lsm.merge_function.segments import (
    Column,
    KeyRows,
    PickedRows,
    Result,
    Segments,
    assemble,
    finish,
    kinds_of_adds,
    merge_apart,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceGroup:
    """Columns that follow a sequence: `sequence` are the columns that order, `columns` those that follow them.

    With `removes` a -D record that is not older than the group removes the row.
    """

    sequence: tuple[str, ...]
    columns: tuple[str, ...]
    removes: bool


def sequence_ranks(columns: Sequence[Column]) -> tuple[Ints, Mask]:
    """Return the rank of the sequence of each row, and the mask of the rows that have a sequence."""
    rows = len(columns[0])
    present: Mask = np.zeros(rows, np.bool_)
    for column in columns:
        valid = validity(column)
        present |= True if valid is None else valid
    if not rows:
        return np.zeros(0, np.int64), present
    ranks = row_ranks(columns)
    # The smallest number is reserved for rows without a sequence.
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
    """Return the results by key of the group's columns in the output; None if a function cannot reduce.

    Keys with one row keep it unchanged, unless `alone` is set.
    """
    ranks, present = sequence_ranks([rows.column(name) for name in group.sequence])
    sequenced = _SequencedKeys.of(keys, present, alone=alone)
    newer = _newer(sequenced.keys, ranks)
    winners = np.empty(len(sequenced.keys), np.int64)
    places = np.flatnonzero(newer)
    # If a key has several rows, the last assignment wins.
    winners[sequenced.keys.keys.take(places)] = sequenced.keys.order.take(places)
    plain = sequenced.spread_rows(winners)
    late_first: KeyRows | None = None
    results: dict[str, Result] = {}
    for name in output:
        if name in group.sequence or (name in group.columns and (name not in functions or not len(sequenced.keys))):
            results[name] = plain
        elif name in group.columns:
            fold = functions[name].fold(rows.column(name), 0)
            if fold.late is LateRows.BY_ROUND:
                return None
            if fold.late is LateRows.BEFORE and late_first is None:
                late_first = _late_first(sequenced.keys, newer)
            reduced = fold.reduce(
                late_first if fold.late is LateRows.BEFORE and late_first is not None else sequenced.keys
            )
            if reduced is None:
                return None
            results[name] = sequenced.spread(reduced, rows.column(name))
    return results


@dataclass(frozen=True, slots=True)
class _SequencedKeys:
    """Keys that have rows with a sequence, and these rows; `which` are their numbers in `all_keys`, None for all."""

    keys: KeyRows
    which: Order | None
    all_keys: KeyRows
    alone: bool

    @staticmethod
    def of(keys: KeyRows, present: Mask, *, alone: bool) -> "_SequencedKeys":
        has_sequence = present.take(keys.order)
        if has_sequence.all():
            return _SequencedKeys(keys, None, keys, alone)
        sizes = np.bincount(keys.keys.compress(has_sequence), minlength=len(keys))
        which = np.flatnonzero(sizes)
        sizes = sizes.take(which)
        return _SequencedKeys(KeyRows(keys.order.compress(has_sequence), np.cumsum(sizes) - sizes), which, keys, alone)

    def spread_rows(self, numbers: Order) -> PickedRows:
        """Return row numbers by key of `keys` as numbers by key of all; -1 for keys without a sequence."""
        if self.which is None:
            return PickedRows(numbers)
        spread = np.full(len(self.all_keys), -1, np.int64)
        spread[self.which] = numbers
        if not self.alone:
            only = self.all_keys.sizes == 1
            spread[only] = self.all_keys.newest[only]
        return PickedRows(spread)

    def spread(self, result: Result, column: Column) -> Result:
        """Return a result of the column by key of `keys` as a result by key of all."""
        if isinstance(result, PickedRows):
            return self.spread_rows(result.rows)
        if self.which is None:
            return result
        joined: Any = pa.concat_arrays([column, result], memory_pool=block_memory_pool())
        return PickedRows(self.spread_rows(len(column) + np.arange(len(result))).rows, joined)


def _newer(keys: KeyRows, ranks: Ints) -> Mask:
    """Return the mask of the rows, in order, whose sequence is not less than those before it in the key."""
    if not len(keys):
        return np.zeros(0, np.bool_)
    ordered = ranks.take(keys.order)
    lowest, highest = int(ordered.min()), int(ordered.max())
    bits = (highest - lowest).bit_length()
    if bits + len(keys).bit_length() > 63:
        ordered, lowest = np.unique(ordered, return_inverse=True)[1], 0
        bits = len(ordered).bit_length()
    # The number of the key in the high bits restarts the running maximum with each key.
    mixed = (keys.keys << bits) | (ordered - lowest)
    newer: Mask = mixed == np.maximum.accumulate(mixed)
    return newer


def _late_first(keys: KeyRows, newer: Mask) -> KeyRows:
    """Return the rows with the late ones of each key before its newer ones, the latest first."""
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


REFUSAL = (
    "Tables with 'merge-engine' = 'partial-update' take no -U and -D rows, unless an option says what they mean: "
    "'ignore-delete' leaves them out, 'partial-update.remove-record-on-delete' removes the row, a sequence group takes "
    "its columns back, and 'partial-update.remove-record-on-sequence-group' removes the row by a group."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialUpdate:
    """The merge engine (see the module). `values` are the columns outside of the primary key.

    `functions` are by column. With `merges_alone` keys with a single row are merged, too.
    """

    values: tuple[str, ...]
    groups: tuple[SequenceGroup, ...]
    functions: Mapping[str, FieldFunction]
    ignore_delete: bool
    remove_on_delete: bool
    drop_deletes: bool
    merges_alone: bool = False

    def columns(self, output: Sequence[str]) -> tuple[str, ...]:
        """Return the output, and the sequence columns of its groups and of groups that remove rows."""
        sequences = [name for group in self._groups(output) for name in group.sequence]
        return tuple(dict.fromkeys((*output, *sequences)))

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        return merge_apart(groups, output, self._merge_adds, self._merge_in_order, drop_deletes=self.drop_deletes)

    def _merge_adds(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch | None:
        """Return the rows of keys without retractions; None if a function cannot reduce."""
        keys = KeyRows.of(groups)
        by_key = self._reduced(groups, keys, output)
        if by_key is None:
            return None
        return finish(groups.rows, by_key, keys.newest, output, kinds_of_adds(groups.rows, keys, output))

    def _merge_in_order(
        self, groups: KeyGroups, output: Sequence[str], drop_deletes: bool
    ) -> tuple[pa.RecordBatch, Kinds | None]:
        """Return the rows and their kinds, for records of all kinds."""
        segments = Segments.of(groups, alone=self.merges_alone)
        names = [name for name in output if name in self.values]
        if self.groups:
            results, deleted = _Update(self, groups, segments, names).run()
        else:
            results, deleted = self._newest(groups, segments, names)
        return assemble(groups.rows, segments, groups.kinds, results, deleted, output, drop_deletes=drop_deletes)

    def merge_single(self, rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str]) -> pa.RecordBatch:
        """Return the rows, with `drop_deletes` without deletes."""
        return single_rows(rows, kinds, output, drop_deletes=self.drop_deletes)

    def _groups(self, output: Sequence[str]) -> list[SequenceGroup]:
        return [g for g in self.groups if g.removes or not {*g.sequence, *g.columns}.isdisjoint(output)]

    def _reduced(self, groups: KeyGroups, keys: KeyRows, output: Sequence[str]) -> "Mapping[str, Result] | None":
        """Return the results by key without retractions; None if a function of a group cannot reduce."""
        rows = groups.rows
        results: dict[str, Result] = {}
        grouped: set[str] = set()
        for group in self._groups(output):
            reduced = reduce_group(group, self.functions, rows, keys, output, alone=self.merges_alone)
            if reduced is None:
                return None
            results |= reduced
            grouped |= {*group.sequence, *group.columns}
        for name in output:
            if name in self.values and name not in grouped:
                results[name] = LastNonNullValue(rows.column(name), 0, name).reduce(keys)
        return results

    def _newest(
        self, groups: KeyGroups, segments: Segments, names: Sequence[str]
    ) -> tuple[Mapping[str, PickedRows], Mask | None]:
        """Return the newest values that are not null, for tables without sequence groups."""
        order, starts = segments.joined, segments.starts
        counted: Mask | None = None
        deleted: Mask | None = None
        if groups.kinds is not None and len(segments):
            kinds = groups.kinds[order]
            counted, deleted = self._without_retracts(kinds, starts, segments.sizes)
        results = {}
        for name in names:
            wanted = validity(groups.rows.column(name))
            wanted = wanted[order] if wanted is not None else None
            if counted is not None:
                wanted = counted if wanted is None else wanted & counted
            results[name] = PickedRows(_last_of_each(order, starts, wanted))
        return results, deleted

    def _without_retracts(self, kinds: Kinds, starts: Order, sizes: Order) -> tuple[Mask, Mask]:
        """Return the mask of the rows that count, and the mask of the removed slots."""
        retracts = is_retract(kinds)
        if retracts.any() and not (self.ignore_delete or self.remove_on_delete):
            raise InvalidInputError(REFUSAL)
        places = np.arange(len(kinds))
        slots = np.repeat(np.arange(len(starts)), sizes)
        begin = starts.copy()
        ends_with_delete = np.zeros(len(starts), np.bool_)
        if self.remove_on_delete:
            deletes = np.maximum.reduceat(np.where(kinds == RowKind.DELETE, places, -1), starts)
            begin = np.maximum(deletes, starts)
            ends_with_delete = deletes == starts + sizes - 1
        # The first record begins the row even if it is a retraction, and so does a record that removes the row before.
        counted = (places == begin[slots]) | (~retracts & (places > begin[slots]))
        nothing_added = ~np.logical_or.reduceat(~retracts, starts)
        return counted, ends_with_delete | nothing_added


class _Update:
    """The merge of one block of keys with sequence groups, round by round."""

    def __init__(self, engine: PartialUpdate, groups: KeyGroups, segments: Segments, names: Sequence[str]) -> None:
        self._engine = engine
        self._segments = segments
        self._kinds = groups.kinds
        slots = len(segments)
        self._deleted = np.zeros(slots, np.bool_)
        self._added = np.zeros(slots, np.bool_)
        rows = groups.rows
        self._folds: dict[str, ColumnFold] = {}
        self._groups: list[_GroupState] = []
        grouped: set[str] = set()
        for group in engine._groups(names):
            state = _GroupState(group, [rows.column(n) for n in group.sequence], slots)
            for name in names:
                if name in group.sequence:
                    state.sequence.append(self._fold(name, LastValue(rows.column(name), slots, name)))
                elif name in group.columns and name not in engine.functions:
                    state.plain.append(self._fold(name, LastValue(rows.column(name), slots, name)))
                elif name in group.columns:
                    fold = engine.functions[name].fold(rows.column(name), slots)
                    state.aggregated.append(self._fold(name, fold))
            self._groups.append(state)
            grouped |= {*group.sequence, *group.columns}
        self._others = [self._fold(n, LastNonNullValue(rows.column(n), slots, n)) for n in names if n not in grouped]

    def _fold(self, name: str, fold: ColumnFold) -> ColumnFold:
        self._folds[name] = fold
        return fold

    def run(self) -> tuple[Mapping[str, "PickedRows | Column"], Mask | None]:
        """Return the results by column, and the mask of the removed slots."""
        if self._kinds is not None and not is_retract(self._kinds[self._segments.joined]).any():
            self._kinds = None
        for position, (active, rows) in enumerate(self._segments.rounds()):
            if self._kinds is None:
                self._add(np.arange(active), rows)
                continue
            retracts = is_retract(self._kinds[rows])
            added, retracted = np.flatnonzero(~retracts), np.flatnonzero(retracts)
            self._deleted[:active] = False
            if len(added):
                self._added[added] = True
                self._add(added, rows[added])
            if len(retracted):
                if position == 0:
                    for fold in self._folds.values():
                        fold.put(retracted, rows[retracted])
                    for state in self._groups:
                        state.follow(retracted, rows[retracted])
                if not self._engine.ignore_delete:
                    self._retract(retracted, rows[retracted])
        results = {name: fold.result() for name, fold in self._folds.items()}
        return results, None if self._kinds is None else self._deleted | ~self._added

    def _add(self, slots: Order, rows: Order) -> None:
        for fold in self._others:
            fold.add(slots, rows)
        for state in self._groups:
            newer, late = state.split(slots, rows)
            if len(newer):
                state.follow(slots[newer], rows[newer])
                for fold in (*state.sequence, *state.plain):
                    fold.put(slots[newer], rows[newer])
                for fold in state.aggregated:
                    fold.add(slots[newer], rows[newer])
            if len(late):
                for fold in state.aggregated:
                    fold.add_late(slots[late], rows[late])

    def _retract(self, slots: Order, rows: Order) -> None:
        assert self._kinds is not None
        removed = np.zeros(len(slots), np.bool_)
        deletes = self._kinds[rows] == RowKind.DELETE
        for state in self._groups:
            if state.group.removes:
                removed[state.split(slots, rows)[0]] = True
        removed &= deletes
        removed_rows = np.flatnonzero(removed)
        if len(removed_rows):
            self._deleted[slots[removed_rows]] = True
            for fold in self._folds.values():
                fold.put(slots[removed_rows], rows[removed_rows])
            for state in self._groups:
                state.follow(slots[removed_rows], rows[removed_rows])
            slots, rows = slots[~removed], rows[~removed]
        for state in self._groups:
            newer, late = state.split(slots, rows)
            if len(newer):
                state.follow(slots[newer], rows[newer])
                for fold in state.sequence:
                    fold.put(slots[newer], rows[newer])
                for fold in state.plain:
                    fold.clear(slots[newer])
            both = np.concatenate((newer, late))
            if len(both):
                for fold in state.aggregated:
                    fold.retract_unless_ignored(slots[both], rows[both])


class _GroupState:
    """The greatest sequence of one group that each slot has reached."""

    def __init__(self, group: SequenceGroup, columns: Sequence[Column], slots: int) -> None:
        self.group = group
        self.sequence: list[ColumnFold] = []
        self.plain: list[ColumnFold] = []
        self.aggregated: list[ColumnFold] = []
        self._ranks, self._present = sequence_ranks(columns)
        self._reached = np.full(slots, np.iinfo(np.int64).min, np.int64)

    def split(self, slots: Order, rows: Order) -> tuple[Order, Order]:
        """Return the rows at or after the reached sequence, and those before it. Rows without one are left out."""
        present = self._present[rows]
        newer = self._ranks[rows] >= self._reached[slots]
        return np.flatnonzero(present & newer), np.flatnonzero(present & ~newer)

    def follow(self, slots: Order, rows: Order) -> None:
        """Record that the sequences of these rows are reached."""
        self._reached[slots] = self._ranks[rows]


def _last_of_each(order: Order, starts: Order, wanted: Mask | None) -> Order:
    """Return the number of the last wanted row of each slot, -1 without any; the arguments are those of Segments."""
    if not len(starts):
        return np.empty(0, np.int64)
    places = np.arange(len(order))
    if wanted is not None:
        places = np.where(wanted, places, -1)
    places = np.maximum.reduceat(places, starts)
    return np.where(places < 0, -1, order[places])
