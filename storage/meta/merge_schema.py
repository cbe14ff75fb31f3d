"""Carrying out a merge of schemas (schema.merge) on a table that others change, too."""

import logging
from collections.abc import Sequence

import pyarrow as pa

from interbed.storage.base.errors import CommitFailedError, InterbedError
from interbed.storage.base.types.arrow import FieldIds, fields_from_arrow
from interbed.storage.base.types.data_type import DataField
from interbed.storage.meta.schema.merge import MergeRules, merge_changes, same_column
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.meta.store import TableStore

_log = logging.getLogger(__name__)
_TRIES = 20


def merge_into(store: TableStore, fields: Sequence[DataField], rules: MergeRules) -> TableStore:
    """The table at a schema that takes rows with these fields, which is made if need be.

    It starts from the newest schema, and again when somebody else changes that meanwhile. Raises as merge_changes and
    TableStore.alter do, and CommitFailedError when others are always quicker.
    """
    for _ in range(_TRIES):
        current = store.refreshed()
        changes = merge_changes(current.schema, fields, rules)
        if not changes:
            return current
        try:
            current.alter(changes)
        except InterbedError:
            # Another writer may have added the very column.
            newest = store.schemas.latest()
            if newest is None or newest.id == current.schema.id:
                raise
            _log.info("The schema of %s was changed by another writer; merging again.", store.location)
    raise CommitFailedError(
        f"{_TRIES} other writers changed the schema of {store.location} meanwhile. Nothing was written; try again."
    )


def arrow_fields(schema: TableSchema, rows: pa.Schema, rules: MergeRules) -> tuple[DataField, ...]:
    """The fields of Arrow rows, without columns of nothing but nulls (which have no type) that the table has."""
    given = [
        pa.field(f.name, f.type.value_type, f.nullable) if pa.types.is_dictionary(f.type) else f
        for f in rows
        if not (pa.types.is_null(f.type) and same_column(schema.fields, f.name, rules) is not None)
    ]
    return fields_from_arrow(given, FieldIds())
