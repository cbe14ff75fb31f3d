"""The merge engines `aggregation` and `partial-update` by the options of a table, column by column."""

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.types.data_type import is_atomic
from interbed.storage.lsm.merge_function.aggregate import AggregateMerge
from interbed.storage.lsm.merge_function.fields.functions import (
    LAST_NON_NULL_VALUE,
    LAST_VALUE,
    FieldFunction,
    chosen_function,
    field_function,
)
from interbed.storage.lsm.merge_function.partial_update import PartialUpdate, SequenceGroup
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.lsm import MergeEngine
from interbed.storage.meta.schema.table_schema import TableSchema

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
