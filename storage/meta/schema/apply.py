"""Apply changes to a schema, or replace it (Paimon's documentation: concepts/schema-evolution). Pure.

Data files keep the schema that they were written with and are read by field id, so a change must never give an id
a new meaning. Source: paimon-core `schema.SchemaManager.generateTableSchema`.

A renamed column is renamed in options, too, in their values (`sequence.field`), their keys
(`fields.a.aggregate-function`) or both (`fields.g,h.sequence-group`). Source: paimon-core
`schema.SchemaManager.applyRenameColumnsToOptions`, which leaves out the options of file indexes, expiry and removed
groups; interbed renames in those, too.

REPLACE TABLE keeps the table's directory and its history, as Paimon's does: the next schema file, then an OVERWRITE
snapshot under it. Between these two files a reader would see old rows under new columns, and after a crash for good. So
the schema file of a replacement has the mark `"interbed.replaces": true`, and other readers skip it: as long as the
newest snapshot is of an older schema, interbed takes the schema before it. A rollback to the time before needs that.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.types.casting.rules import has_cast, is_implicit
from interbed.storage.base.types.data_type import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
)
from interbed.storage.base.types.default_value import default_scalar
from interbed.storage.meta.options.core import PARTITION, PRIMARY_KEY
from interbed.storage.meta.options.known.check import check_public
from interbed.storage.meta.schema.change import (
    AddColumn,
    ColumnPath,
    DropColumn,
    DropPrimaryKey,
    Fields,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    UpdateComment,
    dotted,
    edit_field,
    edit_fields,
    find,
    path_of,
    replaced,
)
from interbed.storage.meta.schema.evolution import is_widening
from interbed.storage.meta.schema.option_changes import KEYS, check_option
from interbed.storage.meta.schema.table_schema import REPLACES, Schema, TableSchema, validate_schema

_MARKS = "interbed."
ADD_BEFORE_PARTITION = "add-column-before-partition"
NO_NULL_TO_NOT_NULL = "alter-column-null-to-not-null.disabled"
NO_EXPLICIT_CASTS = "disable-explicit-type-casting"


def apply_changes(
    schema: TableSchema,
    changes: Sequence[SchemaChange],
    *,
    time_millis: int | None = None,
    has_snapshots: bool = True,
    schema_id: int | None = None,
) -> TableSchema:
    """Return the next schema after the changes, with its names, keys and types validated; for options see OptionRules.

    Raises InvalidInputError, InvalidOptionError for an option that can't be changed, and NotSupportedError. Without
    snapshots there are no files that depend on options, so that any option may be changed. `schema_id` is the next one
    unless it is given.
    """
    result = schema
    for change in changes:
        if isinstance(change, SetOption | RemoveOption):
            if isinstance(change, SetOption):
                check_public({change.key: change.value})
            check_option(result, change.key, change.value if isinstance(change, SetOption) else None, has_snapshots)
        if isinstance(change, DropPrimaryKey) and has_snapshots:
            raise NotSupportedError(
                "The primary key of a table with snapshots can't be dropped: its files are merged by the key. Make a "
                "new table of its rows instead."
            )
        result = _apply(result, change)
    result = replace(
        _with_keys_of_options(result),
        id=schema.id + 1 if schema_id is None else schema_id,
        time_millis=int(time.time() * 1000) if time_millis is None else time_millis,
        # A mark belongs to one version of a schema, not to its successors.
        unknown={k: v for k, v in result.unknown.items() if not k.startswith(_MARKS)},
    )
    validate_schema(result, schema)
    return result


def _with_keys_of_options(schema: TableSchema) -> TableSchema:
    """Return the schema with the keys of its options, as on creation of a table."""
    if KEYS.isdisjoint(schema.options):
        return schema
    keyed = Schema(
        fields=schema.fields,
        partition_keys=() if PARTITION in schema.options else schema.partition_keys,
        primary_keys=() if PRIMARY_KEY in schema.options else schema.primary_keys,
        options=schema.options,
    ).to_table_schema()
    return replace(
        schema,
        fields=keyed.fields,
        partition_keys=keyed.partition_keys,
        primary_keys=keyed.primary_keys,
        options=keyed.options,
    )


def _apply(schema: TableSchema, change: SchemaChange) -> TableSchema:
    match change:
        case SetOption(key=key, value=value):
            return replace(schema, options={**schema.options, key: value})
        case RemoveOption(key=key):
            return replace(schema, options={k: v for k, v in schema.options.items() if k != key})
        case UpdateComment(comment=comment):
            return replace(schema, comment=comment)
        case DropPrimaryKey():
            return replace(schema, primary_keys=())
        case AddColumn():
            return _add(schema, change)
        case RenameColumn(name=path, new_name=new_name):
            return _rename(schema, path, new_name)
        case DropColumn(name=path):
            return _drop(schema, path)
        case UpdateColumnPosition(name=path, position=position):
            return _move(schema, path, position)
        case UpdateColumnComment(name=path, description=description):
            return _describe(schema, path, description)
        case UpdateColumnNullability(name=path, nullable=nullable):
            return _set_nullability(schema, path, nullable)
        case UpdateColumnType(name=path, type=new_type, explicit=explicit, keep_nullability=keep):
            changed = _set_type(schema, path, new_type, explicit)
            return changed if keep else _set_nullability(changed, path, new_type.nullable)
        case UpdateColumnDefault(name=name, default_value=default):
            return _set_default(schema, name, default)
        case _:
            raise InvalidInputError(
                f"{change!r} is no change of a schema; make one by SchemaChange.add_column, for example."
            )


def _add(schema: TableSchema, change: AddColumn) -> TableSchema:
    if not change.type.nullable:
        raise InvalidInputError(
            f"The new column {dotted(change.name)} can't be NOT NULL: rows that exist already have no value for it."
        )
    column_id = schema.highest_field_id + 1
    data_type, highest = numbered(change.type, column_id)
    before_partition = schema.core.boolean(ADD_BEFORE_PARTITION, False) and len(path_of(change.name)) == 1

    def add(fields: Fields, name: str) -> Fields:
        _check_new_name(fields, name, change.name)
        column = DataField(
            id=column_id,
            name=name,
            type=data_type,
            description=change.description,
            default_value=change.default_value,
        )
        _check_default(column)
        if change.position is None and before_partition:
            first = next((i for i, f in enumerate(fields) if f.name in schema.partition_keys), len(fields))
            return (*fields[:first], column, *fields[first:])
        return _placed(fields, column, change.position)

    fields = edit_fields(schema.fields, change.name, add)
    return replace(schema, fields=fields, highest_field_id=highest)


def _rename(schema: TableSchema, path: ColumnPath, new_name: str) -> TableSchema:
    def rename(fields: Fields, name: str) -> Fields:
        field = find(fields, name, path)
        if name == new_name:
            return fields
        _check_new_name(fields, new_name, path)
        return replaced(fields, replace(field, name=new_name), old_name=name)

    fields = edit_fields(schema.fields, path, rename)
    if fields == schema.fields:
        return schema
    name = _column_name(path)
    if name is None:
        return replace(schema, fields=fields, options=_renamed_nested(schema.options, path, new_name))
    if name in schema.partition_keys:
        raise InvalidInputError(f"The partition column {name!r} can't be renamed: directories are named after it.")
    primary_keys = tuple(new_name if k == name else k for k in schema.primary_keys)
    _check_name_in_options(schema.options, name, new_name)
    options = renamed(schema.options, name, new_name)
    return replace(schema, fields=fields, primary_keys=primary_keys, options=options)


def _check_name_in_options(options: Mapping[str, str], name: str, new_name: str) -> None:
    """Raise InvalidInputError if the new name of a column would mean other columns in an option that names it."""
    for key in naming(options, name):
        is_index, is_list = key.startswith(_INDEX), key.endswith((_GROUP, _INDEX_COLUMNS)) or key in _LISTS - _SINGLE
        mark = "," if is_list and "," in new_name else "[" if is_index and "[" in new_name else None
        if mark is not None:
            raise InvalidInputError(
                f"The column {name!r} can't be renamed to {new_name!r}: the option '{key}' names it, and {mark!r} is "
                "no part of a name there. Choose another name, or remove the option first."
            )


def _drop(schema: TableSchema, path: ColumnPath) -> TableSchema:
    def drop(fields: Fields, name: str) -> Fields:
        find(fields, name, path)
        if len(fields) == 1:
            raise InvalidInputError(f"The column {dotted(path)} can't be dropped: it is the only one there.")
        return tuple(f for f in fields if f.name != name)

    fields = edit_fields(schema.fields, path, drop)
    name = _column_name(path)
    if name is not None:
        for what, names in (
            ("the partition key", schema.partition_keys),
            ("the primary key", schema.primary_keys),
            *((f"option '{key}'", (name,)) for key in naming(schema.options, name)),
        ):
            if name in names:
                raise InvalidInputError(f"The column {name!r} can't be dropped: {what} names it.")
    return replace(schema, fields=fields)


def _move(schema: TableSchema, path: ColumnPath, position: Position) -> TableSchema:
    def move(fields: Fields, name: str) -> Fields:
        field = find(fields, name, path)
        if name in (position.after, position.before):
            raise InvalidInputError(f"The column {dotted(path)} can't be placed beside itself.")
        return _placed(tuple(f for f in fields if f.name != name), field, position)

    return replace(schema, fields=edit_fields(schema.fields, path, move))


def _describe(schema: TableSchema, path: ColumnPath, description: str | None) -> TableSchema:
    def describe(fields: Fields, name: str) -> Fields:
        return replaced(fields, replace(find(fields, name, path), description=description))

    return replace(schema, fields=edit_fields(schema.fields, path, describe))


def _set_nullability(schema: TableSchema, path: ColumnPath, nullable: bool) -> TableSchema:
    if nullable and _column_name(path) in schema.primary_keys:
        raise InvalidInputError(f"The column {dotted(path)} is part of the primary key and can't admit nulls.")

    def change(field: DataField) -> DataField:
        if not nullable and field.type.nullable and schema.core.boolean(NO_NULL_TO_NOT_NULL, True):
            raise InvalidInputError(
                f"The column {dotted(path)} can't become NOT NULL: existing rows may hold nulls. If none does, set the "
                f"table's option '{NO_NULL_TO_NOT_NULL}' to false."
            )
        return replace(field, type=field.type.with_nullable(nullable))

    return replace(schema, fields=edit_field(schema.fields, path, change))


def _set_type(schema: TableSchema, path: ColumnPath, new_type: DataType, explicit: bool) -> TableSchema:
    name = _column_name(path)

    def change(field: DataField) -> DataField:
        wanted = new_type.with_nullable(field.type.nullable)
        if wanted == field.type:
            return field
        if name is not None and name in (*schema.partition_keys, *schema.primary_keys, *schema.core.bucket_key):
            raise InvalidInputError(f"The type of {name!r} can't be changed: it is part of the table's keys.")
        if not has_cast(field.type, wanted):
            raise NotSupportedError(
                f"The column {dotted(path)} can't be changed from {field.type} to {wanted}: there is no such cast. "
                "Add a new column instead."
            )
        option = None if name is None else _ordered_by(schema.options, name)
        if option is not None and not is_widening(field.type, wanted):
            raise InvalidInputError(
                f"The type of {name!r} can't be changed from {field.type} to {wanted}: rows are compared by its values "
                f"(option '{option}'), and these would have another order. Add a new column instead."
            )
        if not is_implicit(field.type, wanted) and not explicit and schema.core.boolean(NO_EXPLICIT_CASTS, False):
            raise NotSupportedError(
                f"The column {dotted(path)} can't be changed from {field.type} to {wanted} while the table's option "
                f"'{NO_EXPLICIT_CASTS}' is true, because values may get lost or not be read. Add a new column instead."
            )
        changed = replace(field, type=wanted)
        _check_default(changed)
        return changed

    return replace(schema, fields=edit_field(schema.fields, path, change))


def _set_default(schema: TableSchema, name: str, default: str | None) -> TableSchema:
    column = replace(find(schema.fields, name, name), default_value=default)
    _check_default(column)
    return replace(schema, fields=replaced(schema.fields, column))


def _check_default(column: DataField) -> None:
    if column.default_value is not None:
        default_scalar(column.default_value, column.type, column=column.name)


def _column_name(path: ColumnPath) -> str | None:
    """Return the name of a whole column; None for a nested field, which is in no key and no option."""
    parts = path_of(path)
    return parts[0] if len(parts) == 1 else None


def _check_new_name(fields: Fields, name: str, path: ColumnPath) -> None:
    if any(f.name == name for f in fields):
        raise InvalidInputError(f"There is a column {dotted((*path_of(path)[:-1], name))} already.")


def _placed(rest: Fields, column: DataField, position: Position | None) -> Fields:
    if position is None or position.last:
        return (*rest, column)
    reference = position.before if position.after is None else position.after
    if reference is None:
        return (column, *rest)
    index = rest.index(find(rest, reference, reference)) + (position.after is not None)
    return (*rest[:index], column, *rest[index:])


def numbered(data_type: DataType, highest: int) -> tuple[DataType, int]:
    """Return the type with fresh ids for the fields of nested rows, and the highest id used."""
    match data_type:
        case RowType(fields=fields):
            fresh, highest = numbered_fields(fields, highest)
            return replace(data_type, fields=fresh), highest
        case ArrayType(element=element) | MultisetType(element=element):
            element, highest = numbered(element, highest)
            return replace(data_type, element=element), highest
        case MapType(key=key, value=value):
            key, highest = numbered(key, highest)
            value, highest = numbered(value, highest)
            return replace(data_type, key=key, value=value), highest
        case _:
            return data_type, highest


def numbered_fields(fields: Iterable[DataField], highest: int) -> tuple[tuple[DataField, ...], int]:
    """Return the fields, with nested ones, with ids above `highest`; and the highest of these."""
    result: list[DataField] = []
    for field in fields:
        field_id = highest + 1
        data_type, highest = numbered(field.type, field_id)
        result.append(replace(field, id=field_id, type=data_type))
    return tuple(result), highest


_FIELDS = "fields."
_GROUP = ".sequence-group"
_INDEX = "file-index."
_INDEX_COLUMNS = ".columns"
_LISTS = frozenset(
    {
        "bucket-key",
        "changelog-producer.row-deduplicate-ignore-fields",
        "clustering.columns",
        "partial-update.remove-record-on-sequence-group",
        "record-level.time-field",
        "rowkind.field",
        "self-optimizing.order-by",
        "sequence.field",
        "upsert-key",
    }
)
"""Options whose value is a list of columns."""
_SINGLE = frozenset({"record-level.time-field", "rowkind.field"})
"""Those of them whose value is one column."""


def renamed(options: Mapping[str, str], name: str, new_name: str) -> dict[str, str]:
    """Return the options after a column was renamed."""

    def in_list(names: str) -> str:
        return ",".join(_put(n, name, new_name) for n in names.split(","))

    out: dict[str, str] = {}
    for key, value in options.items():
        if key in _LISTS:
            out[key] = in_list(value)
        elif key.startswith(_FIELDS):
            # A column's name may have dots, the name of the option has none.
            columns, dot, option = key[len(_FIELDS) :].rpartition(".")
            is_group = f".{option}" == _GROUP
            named = in_list(columns) if is_group else _put(columns, name, new_name)
            out[f"{_FIELDS}{named}{dot}{option}"] = in_list(value) if is_group else value
        elif key.startswith(_INDEX) and key.endswith(_INDEX_COLUMNS):
            out[key] = in_list(value)
        elif key.startswith(_INDEX):
            kind, *rest = key[len(_INDEX) :].split(".")
            # Other options have fewer parts than those of one column's index.
            own = [_put(".".join(rest[:-1]), name, new_name), rest[-1]] if len(rest) > 1 else rest
            out[_INDEX + ".".join((kind, *own))] = value
        else:
            out[key] = value
    return out


def _renamed_nested(options: Mapping[str, str], path: ColumnPath, new_name: str) -> Mapping[str, str]:
    """Return the options after a field of the rows in an array was renamed, which may be a key of these rows."""
    match path_of(path):
        case (column, "element", name) if (keys := options.get(key := f"{_FIELDS}{column}.nested-key")) is not None:
            return {**options, key: ",".join(_put(n, name, new_name) for n in keys.split(","))}
        case _:
            return options


def names_columns(key: str) -> bool:
    """Return whether the option names columns, in its key or its value."""
    if key.startswith(_INDEX):
        return key.endswith(_INDEX_COLUMNS) or key.count(".") > 2
    return key in _LISTS or key.startswith(_FIELDS)


def naming(options: Mapping[str, str], name: str) -> Iterator[str]:
    """Yield the options that name the column."""
    elsewhere = f"{name} "
    for key, value in options.items():
        if renamed({key: value}, name, elsewhere) != {key: value}:
            yield key


def _ordered_by(options: Mapping[str, str], name: str) -> str | None:
    """Return the option by which rows are compared by values of the column; None without one."""

    def names(value: str) -> list[str]:
        return [each.strip() for each in value.split(",")]

    for key, value in options.items():
        columns, _, option = key.removeprefix(_FIELDS).rpartition(".")
        is_function = option == "aggregate-function" and value in ("max", "min")
        if key == "sequence.field":
            found = name in names(value)
        else:
            found = key.startswith(_FIELDS) and (f".{option}" == _GROUP or is_function) and name in names(columns)
        if found:
            return key
    return None


def _put(written: str, name: str, new_name: str) -> str:
    """Return the name after the renaming, with its blanks or the map key behind it."""
    column, bracket, rest = written.partition("[")
    return f"{new_name}{bracket}{rest}" if column.strip() == name else written


def replacement_of(current: TableSchema, wanted: TableSchema, *, schema_id: int) -> TableSchema:
    """Return the schema that replaces the current one by the wanted one, with the id `schema_id`.

    A column that keeps its name and its type keeps its id, so that changes read across the replacement contain its
    values; others get new ids. Raises InvalidInputError for other partition columns: manifests with both would be
    ambiguous.
    """
    if _partitioning(current) != _partitioning(wanted):
        raise InvalidInputError(
            f"A replacement keeps the partition columns ({', '.join(current.partition_keys) or 'none'}) and their "
            "types, because the table keeps its history. Drop the table and create it again for "
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
