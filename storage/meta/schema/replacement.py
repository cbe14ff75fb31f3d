"""REPLACE TABLE: a schema that has nothing of the one before it, and counts only once a snapshot has rows of it.

A replaced table keeps its directory and its history, as Paimon's does: the next schema file, then an OVERWRITE snapshot
under it. Between these two files a reader would see old rows under new columns, and after a crash for good. So the
schema file of a replacement bears a mark, `"interbed.replaces": true`, which other readers skip: as long as the newest
snapshot is of an older schema, ours take the schema before it. That is also what a rollback to the time before wants.
"""

from dataclasses import replace

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.types.data_type import AtomicType, DataField
from interbed.storage.meta.schema.apply import numbered_fields
from interbed.storage.meta.schema.table_schema import REPLACES, TableSchema


def replacement_of(current: TableSchema, wanted: TableSchema, *, schema_id: int) -> TableSchema:
    """The schema that replaces the current one by the wanted one, as number `schema_id`.

    A column that keeps its name and its type keeps its id, so that changes read across the replacement contain what it
    was; others get ids that none ever had. Raises InvalidInputError for other partition columns: the manifests that
    with both would be ambiguous.
    """
    if _partitioning(current) != _partitioning(wanted):
        raise InvalidInputError(
            f"A replacement keeps the partition columns ({', '.join(current.partition_keys) or 'none'}) and their "
            "types, because the table keeps its history. Drop the table and create it anew for "
            f"({', '.join(wanted.partition_keys) or 'none'})."
        )
    highest = current.highest_field_id
    fields: list[DataField] = []
    for column in wanted.fields:
        before = current.by_name.get(column.name)
        if before is not None and isinstance(column.type, AtomicType) and _same_type(before, column):
            fields.append(replace(column, id=before.id))
        else:
            (numbered,), highest = numbered_fields((column,), highest)
            fields.append(numbered)
    return replace(
        wanted,
        id=schema_id,
        fields=tuple(fields),
        highest_field_id=highest,
        unknown={**wanted.unknown, REPLACES: True},
    )


def _partitioning(schema: TableSchema) -> list[tuple[str, object]]:
    return [(f.name, f.type.with_nullable(True)) for f in schema.partition_fields]


def _same_type(left: DataField, right: DataField) -> bool:
    return left.type.with_nullable(True) == right.type.with_nullable(True)
