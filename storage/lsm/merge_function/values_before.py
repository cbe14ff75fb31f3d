"""Which values of the row before a change a table needs, so that it can retract that row."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from interbed.storage.lsm.merge_function.aggregate import AggregateMerge
from interbed.storage.lsm.merge_function.factory import merge_function_for
from interbed.storage.lsm.merge_function.fields.functions import FieldFunction
from interbed.storage.lsm.merge_function.fields.pick import LastNonNullValue, LastValue
from interbed.storage.lsm.merge_function.partial_update import PartialUpdate
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.lsm import MergeEngine
from interbed.storage.meta.schema.table_schema import TableSchema


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
