"""The merge function of a table, and the checks of the options that describe it."""

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.types.data_type import is_atomic
from interbed.storage.lsm.merge_function.aggregate import AggregateMerge
from interbed.storage.lsm.merge_function.api import MergeFunction
from interbed.storage.lsm.merge_function.deduplicate import Deduplicate
from interbed.storage.lsm.merge_function.fields.functions import (
    LAST_NON_NULL_VALUE,
    LAST_VALUE,
    FieldFunction,
    chosen_function,
    field_function,
)
from interbed.storage.lsm.merge_function.first_row import REFUSAL as FIRST_ROW_REFUSAL
from interbed.storage.lsm.merge_function.first_row import FirstRow
from interbed.storage.lsm.merge_function.lookup import LowestLevel
from interbed.storage.lsm.merge_function.partial_update import REFUSAL as PARTIAL_UPDATE_REFUSAL
from interbed.storage.lsm.merge_function.partial_update import PartialUpdate
from interbed.storage.lsm.merge_function.sequence_group import SequenceGroup
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.lsm import MergeEngine
from interbed.storage.meta.schema.table_schema import TableSchema

_GROUP_PREFIX, _GROUP_SUFFIX = "fields.", ".sequence-group"


def merge_function_for(
    schema: TableSchema,
    options: CoreOptions,
    *,
    drop_deletes: bool,
    looked_up: bool = True,
    merges_alone: bool = False,
) -> MergeFunction:
    """The merge function of a table with a primary key.

    With `drop_deletes` keys whose merged record deletes them are left out. `looked_up` false is for records that were
    not in files yet. With `merges_alone` functions see also rows that are the only one of their key, as in compactions
    that look up older rows; elsewhere such rows stay as they are. Raises InvalidOptionError for options that contradict
    each other or the schema, NotSupportedError for functions that this version lacks.
    """
    engine = options.merge_engine
    if engine is MergeEngine.DEDUPLICATE:
        return Deduplicate(drop_deletes=drop_deletes, ignore_delete=options.ignore_delete)
    if engine is MergeEngine.FIRST_ROW:
        return FirstRow(ignore_delete=options.ignore_delete, drop_deletes=drop_deletes)
    function: MergeFunction
    if engine is MergeEngine.PARTIAL_UPDATE:
        function = _partial_update(schema, options, drop_deletes=drop_deletes, merges_alone=merges_alone)
    else:
        function = _aggregate(schema, options, drop_deletes=drop_deletes, merges_alone=merges_alone)
    return LowestLevel(inner=function) if looked_up and options.compactions_look_up else function


def check_merge_options(schema: TableSchema, options: CoreOptions) -> None:
    """Raise InvalidOptionError or NotSupportedError, naming the option, when the table's rows can't be merged so."""
    if not schema.has_primary_key:
        return
    merge_function_for(schema, options, drop_deletes=False)


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


def _aggregate(schema: TableSchema, options: CoreOptions, *, drop_deletes: bool, merges_alone: bool) -> AggregateMerge:
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


def _partial_update(
    schema: TableSchema, options: CoreOptions, *, drop_deletes: bool, merges_alone: bool
) -> PartialUpdate:
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
