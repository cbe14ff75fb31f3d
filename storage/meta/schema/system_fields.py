"""The system columns of tables, which are not in their schemas: sequence numbers, row kinds and row ids.

A table with `row-tracking.enabled` has two hidden columns, `_ROW_ID` and `_SEQUENCE_NUMBER`. Queries that name them
read them. The ids of the fields are those of Paimon's SpecialFields.
"""

from collections.abc import Mapping
from dataclasses import replace

from interbed.storage.base.types.data_type import AtomicType, DataField, TypeRoot
from interbed.storage.meta.manifest.entry import ROW_ID
from interbed.storage.meta.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema

_INT_MAX = 2**31 - 1
KEY_FIELD_ID_START = _INT_MAX // 2
"""The difference of a key column's field id to its id in the table."""
SEQUENCE_NUMBER_FIELD = DataField(
    id=_INT_MAX - 1, name=SEQUENCE_NUMBER, type=AtomicType(TypeRoot.BIGINT, nullable=False)
)
VALUE_KIND_FIELD = DataField(id=_INT_MAX - 2, name=VALUE_KIND, type=AtomicType(TypeRoot.TINYINT, nullable=False))
ROW_ID_FIELD = DataField(id=_INT_MAX - 5, name=ROW_ID, type=AtomicType(TypeRoot.BIGINT, nullable=False))

TRACKING_FIELDS = (ROW_ID_FIELD, SEQUENCE_NUMBER_FIELD)
"""The hidden columns of a table that tracks rows, as queries see them."""
STORED_TRACKING_FIELDS = (
    ROW_ID_FIELD,
    DataField(id=SEQUENCE_NUMBER_FIELD.id, name=SEQUENCE_NUMBER, type=AtomicType(TypeRoot.BIGINT)),
)
"""The same columns in a file that stores them. A null sequence number is the greatest of the file."""
TRACKING_NAMES = frozenset(field.name for field in TRACKING_FIELDS)


def readable_fields(schema: TableSchema) -> tuple[DataField, ...]:
    """Return the columns that a query may name: those of the table, and its hidden ones."""
    hidden = TRACKING_FIELDS if schema.core.row_tracking_enabled and not stores_row_ids(schema) else ()
    return (*schema.fields, *hidden)


def readable_by_name(schema: TableSchema) -> Mapping[str, DataField]:
    """Return the columns that a query may name, by name."""
    return {field.name: field for field in readable_fields(schema)}


def stores_row_ids(schema: TableSchema) -> bool:
    """Return whether the schema is that of files which store the hidden columns."""
    return ROW_ID in schema.by_name


def with_stored_row_ids(schema: TableSchema) -> TableSchema:
    """Return the schema of files whose rows were in other files before: in a table that tracks rows, with their ids.

    With `data-evolution.enabled` rows never leave their range of ids, which is in the manifest.
    """
    if not schema.core.row_tracking_enabled or stores_row_ids(schema) or schema.core.data_evolution_enabled:
        return schema
    return replace(schema, fields=(*schema.fields, *STORED_TRACKING_FIELDS))
