"""The columns that a table has had, which deletes and partition specs may still go by."""

from collections.abc import Sequence

from pyiceberg.schema import Schema


def with_dropped(schema: Schema, others: Sequence[Schema]) -> Schema:
    """The columns of a schema, and behind them those of others that it lacks, the newest of each, under names that no
    column has: rows may have been deleted by columns that the table has no more.
    """
    known = {field.field_id for field in schema.fields}
    further = {
        field.field_id: field
        for other in sorted(others, key=lambda other: other.schema_id)
        for field in other.fields
        if field.field_id not in known
    }
    names = {field.name for field in schema.fields}
    dropped = []
    for number, field in further.items():
        name = f"{field.name}\0{number}"
        assert name not in names
        dropped.append(field.model_copy(update={"name": name, "required": False}))
    return Schema(*schema.fields, *dropped)
