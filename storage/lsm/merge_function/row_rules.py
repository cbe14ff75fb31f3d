"""What the merge function of a table demands of the rows that are written to it.

Writers ask whether the table accepts retractions, which columns keep their old value where a row has null, and which
values of the row before a change it needs to retract that row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from interbed.storage.lsm.merge_function.aggregate import AggregateMerge
from interbed.storage.lsm.merge_function.factory import merge_function_for
from interbed.storage.lsm.merge_function.fields.functions import FieldFunction
from interbed.storage.lsm.merge_function.fields.pick import LastNonNullValue, LastValue
from interbed.storage.lsm.merge_function.partial_update import REFUSAL as PARTIAL_UPDATE_REFUSAL
from interbed.storage.lsm.merge_function.partial_update import PartialUpdate, SequenceGroup
from interbed.storage.lsm.merge_function.whole_record import FIRST_ROW_REFUSAL, FirstRow
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.lsm import MergeEngine
from interbed.storage.meta.schema.table_schema import TableSchema


def retract_refusal(schema: TableSchema, options: CoreOptions) -> str | None:
    """Why the table takes no -U and -D rows; None when it does.

    Such rows would be found out only when they are merged with others, and then stand in the way of every read.
    """
    if not schema.has_primary_key or options.ignore_delete:
        return None
    function = merge_function_for(schema, options, drop_deletes=False, looked_up=False)
    if isinstance(function, FirstRow):
        return FIRST_ROW_REFUSAL
    if isinstance(function, PartialUpdate) and not function.groups and not function.remove_on_delete:
        return PARTIAL_UPDATE_REFUSAL
    if isinstance(function, PartialUpdate):
        taking = (g.removes or not any(map(_refuses, _functions_of(function, g))) for g in function.groups)
        if any(taking):
            # A row may take back one group alone, with the other groups' sequences null.
            return None
    if isinstance(function, PartialUpdate | AggregateMerge):
        refusals = (f.retract_refusal for f in function.functions.values())
        refusal = next((r for r in refusals if r is not None), None)
        # Rows of kind -U are taken back even where -D rows remove; but those alone are no reason to refuse all.
        return None if isinstance(function, AggregateMerge) and function.remove_on_delete else refusal
    return None


def _functions_of(function: PartialUpdate, group: SequenceGroup) -> list[FieldFunction]:
    return [function.functions[name] for name in group.columns if name in function.functions]


def _refuses(function: FieldFunction) -> bool:
    return function.retract_refusal is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptColumn:
    """A column that keeps its value; one of a sequence group does so only for rows without any of its `sequence`.

    `others` are the columns of the group that follow its sequence; both are empty outside of groups.
    """

    sequence: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def kept_columns(schema: TableSchema, options: CoreOptions) -> Mapping[str, KeptColumn]:
    """The columns by name; none where rows replace each other as a whole."""
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
    # A default stands in for null.
    names = [f.name for f in schema.fields if f.default_value is None and f.name not in fixed]
    return {name: groups.get(name, KeptColumn()) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesBefore:
    """The columns by what they need; all are empty where rows replace each other and no sequence orders them.

    `retracted` have a function that needs the old value, as `sum`; those with last_non_null_value are in `cleared`: it
    makes null of an old value, so that only an update to null needs the row before. `refused` are the functions that
    can't retract, with the reason. `sequence` orders rows, also those that delete; `groups` are the sequences of
    sequence groups. `deletions_need_values` is false where a deletion removes the whole row.
    """

    retracted: frozenset[str] = frozenset()
    cleared: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)
    sequence: tuple[str, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()
    deletions_need_values: bool = True


def values_before(schema: TableSchema, options: CoreOptions) -> ValuesBefore:
    """The values of rows before a change that a table with a primary key needs."""
    if options.ignore_delete:
        return ValuesBefore()
    sequence = options.sequence_fields
    if options.merge_engine not in (MergeEngine.AGGREGATION, MergeEngine.PARTIAL_UPDATE):
        return ValuesBefore(sequence=sequence)
    function = merge_function_for(schema, options, drop_deletes=False, looked_up=False)
    assert isinstance(function, AggregateMerge | PartialUpdate)
    functions = {name: each for name, each in function.functions.items() if not each.ignore_retract}
    retracted = frozenset(name for name, each in functions.items() if _needs_the_value(each))
    cleared = {name for name, each in functions.items() if issubclass(each.kind, LastNonNullValue)}
    refused = {name: why for name, each in functions.items() if (why := each.retract_refusal) is not None}
    if isinstance(function, PartialUpdate):
        # Rows before an update are no part of a partial update, unless a function needs them.
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


def _needs_the_value(function: FieldFunction) -> bool:
    """Whether the function needs the value that it retracts; last_value retracts any row by becoming null."""
    return function.kind.can_retract and not issubclass(function.kind, LastValue | LastNonNullValue)
