"""Merge of a table's schema with that of new rows: missing columns and wider types become committed schema changes.

New columns and nested fields go to the end, types become those that hold the values of both sides, and nothing else
changes: columns that the rows lack stay, as do names, comments, nullability and defaults. Source: paimon-core
`schema.SchemaMergingUtils`. Differences: a type that holds the rows' values already stays, and keys keep theirs.
`merge_into` retries when another writer changes the schema at the same time.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from interbed.storage.base.errors import CommitFailedError, InterbedError, SchemaMismatchError
from interbed.storage.base.types.arrow import FieldIds, fields_from_arrow
from interbed.storage.base.types.data_type import (
    BINARIES,
    STRINGS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    type_to_json,
)
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.format import EXPLICIT_CAST
from interbed.storage.meta.schema.change import (
    ELEMENT,
    VALUE,
    AddColumn,
    Fields,
    SchemaChange,
    UpdateColumnType,
    dotted,
)
from interbed.storage.meta.schema.evolution import is_widening
from interbed.storage.meta.schema.table_schema import TableSchema

Path = tuple[str, ...]


def _equal(one: DataType, other: DataType) -> bool:
    return one.with_nullable(True) == other.with_nullable(True)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRules:
    """Limits of what merging may change."""

    widens: bool = True
    casts: bool = False
    case_sensitive: bool = True
    takes: Callable[[DataType, DataType], bool] = _equal


def merge_changes(schema: TableSchema, fields: Sequence[DataField], rules: MergeRules) -> list[SchemaChange]:
    """Return the changes after which the table accepts rows with these fields; none when it does already.

    Raises SchemaMismatchError, naming the column and the way out, for types that can't be merged, and for names that
    differ by case alone.
    """
    return list(_of_fields(schema.fields, fields, (), rules, _keys(schema)))


def same_column(fields: Fields, name: str, rules: MergeRules) -> DataField | None:
    """Return the table's field for a field of the rows."""
    for field in fields:
        if field.name == name:
            return field
    return None if rules.case_sensitive else next((f for f in fields if f.name.lower() == name.lower()), None)


def _keys(schema: TableSchema) -> dict[str, str]:
    """Return the columns whose type files and directories depend on, with their roles."""
    return {
        **dict.fromkeys(schema.core.bucket_key, "bucket key"),
        **dict.fromkeys(schema.primary_keys, "primary key"),
        **dict.fromkeys(schema.partition_keys, "partition"),
    }


def _of_fields(
    base: Fields, given: Sequence[DataField], path: Path, rules: MergeRules, keys: dict[str, str]
) -> Iterator[SchemaChange]:
    taken: dict[str, str] = {}
    for field in given:
        where = (*path, field.name)
        known = same_column(base, field.name, rules)
        name = field.name if known is None else known.name
        if name.lower() in taken and (taken[name.lower()] == name or known is None):
            raise SchemaMismatchError(
                f"The rows have both {dotted((*path, taken[name.lower()]))} and {dotted(where)}. Rename one of them."
            )
        taken[name.lower()] = name
        if known is not None:
            yield from _of_types(known.type, field.type, (*path, name), rules, keys.get(name))
            continue
        clash = next((f for f in base if f.name.lower() == name.lower()), None)
        if clash is not None:
            raise SchemaMismatchError(
                f"The new column {dotted(where)} differs from {dotted((*path, clash.name))}, which exists already, by "
                "case alone, which metastores and SQL don't distinguish. Rename it."
            )
        # Existing rows have no value for it.
        yield AddColumn(where, field.type.with_nullable(True), field.description)


def _of_types(
    base: DataType, given: DataType, path: Path, rules: MergeRules, key: str | None = None
) -> Iterator[SchemaChange]:
    if rules.takes(base, given):
        return
    match base, given:
        case RowType(fields=old), RowType(fields=new):
            yield from _of_fields(old, new, path, rules, {})
        case ArrayType(element=old), ArrayType(element=new):
            yield from _of_types(old, new, (*path, ELEMENT), rules)
        case MapType(key=old_key, value=old), MapType(key=new_key, value=new):
            if not rules.takes(old_key, new_key) and not _fits(new_key, old_key):
                raise _misfit(base, given, path, "the keys of a map keep their type. Cast the rows' column")
            yield from _of_types(old, new, (*path, VALUE), rules)
        case AtomicType(), AtomicType() if not rules.widens or _fits(given, base):
            return
        case (AtomicType(), AtomicType()) | (MultisetType(), _) if key is not None:
            raise _misfit(base, given, path, f"the type of a {key} column can't be changed. Cast the rows' column")
        case AtomicType(), AtomicType() if is_widening(base, given):
            yield UpdateColumnType(path, given)
        case AtomicType(), AtomicType() if rules.casts:
            yield UpdateColumnType(path, given, explicit=True)
        case AtomicType(), AtomicType():
            raise _misfit(
                base,
                given,
                path,
                "neither type holds all values of the other. Cast the rows' column, or let the table's values be cast, "
                f"which may lose something, with '{EXPLICIT_CAST}' = 'true'",
            )
        case _:
            raise _misfit(base, given, path, "nothing holds both. Cast the rows' column, or give it another name")


def _fits(given: DataType, base: DataType) -> bool:
    """Return whether a column of type `base` holds all values of the type."""
    if not isinstance(given, AtomicType) or not isinstance(base, AtomicType):
        return _equal(given, base)
    for alike in (STRINGS, BINARIES):
        if base.root in alike and given.root in alike:
            return (given.length or 0) <= (base.length or 0)
    return is_widening(given, base)


def _misfit(base: DataType, given: DataType, path: Path, why: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"The column {dotted(path)} is {_quoted_type(base)}, the rows have {_quoted_type(given)} for it: {why}."
    )


def _quoted_type(data_type: DataType) -> str:
    if isinstance(data_type, AtomicType):
        return str(type_to_json(data_type.with_nullable(True)))
    return type(data_type).__name__.removesuffix("Type").upper()


_log = logging.getLogger(__name__)
_TRIES = 20


def merge_into(store: FileStore, fields: Sequence[DataField], rules: MergeRules) -> FileStore:
    """Return the table at a schema that accepts rows with these fields; the schema is created if necessary.

    It starts from the newest schema, and again when another writer changes the schema meanwhile. Raises as
    merge_changes and FileStore.alter do, and CommitFailedError when other writers always win the race.
    """
    for _ in range(_TRIES):
        current = store.refreshed()
        changes = merge_changes(current.schema, fields, rules)
        if not changes:
            return current
        try:
            current.alter(changes)
        except InterbedError:
            # Another writer may have added the same column.
            newest = store.schemas.latest()
            if newest is None or newest.id == current.schema.id:
                raise
            _log.info("The schema of %s was changed by another writer; merging again.", store.location)
    raise CommitFailedError(
        f"{_TRIES} other writers changed the schema of {store.location} meanwhile. Nothing was written; try again."
    )


def arrow_fields(schema: TableSchema, rows: pa.Schema, rules: MergeRules) -> tuple[DataField, ...]:
    """Return the fields of Arrow rows, without columns of the table that are all null (and so have no type)."""
    given = [
        pa.field(f.name, f.type.value_type, f.nullable) if pa.types.is_dictionary(f.type) else f
        for f in rows
        if not (pa.types.is_null(f.type) and same_column(schema.fields, f.name, rules) is not None)
    ]
    return fields_from_arrow(given, FieldIds())
