"""Changes of a table's schema as values, and their application (Paimon's documentation: concepts/schema-evolution).

apply_changes is pure. Data files keep the schema that they were written with and are read by column id, so a change
must never give an id a new meaning.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from interbed.storage.errors import InvalidInputError, InvalidOptionError, NotSupportedError
from interbed.storage.options import BUCKET, BUCKET_KEY, PARTITION, PATH, PRIMARY_KEY, CoreOptions
from interbed.storage.schema.column_options import naming, renamed
from interbed.storage.schema.option_rules import check_options
from interbed.storage.schema.table_schema import TableSchema, validate_schema
from interbed.storage.types.data_type import (
    BINARIES,
    INTEGERS,
    STRINGS,
    TIMESTAMPS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)
from interbed.storage.types.json import type_to_json

IMMUTABLE_OPTIONS = frozenset(
    {
        "type",
        BUCKET_KEY,
        "bucket-function.type",
        "data-file.path-directory",
        "merge-engine",
        "sequence.snapshot-ordering",
        "aggregation.remove-record-on-delete",
        "partial-update.remove-record-on-delete",
        "partial-update.remove-record-on-sequence-group",
        "rowkind.field",
        PRIMARY_KEY,
        "primary-key.nullable",
        PARTITION,
        "dynamic-bucket.initial-buckets",
        "force-lookup",
        "row-tracking.enabled",
        "data-evolution.enabled",
        "index-file-in-data-file-dir",
        "partition.default-name",
        "partition.legacy-name",
    }
)
"""Options that existing files depend on. The two of partition directories can be altered in Paimon, which then loses
sight of the files in them; interbed refuses."""

_MARKS = "interbed."
_OF_THE_SCHEMA = frozenset({PATH, PRIMARY_KEY, PARTITION})
"""Options that say what the schema says otherwise, or where it lies."""


@dataclass(frozen=True, slots=True)
class SetOption:
    """Set a table option."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class RemoveOption:
    """Set a table option back to its default."""

    key: str


@dataclass(frozen=True, slots=True)
class UpdateComment:
    """Change the table's comment; None removes it."""

    comment: str | None


@dataclass(frozen=True, slots=True)
class Position:
    """Where a column goes: first, or after another column."""

    after: str | None = None


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Add a nullable column, at the end unless a position is given."""

    name: str
    type: DataType
    description: str | None = None
    position: Position | None = None
    default_value: str | None = None


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Rename a column."""

    name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Drop a column; its data stays in old files, unread."""

    name: str


@dataclass(frozen=True, slots=True)
class UpdateColumnType:
    """Widen a column's type; whether it admits nulls stays as it is."""

    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class UpdateColumnNullability:
    """Let a column admit nulls."""

    name: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class UpdateColumnComment:
    """Change a column's description; None removes it."""

    name: str
    description: str | None


@dataclass(frozen=True, slots=True)
class UpdateColumnPosition:
    """Move a column."""

    name: str
    position: Position


SchemaChange = (
    SetOption
    | RemoveOption
    | UpdateComment
    | AddColumn
    | RenameColumn
    | DropColumn
    | UpdateColumnType
    | UpdateColumnNullability
    | UpdateColumnComment
    | UpdateColumnPosition
)


def apply_changes(
    schema: TableSchema,
    changes: Sequence[SchemaChange],
    *,
    time_millis: int | None = None,
    has_snapshots: bool = True,
    schema_id: int | None = None,
) -> TableSchema:
    """The next schema after the changes, validated. Raises InvalidInputError, InvalidOptionError, NotSupportedError.

    Without snapshots there are no files that depend on options, so that any option may be changed. `schema_id` is the
    next one unless it is given.
    """
    result = schema
    for change in changes:
        if isinstance(change, SetOption | RemoveOption):
            _check_option(result, change.key, change.value if isinstance(change, SetOption) else None, has_snapshots)
        result = _apply(result, change)
    result = replace(
        result,
        id=schema.id + 1 if schema_id is None else schema_id,
        time_millis=int(time.time() * 1000) if time_millis is None else time_millis,
        # What is marked is one version, not those that come of it.
        unknown={k: v for k, v in result.unknown.items() if not k.startswith(_MARKS)},
    )
    validate_schema(result)
    check_options(result, before=schema)
    return result


def check_dynamic_options(schema: TableSchema, options: Mapping[str, str]) -> None:
    """Refuse dynamic options that change how existing files are laid out; raises InvalidOptionError naming the key."""
    for key, value in options.items():
        if (key in IMMUTABLE_OPTIONS or key == BUCKET) and schema.options.get(key) != value:
            raise InvalidOptionError(f"Option '{key}' is part of the table's layout and can't be set dynamically.")
        if key != PATH:
            _check_option(schema, key, value)


def check_together(schema: TableSchema, options: Mapping[str, str]) -> None:
    """Refuse dynamic options that contradict the table's own or one another; raises InvalidOptionError."""
    if options:
        check_options(replace(schema, options={**schema.options, **options}), before=schema)


def _apply(schema: TableSchema, change: SchemaChange) -> TableSchema:
    match change:
        case SetOption(key=key, value=value):
            return replace(schema, options={**schema.options, key: value})
        case RemoveOption(key=key):
            return replace(schema, options={k: v for k, v in schema.options.items() if k != key})
        case UpdateComment(comment=comment):
            return replace(schema, comment=comment)
        case AddColumn():
            return _add(schema, change)
        case RenameColumn(name=name, new_name=new_name):
            return _rename(schema, name, new_name)
        case DropColumn(name=name):
            return _drop(schema, name)
        case UpdateColumnPosition(name=name, position=position):
            column = _column(schema, name)
            rest = [f for f in schema.fields if f.name != name]
            return replace(schema, fields=_placed(schema, rest, column, position))
        case UpdateColumnComment(name=name, description=description):
            return _replaced(schema, replace(_column(schema, name), description=description))
        case UpdateColumnNullability(name=name, nullable=nullable):
            return _set_nullability(schema, name, nullable)
        case UpdateColumnType(name=name, type=new_type):
            return _set_type(schema, name, new_type)


def _check_option(schema: TableSchema, key: str, value: str | None, has_snapshots: bool = True) -> None:
    old = schema.options.get(key)
    if old == value:
        return
    if key in _OF_THE_SCHEMA:
        raise InvalidOptionError(f"Option '{key}' can't be changed: make a new table.")
    if not has_snapshots:
        return
    if key in IMMUTABLE_OPTIONS:
        raise InvalidOptionError(f"Option '{key}' can't be changed: the table's files depend on it.")
    if key == BUCKET:
        new_bucket = -1 if value is None else CoreOptions({BUCKET: value}).bucket
        if schema.core.bucket < 1 or new_bucket < 1:
            raise InvalidOptionError(
                f"Option 'bucket' can't be changed from {schema.core.bucket} to {new_bucket}; only a fixed number of "
                "buckets can be changed, to another fixed number."
            )
    if key in ("ignore-delete", "ignore-update-before") and schema.core.boolean(key, False):
        raise InvalidOptionError(f"Option '{key}' can't be changed from true to false.")
    if key == "deletion-vectors.enabled" and not schema.core.boolean("deletion-vectors.modifiable", False):
        new = CoreOptions({} if value is None else {key: value}).deletion_vectors_enabled
        if new != schema.core.deletion_vectors_enabled:
            raise InvalidOptionError(
                "Option 'deletion-vectors.enabled' can't be changed, because deleted rows could come back; set "
                "'deletion-vectors.modifiable' to allow it."
            )


def _add(schema: TableSchema, change: AddColumn) -> TableSchema:
    _check_new_name(schema, change.name)
    if not change.type.nullable:
        raise InvalidInputError(
            f"The new column {change.name!r} can't be NOT NULL: rows that exist already have no value for it."
        )
    column_id = schema.highest_field_id + 1
    data_type, highest = _numbered(change.type, column_id)
    column = DataField(
        id=column_id,
        name=change.name,
        type=data_type,
        description=change.description,
        default_value=change.default_value,
    )
    fields = _placed(schema, list(schema.fields), column, change.position)
    return replace(schema, fields=fields, highest_field_id=highest)


def _rename(schema: TableSchema, name: str, new_name: str) -> TableSchema:
    column = _column(schema, name)
    if name == new_name:
        return schema
    _check_new_name(schema, new_name)
    if name in schema.partition_keys:
        raise InvalidInputError(f"The partition column {name!r} can't be renamed: directories are named after it.")
    primary_keys = tuple(new_name if k == name else k for k in schema.primary_keys)
    return replace(
        _replaced(schema, replace(column, name=new_name), old_name=name),
        primary_keys=primary_keys,
        options=renamed(schema.options, name, new_name),
    )


def _drop(schema: TableSchema, name: str) -> TableSchema:
    _column(schema, name)
    for what, names in (
        ("the partition key", schema.partition_keys),
        ("the primary key", schema.primary_keys),
        *((f"option '{key}'", (name,)) for key in naming(schema.options, name)),
    ):
        if name in names:
            raise InvalidInputError(f"The column {name!r} can't be dropped: {what} names it.")
    if len(schema.fields) == 1:
        raise InvalidInputError(f"The column {name!r} can't be dropped: it is the table's only one.")
    return replace(schema, fields=tuple(f for f in schema.fields if f.name != name))


def _set_nullability(schema: TableSchema, name: str, nullable: bool) -> TableSchema:
    column = _column(schema, name)
    if nullable and name in schema.primary_keys:
        raise InvalidInputError(f"The column {name!r} is part of the primary key and can't admit nulls.")
    if not nullable and column.type.nullable:
        raise InvalidInputError(f"The column {name!r} can't become NOT NULL: existing rows may hold nulls.")
    return _replaced(schema, replace(column, type=column.type.with_nullable(nullable)))


def _set_type(schema: TableSchema, name: str, new_type: DataType) -> TableSchema:
    column = _column(schema, name)
    wanted = new_type.with_nullable(column.type.nullable)
    if wanted == column.type:
        return schema
    if name in schema.partition_keys or name in schema.primary_keys or name in schema.core.bucket_key:
        raise InvalidInputError(f"The type of {name!r} can't be changed: it is part of the table's keys.")
    if not is_widening(column.type, wanted):
        raise NotSupportedError(
            f"The column {name!r} can't be changed from {type_to_json(column.type)} to {type_to_json(wanted)}; only a "
            "type that holds every value of the old one is possible. Add a new column instead."
        )
    return _replaced(schema, replace(column, type=wanted))


_INTEGER_DIGITS = {TypeRoot.TINYINT: 3, TypeRoot.SMALLINT: 5, TypeRoot.INT: 10, TypeRoot.BIGINT: 19}


def is_widening(old: DataType, new: DataType) -> bool:
    """Whether every value of the old atomic type has the same value in the new one."""
    if not isinstance(old, AtomicType) or not isinstance(new, AtomicType):
        return old.with_nullable(True) == new.with_nullable(True)
    if old.root in INTEGERS:
        digits = _INTEGER_DIGITS[old.root]
        if new.root in INTEGERS:
            return _INTEGER_DIGITS[new.root] >= digits
        if new.root is TypeRoot.DECIMAL:
            return (new.precision or 0) - (new.scale or 0) >= digits
        return new.root is TypeRoot.DOUBLE and digits <= 10
    if old.root in STRINGS:
        return new.root is TypeRoot.VARCHAR and (new.length or 0) >= (old.length or 0)
    if old.root in BINARIES:
        return new.root is TypeRoot.VARBINARY and (new.length or 0) >= (old.length or 0)
    if old.root is TypeRoot.DECIMAL and new.root is TypeRoot.DECIMAL:
        old_scale, new_scale = old.scale or 0, new.scale or 0
        return new_scale >= old_scale and (new.precision or 0) - new_scale >= (old.precision or 0) - old_scale
    if old.root is TypeRoot.FLOAT:
        return new.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE)
    if old.root in TIMESTAMPS or old.root is TypeRoot.TIME:
        return new.root is old.root and (new.precision or 0) >= (old.precision or 0)
    return old.root is new.root


def _column(schema: TableSchema, name: str) -> DataField:
    try:
        return schema.by_name[name]
    except KeyError:
        raise InvalidInputError(
            f"There is no column {name!r}; the table has the columns {', '.join(schema.names)}."
        ) from None


def _check_new_name(schema: TableSchema, name: str) -> None:
    if name in schema.by_name:
        raise InvalidInputError(f"There is a column {name!r} already.")


def _replaced(schema: TableSchema, column: DataField, *, old_name: str | None = None) -> TableSchema:
    name = column.name if old_name is None else old_name
    return replace(schema, fields=tuple(column if f.name == name else f for f in schema.fields))


def _placed(
    schema: TableSchema, rest: list[DataField], column: DataField, position: Position | None
) -> tuple[DataField, ...]:
    if position is None:
        return (*rest, column)
    if position.after is None:
        return (column, *rest)
    _column(schema, position.after)
    if position.after == column.name:
        raise InvalidInputError(f"The column {column.name!r} can't be placed after itself.")
    index = [f.name for f in rest].index(position.after) + 1
    return (*rest[:index], column, *rest[index:])


def _numbered(data_type: DataType, highest: int) -> tuple[DataType, int]:
    """The type with fresh ids for the fields of nested rows, and the highest id used."""
    match data_type:
        case RowType(fields=fields):
            numbered, highest = numbered_fields(fields, highest)
            return replace(data_type, fields=numbered), highest
        case ArrayType(element=element) | MultisetType(element=element):
            element, highest = _numbered(element, highest)
            return replace(data_type, element=element), highest
        case MapType(key=key, value=value):
            key, highest = _numbered(key, highest)
            value, highest = _numbered(value, highest)
            return replace(data_type, key=key, value=value), highest
        case _:
            return data_type, highest


def numbered_fields(fields: Iterable[DataField], highest: int) -> tuple[tuple[DataField, ...], int]:
    """The fields, and those nested in them, with ids above `highest`; and the highest of these."""
    numbered: list[DataField] = []
    for field in fields:
        field_id = highest + 1
        data_type, highest = _numbered(field.type, field_id)
        numbered.append(replace(field, id=field_id, type=data_type))
    return tuple(numbered), highest
