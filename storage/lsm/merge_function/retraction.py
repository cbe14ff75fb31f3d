"""Whether a table takes rows that take others back."""

from interbed.storage.lsm.merge_function.aggregate import AggregateMerge
from interbed.storage.lsm.merge_function.factory import merge_function_for
from interbed.storage.lsm.merge_function.fields.functions import FieldFunction
from interbed.storage.lsm.merge_function.first_row import REFUSAL as FIRST_ROW_REFUSAL
from interbed.storage.lsm.merge_function.first_row import FirstRow
from interbed.storage.lsm.merge_function.partial_update import REFUSAL as PARTIAL_UPDATE_REFUSAL
from interbed.storage.lsm.merge_function.partial_update import PartialUpdate
from interbed.storage.lsm.merge_function.sequence_group import SequenceGroup
from interbed.storage.meta.options.core import CoreOptions
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
