"""The merge engine `aggregation`, and both engines with functions of columns (`aggregation`, `partial-update`) by the
options of a table.

Source: documentation page `primary-key-table/merge-engine/aggregation`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.types.data_type import is_atomic
from interbed.storage.lsm.merge_function.api import KeyGroups, Kinds, is_retract, single_rows
from interbed.storage.lsm.merge_function.fields.fold import ColumnFold
from interbed.storage.lsm.merge_function.fields.functions import (
    LAST_NON_NULL_VALUE,
    LAST_VALUE,
    FieldFunction,
    chosen_function,
    field_function,
)
from interbed.storage.lsm.merge_function.partial_update import PartialUpdate, SequenceGroup
from interbed.storage.lsm.merge_function.segments import KeyRows, Segments, assemble, finish, kinds_of_adds, merge_apart
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.lsm import MergeEngine
from interbed.storage.meta.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateMerge:
    """Aggregates the values of each key, oldest first; rows of kind -U and -D are retracted.

    `functions` has the columns outside of the primary key. With `remove_on_delete` a -D row removes the row of the key,
    and later rows continue from its values. With `merges_alone` keys with a single row are merged, too: a retraction
    becomes the result of retracting it from nothing.
    """

    functions: Mapping[str, FieldFunction]
    remove_on_delete: bool
    drop_deletes: bool
    merges_alone: bool = False

    def columns(self, output: Sequence[str]) -> tuple[str, ...]:
        """Return the output columns only."""
        return tuple(output)

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        return merge_apart(groups, output, self._merge_adds, self._merge_in_order, drop_deletes=self.drop_deletes)

    def _merge_adds(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        """Return the aggregated rows of keys without retractions."""
        rows, keys = groups.rows, KeyRows.of(groups)
        names = [name for name in output if name in self.functions]
        reduced = {name: self.functions[name].fold(rows.column(name), 0).reduce(keys) for name in names}
        by_key = {name: result for name, result in reduced.items() if result is not None}
        slow = [name for name in names if name not in by_key]
        if slow:
            segments = Segments.of(groups, alone=self.merges_alone)
            folds = {name: self.functions[name].fold(rows.column(name), len(segments)) for name in slow}
            for active, numbers in segments.rounds():
                for fold in folds.values():
                    fold.add(slice(0, active), numbers)
            by_key |= {name: segments.by_keys(fold.result(), rows.column(name)) for name, fold in folds.items()}
        return finish(rows, by_key, keys.newest, output, kinds_of_adds(rows, keys, output))

    def _merge_in_order(
        self, groups: KeyGroups, output: Sequence[str], drop_deletes: bool
    ) -> tuple[pa.RecordBatch, Kinds | None]:
        """Return the aggregated rows and their kinds, for rows of all kinds."""
        segments = Segments.of(groups, alone=self.merges_alone)
        kinds = np.zeros(groups.rows.num_rows, np.int8) if groups.kinds is None else groups.kinds
        names = [name for name in output if name in self.functions]
        folds = {name: self.functions[name].fold(groups.rows.column(name), len(segments)) for name in names}
        deleted = self._fold(segments, kinds, folds)
        results = {name: fold.result() for name, fold in folds.items()}
        return assemble(groups.rows, segments, kinds, results, deleted, output, drop_deletes=drop_deletes)

    def merge_single(self, rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str]) -> pa.RecordBatch:
        """Return the rows, with `drop_deletes` without deletes."""
        return single_rows(rows, kinds, output, drop_deletes=self.drop_deletes)

    def _fold(self, segments: Segments, kinds: Kinds, folds: Mapping[str, ColumnFold]) -> Mask:
        """Aggregate all rows; return the mask of the slots that end with a removing -D row."""
        deleted = np.zeros(len(segments), np.bool_)
        for active, rows in segments.rounds():
            kind = kinds[rows]
            removes = (kind == RowKind.DELETE) if self.remove_on_delete else np.zeros(active, np.bool_)
            deleted[:active] = removes
            retracts = is_retract(kind) & ~removes
            slots_added, slots_removed, slots_retracted = (
                np.flatnonzero(~is_retract(kind)),
                np.flatnonzero(removes),
                np.flatnonzero(retracts),
            )
            for fold in folds.values():
                if len(slots_added):
                    fold.add(slots_added, rows[slots_added])
                if len(slots_removed):
                    fold.put(slots_removed, rows[slots_removed])
                if len(slots_retracted):
                    fold.retract_unless_ignored(slots_retracted, rows[slots_retracted])
        return deleted


_GROUP_PREFIX, _GROUP_SUFFIX = "fields.", ".sequence-group"


def aggregation(schema: TableSchema, options: CoreOptions, *, drop_deletes: bool, merges_alone: bool) -> AggregateMerge:
    """Return the engine `aggregation`; raises InvalidOptionError, and NotSupportedError for unknown functions."""
    functions: dict[str, FieldFunction] = {}
    for field in schema.fields:
        if field.name in options.sequence_fields:
            functions[field.name] = field_function(field, LAST_VALUE, options)
        elif field.name not in schema.primary_keys:
            name = chosen_function(field.name, options) or LAST_NON_NULL_VALUE
            functions[field.name] = field_function(field, name, options)
    return AggregateMerge(
        functions=functions,
        remove_on_delete=options.boolean("aggregation.remove-record-on-delete", False),
        drop_deletes=drop_deletes,
        merges_alone=merges_alone,
    )


def partial_update(
    schema: TableSchema, options: CoreOptions, *, drop_deletes: bool, merges_alone: bool
) -> PartialUpdate:
    """Return the engine `partial-update`; raises the same errors as `aggregation`."""
    groups = _sequence_groups(schema, options)
    sequences = {name for group in groups for name in group.sequence}
    follow = {name for group in groups for name in group.columns}
    functions: dict[str, FieldFunction] = {}
    for field in schema.fields:
        name = chosen_function(field.name, options)
        if field.name in sequences or field.name in schema.primary_keys or name is None:
            continue
        if name != LAST_NON_NULL_VALUE and field.name not in follow:
            raise InvalidOptionError(
                f"The column {field.name!r} has the aggregate function '{name}'; with 'merge-engine' = "
                f"'{MergeEngine.PARTIAL_UPDATE}' it has to be in a sequence group for that."
            )
        function = field_function(field, name, options)
        if field.name in follow:
            functions[field.name] = function
    remove = options.boolean("partial-update.remove-record-on-delete", False)
    by_group = options.text("partial-update.remove-record-on-sequence-group", "")
    for option in ("partial-update.remove-record-on-delete", "partial-update.remove-record-on-sequence-group"):
        if options.ignore_delete and (remove if option.endswith("delete") else by_group):
            raise InvalidOptionError(f"Options 'ignore-delete' and '{option}' contradict each other; set one of them.")
    if remove and groups:
        raise InvalidOptionError(
            "Option 'partial-update.remove-record-on-delete' can't be combined with sequence groups; use "
            "'partial-update.remove-record-on-sequence-group'."
        )
    return PartialUpdate(
        values=tuple(n for n in schema.names if n not in schema.primary_keys),
        groups=groups,
        functions=functions,
        ignore_delete=options.ignore_delete,
        remove_on_delete=remove,
        drop_deletes=drop_deletes,
        merges_alone=merges_alone,
    )


def _sequence_groups(schema: TableSchema, options: CoreOptions) -> tuple[SequenceGroup, ...]:
    removing = options.names("partial-update.remove-record-on-sequence-group")
    groups: list[SequenceGroup] = []
    grouped: dict[str, str] = {}
    for key, value in options.raw.items():
        if not (key.startswith(_GROUP_PREFIX) and key.endswith(_GROUP_SUFFIX)):
            continue
        sequence = tuple(n.strip() for n in key[len(_GROUP_PREFIX) : -len(_GROUP_SUFFIX)].split(","))
        columns = tuple(n.strip() for n in value.split(","))
        for name in dict.fromkeys((*columns, *sequence)):
            if name not in schema.by_name:
                raise InvalidOptionError(f"Option '{key}' names the column {name!r}, which the table lacks.")
            if name in schema.primary_keys:
                raise InvalidOptionError(f"Option '{key}' names the column {name!r}, which is part of the primary key.")
            if name in grouped:
                raise InvalidOptionError(f"The column {name!r} is in two sequence groups: '{grouped[name]}', '{key}'.")
            grouped[name] = key
        for name in sequence:
            if not is_atomic(schema.by_name[name].type):
                raise InvalidOptionError(f"Option '{key}' orders by {name!r}, whose nested type has no order.")
        groups.append(
            SequenceGroup(
                sequence=sequence,
                columns=tuple(n for n in columns if n not in sequence),
                removes=not set(removing).isdisjoint(sequence),
            )
        )
    sequences = {name for group in groups for name in group.sequence}
    for name in removing:
        if name not in sequences:
            raise InvalidOptionError(
                f"Option 'partial-update.remove-record-on-sequence-group' names {name!r}, which is the sequence column "
                "of no group."
            )
    return tuple(groups)
