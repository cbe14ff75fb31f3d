"""Rules of a table's merge function for the rows that are written to it.

Writers ask whether the table accepts retractions, which columns keep their old value where a row has null, and which
values of the row before a change are needed to retract it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from interbed.storage.lsm.merge_function.aggregate import AggregateMerge
from interbed.storage.lsm.merge_function.api import FIRST_ROW_REFUSAL, FirstRow
from interbed.storage.lsm.merge_function.factory import merge_function_for
from interbed.storage.lsm.merge_function.fields.fold import LastNonNullValue, LastValue
from interbed.storage.lsm.merge_function.fields.functions import FieldFunction
from interbed.storage.lsm.merge_function.partial_update import REFUSAL as PARTIAL_UPDATE_REFUSAL
from interbed.storage.lsm.merge_function.partial_update import PartialUpdate, SequenceGroup
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.lsm import MergeEngine
from interbed.storage.meta.schema.table_schema import TableSchema

_REPLACING = ("last_value", "last_non_null_value", "primary-key")
"""Functions whose result is the written value; a null may keep the old one."""


def retract_refusal(schema: TableSchema, options: CoreOptions) -> str | None:
    """Return the reason why the table refuses -U and -D rows; None if it accepts them.

    Without this check the error would occur only in a later merge, and then fail every read.
    """
    if not schema.has_primary_key or options.ignore_delete:
        return None
    function = merge_function_for(schema, options, drop_deletes=False, looked_up=False)
    if isinstance(function, FirstRow):
        return FIRST_ROW_REFUSAL
    if isinstance(function, PartialUpdate) and not function.groups and not function.remove_on_delete:
        return PARTIAL_UPDATE_REFUSAL
    if isinstance(function, PartialUpdate):
        accepting = (g.removes or not any(map(_refuses, _functions_of(function, g))) for g in function.groups)
        if any(accepting):
            # A row may retract one group only, with the sequences of the other groups null.
            return None
    if isinstance(function, PartialUpdate | AggregateMerge):
        refusals = (f.retract_refusal for f in function.functions.values())
        refusal = next((r for r in refusals if r is not None), None)
        # Rows of kind -U are retracted even if -D rows remove. That alone is no reason to refuse all of them.
        return None if isinstance(function, AggregateMerge) and function.remove_on_delete else refusal
    return None


def _functions_of(function: PartialUpdate, group: SequenceGroup) -> list[FieldFunction]:
    return [function.functions[name] for name in group.columns if name in function.functions]


def _refuses(function: FieldFunction) -> bool:
    return function.retract_refusal is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptColumn:
    """A column that keeps its value if a row has null. In a sequence group also all of `sequence` must be null.

    `others` are the columns of the group that follow its sequence. Both are empty outside of groups.
    """

    sequence: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def kept_columns(schema: TableSchema, options: CoreOptions, *, updated: bool = False) -> Mapping[str, KeptColumn]:
    """Return the columns that keep their values, by name; none if rows replace each other as a whole.

    With `updated` the written rows are rows of the table that a statement has changed. No default replaces their nulls.
    """
    if not schema.has_primary_key:
        return {}
    function = merge_function_for(schema, options, drop_deletes=False, looked_up=False)
    if not isinstance(function, PartialUpdate):
        return {}
    fixed = {*schema.primary_keys, *schema.partition_keys, *options.sequence_fields}
    groups = {
        name: KeptColumn(sequence=group.sequence, others=group.columns)
        for group in function.groups
        for name in (*group.sequence, *group.columns)
    }
    # In an inserted row a column with a default value gets it in place of null.
    names = [f.name for f in schema.fields if (updated or f.default_value is None) and f.name not in fixed]
    return {name: groups.get(name, KeptColumn()) for name in names}


def combined_columns(schema: TableSchema, options: CoreOptions) -> Mapping[str, str]:
    """Return the columns of a partial update whose function combines a written value with the old one: their functions'
    names.

    A row with the value that is in the table would add it again, as with `sum`, and a lower value would be dropped, as
    with `max`.
    """
    if not schema.has_primary_key or options.merge_engine is not MergeEngine.PARTIAL_UPDATE:
        return {}
    function = merge_function_for(schema, options, drop_deletes=False, looked_up=False)
    assert isinstance(function, PartialUpdate)
    return {n: f.name for n, f in function.functions.items() if f.name not in _REPLACING}


def overwriting_defaults(schema: TableSchema, options: CoreOptions) -> Sequence[str]:
    """Return the columns of a partial update in which a null does not keep the old value.

    The writer replaces a null by the column's default before rows are merged, as Paimon's TableWriteImpl does.
    """
    if not schema.has_primary_key or options.merge_engine is not MergeEngine.PARTIAL_UPDATE:
        return ()
    keys = {*schema.primary_keys, *schema.partition_keys}
    return [f.name for f in schema.fields if f.default_value is not None and f.name not in keys]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesBefore:
    """The columns whose old values a change needs. All are empty if rows replace each other without a sequence.

    Columns in `retracted` have a function that needs the old value, such as `sum`. Columns with last_non_null_value are
    in `cleared`: a retraction makes the value null, so that only an update to null needs the row before. `refused` are
    the functions that can't retract, with the reason. `sequence` orders rows, deletes included. `groups` are the
    sequences of sequence groups. `deletions_need_values` is false if a deletion removes the whole row.
    """

    retracted: frozenset[str] = frozenset()
    cleared: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)
    sequence: tuple[str, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()
    deletions_need_values: bool = True


def values_before(schema: TableSchema, options: CoreOptions) -> ValuesBefore:
    """Return the values of the row before a change that a table with a primary key needs."""
    if options.ignore_delete:
        return ValuesBefore()
    sequence = options.sequence_fields
    if options.merge_engine not in (MergeEngine.AGGREGATION, MergeEngine.PARTIAL_UPDATE):
        return ValuesBefore(sequence=sequence)
    function = merge_function_for(schema, options, drop_deletes=False, looked_up=False)
    assert isinstance(function, AggregateMerge | PartialUpdate)
    functions = {name: each for name, each in function.functions.items() if not each.ignore_retract}
    retracted = frozenset(name for name, each in functions.items() if _needs_old_value(each))
    cleared = {name for name, each in functions.items() if issubclass(each.kind, LastNonNullValue)}
    refused = {name: why for name, each in functions.items() if (why := each.retract_refusal) is not None}
    if isinstance(function, PartialUpdate):
        # A partial update does not write rows before an update, unless a function needs them.
        return ValuesBefore(
            retracted=retracted,
            refused=refused if retracted else {},
            sequence=sequence,
            groups=tuple(group.sequence for group in function.groups),
        )
    return ValuesBefore(
        retracted=retracted,
        cleared=frozenset(cleared),
        refused=refused,
        sequence=sequence,
        deletions_need_values=not function.remove_on_delete,
    )


def _needs_old_value(function: FieldFunction) -> bool:
    """Return whether the function needs the value that it retracts; last_value becomes null for any value."""
    return function.kind.can_retract and not issubclass(function.kind, LastValue | LastNonNullValue)
