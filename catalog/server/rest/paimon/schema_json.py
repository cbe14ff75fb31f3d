"""Schemas and changes of schemas: JSON to values and back, and the refusals of changes.

A change has an `action` and members by its kind (paimon-api's SchemaChange). A refused change names its column: missing
(404), taken (409), of a type without a conversion (500, as Paimon's server answers). Other changes are wrong (400).
"""

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from interbed.catalog.server.rest.interface import RestError
from interbed.catalog.server.rest.paimon.messages import TableSchemaJson
from interbed.catalog.server.rest.paimon.refusals import ResourceType, existing, invalid, missing
from interbed.storage.base.errors import CorruptFileError, InterbedError, InvalidInputError, NotSupportedError
from interbed.storage.base.types.casting.rules import has_cast
from interbed.storage.base.types.data_type import (
    DataField,
    DataType,
    RowType,
    field_from_json,
    field_to_json,
    type_from_json,
)
from interbed.storage.meta.schema.change import (
    AddColumn,
    DropColumn,
    Move,
    Position,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    path_of,
)
from interbed.storage.meta.schema.table_schema import Schema, TableSchema


def given_schema(given: TableSchemaJson) -> Schema:
    """Return the schema of a new table. RestError with status 400, InvalidInputError."""
    return Schema(
        fields=given_fields(given.fields),
        partition_keys=given.partition_keys,
        primary_keys=given.primary_keys,
        options=given.options,
        comment=given.comment,
    )


def given_fields(fields: Sequence[Mapping[str, Any]]) -> list[DataField]:
    """Return fields. RestError with status 400 for JSON of no fields."""
    try:
        return [field_from_json(field) for field in fields]
    except (CorruptFileError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise invalid(f"The fields are not those of a schema: {error}") from error


def shown_schema(schema: TableSchema) -> TableSchemaJson:
    """Return the JSON of a table's schema."""
    return TableSchemaJson(
        fields=[field_to_json(field) for field in schema.fields],
        partition_keys=list(schema.partition_keys),
        primary_keys=list(schema.primary_keys),
        options=dict(schema.options),
        comment=schema.comment,
    )


def given_changes(changes: Sequence[Mapping[str, Any]]) -> list[SchemaChange]:
    """Return changes of a schema. RestError: status 400 for other JSON, 501 for an action that is not supported."""
    return [_change(change) for change in changes]


def _change(change: Mapping[str, Any]) -> SchemaChange:
    action = change.get("action")
    read = _ACTIONS.get(str(action))
    if read is None:
        raise RestError(HTTPStatus.NOT_IMPLEMENTED, "", f"Changes of a schema by {action!r} are not supported.")
    try:
        return read(change)
    except (CorruptFileError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise invalid(f"The change {action} of a schema is invalid: {error}") from error


def _path(change: Mapping[str, Any]) -> list[str]:
    names = change["fieldNames"]
    if not isinstance(names, list):
        raise TypeError("fieldNames is no list")
    return names


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def _type(value: Any) -> DataType:
    return type_from_json(value)


def _move(move: Mapping[str, Any], inside: Sequence[str] = ()) -> Move:
    # A nested field of Paimon's moves is named by its last name, and stays in its row.
    name = [*inside[:-1], move["fieldName"]]
    match str(move["type"]).upper():
        case "FIRST":
            return Move.first(name)
        case "LAST":
            return Move.last(name)
        case "AFTER":
            return Move.after(name, move["referenceFieldName"])
        case "BEFORE":
            return Move.before(name, move["referenceFieldName"])
        case other:
            raise ValueError(f"a column is moved FIRST, LAST, AFTER or BEFORE, not {other}")


def _add(change: Mapping[str, Any]) -> SchemaChange:
    path, move = _path(change), change.get("move")
    return SchemaChange.add_column(
        path, _type(change["dataType"]), change.get("comment"), None if move is None else _move(move, path)
    )


_ACTIONS: Mapping[str, Callable[[Mapping[str, Any]], SchemaChange]] = {
    "setOption": lambda c: SchemaChange.set_option(c["key"], c["value"]),
    "removeOption": lambda c: SchemaChange.remove_option(c["key"]),
    "updateComment": lambda c: SchemaChange.update_comment(c.get("comment")),
    "addColumn": _add,
    "renameColumn": lambda c: SchemaChange.rename_column(_path(c), c["newName"]),
    "dropColumn": lambda c: SchemaChange.drop_column(_path(c)),
    "updateColumnType": lambda c: SchemaChange.update_column_type(
        _path(c), _type(c["newDataType"]), _flag(c.get("keepNullability", False))
    ),
    "updateColumnNullability": lambda c: SchemaChange.update_column_nullability(_path(c), _flag(c["newNullability"])),
    "updateColumnComment": lambda c: SchemaChange.update_column_comment(_path(c), c.get("newComment")),
    "updateColumnDefaultValue": lambda c: SchemaChange.update_column_default_value(_path(c), c.get("newDefaultValue")),
    "dropPrimaryKey": lambda c: SchemaChange.drop_primary_key(),
    "updateColumnPosition": lambda c: SchemaChange.update_column_position(_move(c["move"])),
}


def refused_change(schema: TableSchema, changes: Sequence[SchemaChange], error: InterbedError) -> RestError | None:
    """Return the refusal of changes that a table did not take; None for an error that is not about its columns.

    The names of columns follow the changes: a column may be renamed and then dropped.
    """
    if not isinstance(error, InvalidInputError | NotSupportedError):
        return None
    fields: dict[tuple[str, ...], DataType] = dict(_paths(schema.fields))
    top = len(schema.fields)
    for change in changes:
        found = _fault(fields, change) or _fault_of_keys(schema, change)
        if found is not None:
            return found
        top += _follow(fields, change)
        if top == 0:
            return invalid("Cannot drop all fields in table")
    return None


def _paths(fields: Sequence[DataField], above: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], DataType]]:
    found: list[tuple[tuple[str, ...], DataType]] = []
    for field in fields:
        found.append(((*above, field.name), field.type))
        if isinstance(field.type, RowType):
            found += _paths(field.type.fields, (*above, field.name))
    return found


_OF_COLUMN = (
    DropColumn,
    RenameColumn,
    UpdateColumnType,
    UpdateColumnNullability,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnPosition,
)


def _fault(fields: Mapping[tuple[str, ...], DataType], change: SchemaChange) -> RestError | None:
    if isinstance(change, AddColumn):
        path = path_of(change.name)
        return _taken(path) if path in fields else _reference(fields, path, change.position)
    if not isinstance(change, _OF_COLUMN):
        return None
    path = path_of(change.name)
    if path not in fields:
        # An element of a list or a map has no name of its own.
        return None if any(path[:end] in fields for end in range(1, len(path))) else _no_column(path)
    if isinstance(change, RenameColumn) and (renamed := (*path[:-1], change.new_name)) in fields:
        return _taken(renamed)
    if isinstance(change, UpdateColumnPosition):
        return _reference(fields, path, change.position)
    if isinstance(change, UpdateColumnType) and not has_cast(fields[path], change.type):
        name, old = ".".join(path), fields[path]
        message = f"Column type {name}[{old}] cannot be converted to {change.type} without loosing information."
        return RestError(HTTPStatus.INTERNAL_SERVER_ERROR, "", message)
    return None


def _fault_of_keys(schema: TableSchema, change: SchemaChange) -> RestError | None:
    """Return the refusal of a change that the keys of the table do not allow, in the words that Java's tests expect."""
    match change:
        case UpdateColumnType(name=name) if name in schema.partition_keys:
            return invalid(f"Cannot update partition column: [{name}]")
        case UpdateColumnNullability(name=name, nullable=True) if name in schema.primary_keys:
            return invalid(f"Cannot change nullability of primary key {name}")
        case SetOption(key="changelog-producer", value=value) if value != "none" and not schema.primary_keys:
            return invalid(f"Can not set changelog-producer on table without primary keys: {value}")
    return None


def _reference(
    fields: Mapping[tuple[str, ...], DataType], path: tuple[str, ...], position: Position | None
) -> RestError | None:
    reference = None if position is None else position.after or position.before
    if reference is None or (*path[:-1], reference) in fields:
        return None
    return _no_column((*path[:-1], reference))


def _follow(fields: dict[tuple[str, ...], DataType], change: SchemaChange) -> int:
    """Apply a change to the names of columns; return the change of the number of columns."""
    if isinstance(change, AddColumn):
        path = path_of(change.name)
        fields[path] = change.type
        return 1 if len(path) == 1 else 0
    if isinstance(change, DropColumn):
        path = path_of(change.name)
        fields.pop(path, None)
        return -1 if len(path) == 1 else 0
    if isinstance(change, RenameColumn):
        path = path_of(change.name)
        if path in fields:
            fields[(*path[:-1], change.new_name)] = fields.pop(path)
    return 0


def _no_column(path: tuple[str, ...]) -> RestError:
    name = ".".join(path)
    return missing(ResourceType.COLUMN, name, f"Column {name} does not exist.")


def _taken(path: tuple[str, ...]) -> RestError:
    name = ".".join(path)
    return existing(ResourceType.COLUMN, name, f"Column {name} already exists.")
