"""Columns of which a table keeps the old value where a row has null for it."""

from collections.abc import Mapping
from dataclasses import dataclass

from interbed.storage.lsm.merge_function.factory import merge_function_for
from interbed.storage.lsm.merge_function.partial_update import PartialUpdate
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.table_schema import TableSchema


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
