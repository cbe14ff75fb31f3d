"""Facts of a table's metadata: properties that are numbers, columns that were dropped, and whether Paimon publishes it.

Dropped columns may still be named by deletes and partition specs. The metadata of a published table are made of a table
in Paimon's format after each of its commits, by interbed or Java Paimon. Its data files are that table's, and a change
of the metadata is lost with its next commit.
"""

from collections.abc import Mapping, Sequence

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

from interbed.storage.base.errors import InvalidOptionError


def whole_number(properties: Mapping[str, str], name: str, default: int, *, least: int | None = None) -> int:
    """A property's number; raises InvalidOptionError for what is none, or less than `least`."""
    text = properties.get(name)
    if text is None:
        return default
    if not text.removeprefix("-").isdecimal():
        raise InvalidOptionError(f"The table property '{name}' is {text!r}, which is no number.")
    found = int(text)
    if least is not None and found < least:
        raise InvalidOptionError(f"The table property '{name}' is {text!r}; it should be {least} or more.")
    return found


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


IDENTITY = "paimon-commit-identity"
"""The entry of a summary that says of which commit its snapshot is; an id may be given again after a rollback."""


def is_published(metadata: TableMetadata) -> bool:
    """Whether the newest snapshot is of a table in Paimon's format. Java Paimon says so after version 1.4."""
    current = metadata.current_snapshot()
    return current is not None and current.summary is not None and current.summary[IDENTITY] is not None
