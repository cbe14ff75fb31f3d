"""Deletions that remove the row of a key, on their way to a file of level 0.

With `partial-update.remove-record-on-delete`, `partial-update.remove-record-on-sequence-group` and
`aggregation.remove-record-on-delete` a -D row removes what its key was before, and the rows after it begin a new row.
A merge of both has kind +I and no longer removes anything, so that the values of an older row would come back with it.
A flush therefore writes what a key was up to its last -D row to a file of its own, and the rows after that to another
one. Compactions merge such files with all older ones only (`lsm/compact/strategy.py`).

Merge functions begin the new row with the values of the -D row. It is written without them, for the same reason. And
partial update does nothing with -U rows but to begin a row with one, so that they are left out. Source: documentation
page `primary-key-table/merge-engine/partial-update`; Paimon's PartialUpdateMergeFunction, AggregateMergeFunction.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.base.row.kind import RowKind
from interbed.storage.lsm.merge_function.api import KeyGroups, Kinds, MergeFunction
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalRules:
    """What a flush does in a table whose -D rows remove rows.

    -D rows lose their values in the columns `cleared`. `skips_updates_before` leaves out -U rows.
    """

    cleared: frozenset[str]
    skips_updates_before: bool

    @staticmethod
    def of(schema: TableSchema, options: CoreOptions, function: MergeFunction) -> "RemovalRules | None":
        """The rules of a table; None where -D rows remove nothing but what they are merged with."""
        if not options.deletes_remove_rows:
            return None
        from interbed.storage.lsm.merge_function.aggregate import AggregateMerge
        from interbed.storage.lsm.merge_function.partial_update import PartialUpdate

        kept = {*schema.primary_keys, *options.sequence_fields, options.rowkind_field}
        if isinstance(function, PartialUpdate):
            # A -D row that comes late for the group that removes takes the columns of the others back.
            kept |= {name for group in function.groups for name in group.sequence} | set(function.functions)
        elif not isinstance(function, AggregateMerge):
            return None
        return RemovalRules(
            cleared=frozenset(f.name for f in schema.fields if f.type.nullable and f.name not in kept),
            skips_updates_before=isinstance(function, PartialUpdate) and not function.groups,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalSplit:
    """A merge function that merges the rows of a key up to its last -D row apart from those after it.

    The former go to `emit_removals` where there are rows after them.
    """

    inner: MergeFunction
    rules: RemovalRules
    emit_removals: Callable[[pa.RecordBatch], None]

    def columns(self, output: Sequence[str]) -> tuple[str, ...]:
        """See MergeFunction."""
        return self.inner.columns(output)

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        """See MergeFunction."""
        if groups.kinds is None or not len(groups.order):
            return self.inner.merge(groups, output)
        if self.rules.skips_updates_before:
            groups = _only(groups, groups.kinds[groups.order] != RowKind.UPDATE_BEFORE)
        kinds = groups.kinds
        assert kinds is not None
        groups = replace(groups, rows=self._cleared(groups.rows, kinds))
        deletes = kinds[groups.order] == RowKind.DELETE
        if not deletes.any():
            return self.inner.merge(groups, output)
        before = _up_to_last(deletes, np.flatnonzero(groups.starts))
        # The last row of a key is a -D row itself unless something comes after.
        continued = _key_has(~before, groups.starts)
        removals = before & continued
        if not removals.any():
            return self.inner.merge(groups, output)
        self.emit_removals(self.inner.merge(_only(groups, removals), output))
        return self.inner.merge(_only(groups, ~removals), output)

    def merge_single(self, rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str]) -> pa.RecordBatch:
        """See MergeFunction."""
        if kinds is not None:
            rows = self._cleared(rows, kinds)
            if self.rules.skips_updates_before:
                wanted = kinds != RowKind.UPDATE_BEFORE
                if not wanted.all():
                    rows, kinds = rows.filter(from_numpy(wanted)), kinds[wanted]
        return self.inner.merge_single(rows, kinds, output)

    def _cleared(self, rows: pa.RecordBatch, kinds: Kinds) -> pa.RecordBatch:
        deletes = kinds == RowKind.DELETE
        if not deletes.any():
            return rows
        chosen: Any = from_numpy(deletes)
        columns = [
            pc.if_else(chosen, pa.scalar(None, field.type), column) if field.name in self.rules.cleared else column
            for field, column in zip(rows.schema, rows.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _up_to_last(wanted: Mask, firsts: "np.ndarray[Any, np.dtype[np.int64]]") -> Mask:
    """Which rows come at or before the last wanted one of their key; all arguments are in order of key and newness."""
    places = np.arange(len(wanted))
    lasts = np.maximum.reduceat(np.where(wanted, places, -1), firsts)
    sizes = np.diff(firsts, append=len(wanted))
    up_to: Mask = places <= np.repeat(lasts, sizes)
    return up_to


def _key_has(wanted: Mask, starts: Mask) -> Mask:
    """Which rows are of a key that has a wanted row."""
    firsts = np.flatnonzero(starts)
    has = np.logical_or.reduceat(wanted, firsts)
    of_rows: Mask = np.repeat(has, np.diff(firsts, append=len(wanted)))
    return of_rows


def _only(groups: KeyGroups, wanted: Mask) -> KeyGroups:
    """The wanted rows, by place in the order, of each key; keys without any are left out."""
    if wanted.all():
        return groups
    keys = np.cumsum(groups.starts).compress(wanted)
    starts = np.ones(len(keys), np.bool_)
    starts[1:] = keys[1:] != keys[:-1]
    return replace(groups, order=groups.order.compress(wanted), starts=starts)
