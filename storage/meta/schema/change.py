"""Changes of a table's schema as values (Paimon's documentation: concepts/schema-evolution); `apply` applies them.

A column is named by its name, and a nested field by a path: `("address", "city")`. The element of an ARRAY is called
`element`, the value of a MAP `value`, as in Spark and Paimon: `("orders", "element", "price")`. `edit_fields` and
`edit_field` change the fields at a path.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from interbed.storage.base.errors import InvalidInputError, NotSupportedError, plain_errors
from interbed.storage.base.types.arrow import data_type as given_type
from interbed.storage.base.types.data_type import ArrayType, DataField, DataType, MapType, MultisetType, RowType
from interbed.storage.meta.options.core import option_text

ColumnPath: TypeAlias = str | tuple[str, ...]
"""Name of a column (dots in it are part of the name), or path of a nested field."""

GivenPath: TypeAlias = str | Sequence[str]
GivenType: TypeAlias = DataType | pa.DataType | str


@dataclass(frozen=True, slots=True)
class Position:
    """Position of a column among the columns of the same table or ROW.

    It is the first, unless one of `after` and `before` names another column or `last` is set.
    """

    after: str | None = None
    before: str | None = None
    last: bool = False


@plain_errors
@dataclass(frozen=True, slots=True)
class Move:
    """Column with its new position, for `SchemaChange.update_column_position` and `add_column`."""

    field_name: "ColumnPath"
    position: Position

    @staticmethod
    def first(field_name: "GivenPath") -> "Move":
        """Move the column to the front."""
        return Move(_path(field_name), Position())

    @staticmethod
    def last(field_name: "GivenPath") -> "Move":
        """Move the column to the end."""
        return Move(_path(field_name), Position(last=True))

    @staticmethod
    def after(field_name: "GivenPath", reference_field_name: str) -> "Move":
        """Move the column behind another one."""
        return Move(_path(field_name), Position(after=_text("name of a column", reference_field_name)))

    @staticmethod
    def before(field_name: "GivenPath", reference_field_name: str) -> "Move":
        """Move the column in front of another one."""
        return Move(_path(field_name), Position(before=_text("name of a column", reference_field_name)))


class SchemaChange:
    """One change of a table's schema, made by the methods below; `catalog.alter_table` takes one or a list of them.

    A column is named by its name, a nested field by its path: `["address", "city"]`; the element of an ARRAY is
    `element`, the value of a MAP is `value`. Types are text (`"BIGINT"`), DataTypes or Arrow types. The methods have
    pypaimon's names and arguments, and raise InvalidInputError for an invalid type or a name that is no text;
    everything else is checked when the change is applied.
    """

    __slots__ = ()

    @staticmethod
    def set_option(key: str, value: object) -> "SetOption":
        """Set a table option."""
        return SetOption(_text("name of an option", key), option_text(value))

    @staticmethod
    def remove_option(key: str) -> "RemoveOption":
        """Reset a table option to its default."""
        return RemoveOption(_text("name of an option", key))

    @staticmethod
    def update_comment(comment: str | None) -> "UpdateComment":
        """Change the table's comment; None removes it."""
        return UpdateComment(comment)

    @staticmethod
    def add_column(
        field_name: "GivenPath",
        data_type: "GivenType",
        comment: str | None = None,
        move: Move | None = None,
        *,
        default_value: str | None = None,
    ) -> "AddColumn":
        """Add a nullable column or nested field, at the end unless `move` is given. Existing rows have null there.

        `default_value` is written from now on where rows have no value for it. Raises InvalidInputError for a move of
        another column.
        """
        path = _path(field_name)
        if move is not None and move.field_name != path:
            raise InvalidInputError(f"The new column {path!r} has the position of another one, {move.field_name!r}.")
        position = None if move is None else move.position
        return AddColumn(path, given_type(data_type), comment, position, default_value)

    @staticmethod
    def rename_column(field_name: "GivenPath", new_name: str) -> "RenameColumn":
        """Rename a column or a nested field."""
        return RenameColumn(_path(field_name), _text("new name of a column", new_name))

    @staticmethod
    def drop_column(field_name: "GivenPath") -> "DropColumn":
        """Drop a column or a nested field; its data stay in old files, unread."""
        return DropColumn(_path(field_name))

    @staticmethod
    def update_column_type(
        field_name: "GivenPath", new_data_type: "GivenType", keep_nullability: bool = False
    ) -> "UpdateColumnType":
        """Change a column's type to one that its values can be cast to (see UpdateColumnType).

        The column admits nulls as the new type does, or as before with `keep_nullability`.
        """
        return UpdateColumnType(_path(field_name), given_type(new_data_type), keep_nullability=keep_nullability)

    @staticmethod
    def update_column_nullability(field_name: "GivenPath", new_nullability: bool) -> "UpdateColumnNullability":
        """Let a column admit nulls (True), or none (False).

        For False the table's option `alter-column-null-to-not-null.disabled` has to be `false`.
        """
        return UpdateColumnNullability(_path(field_name), new_nullability)

    @staticmethod
    def update_column_comment(field_name: "GivenPath", comment: str | None) -> "UpdateColumnComment":
        """Change a column's comment; None removes it."""
        return UpdateColumnComment(_path(field_name), comment)

    @staticmethod
    def update_column_default_value(field_names: "GivenPath", default_value: str | None) -> "UpdateColumnDefault":
        """Change the default for rows without a value for a column; None removes it. Existing rows don't change.

        Raises NotSupportedError for a nested field.
        """
        path = _path(field_names)
        if not isinstance(path, str):
            raise NotSupportedError(f"Only columns of a table have defaults, not the nested field {'.'.join(path)!r}.")
        if default_value is not None:
            _text("default value of a column", default_value)
        return UpdateColumnDefault(path, default_value)

    @staticmethod
    def drop_primary_key() -> "DropPrimaryKey":
        """Make a table with a primary key one without; the table may have no snapshots."""
        return DropPrimaryKey()

    @staticmethod
    def update_column_position(move: Move) -> "UpdateColumnPosition":
        """Move a column or a nested field: `Move.first("x")`, `Move.after("x", "y")`."""
        return UpdateColumnPosition(move.field_name, move.position)


@dataclass(frozen=True, slots=True)
class SetOption(SchemaChange):
    """Set a table option."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class RemoveOption(SchemaChange):
    """Reset a table option to its default."""

    key: str


@dataclass(frozen=True, slots=True)
class UpdateComment(SchemaChange):
    """Change the table's comment; None removes it."""

    comment: str | None


@dataclass(frozen=True, slots=True)
class DropPrimaryKey(SchemaChange):
    """Make a table with a primary key one without; the table may have no snapshots."""


@dataclass(frozen=True, slots=True)
class AddColumn(SchemaChange):
    """Add a nullable column or nested field, at the end unless a position is given."""

    name: ColumnPath
    type: DataType
    description: str | None = None
    position: Position | None = None
    default_value: str | None = None


@dataclass(frozen=True, slots=True)
class RenameColumn(SchemaChange):
    """Rename a column or a nested field."""

    name: ColumnPath
    new_name: str


@dataclass(frozen=True, slots=True)
class DropColumn(SchemaChange):
    """Drop a column or a nested field; its data stays in old files, unread."""

    name: ColumnPath


@dataclass(frozen=True, slots=True)
class UpdateColumnType(SchemaChange):
    """Change the type of a column, a nested field, an element or a map's value; rows of old files are cast to it.

    It admits nulls as before, or as the type does without `keep_nullability`. With the table's option
    `disable-explicit-type-casting` = `true`, only Paimon's implicit casts are possible, unless `explicit`.
    """

    name: ColumnPath
    type: DataType
    explicit: bool = False
    keep_nullability: bool = True


@dataclass(frozen=True, slots=True)
class UpdateColumnNullability(SchemaChange):
    """Let a column admit nulls; or none, with the option `alter-column-null-to-not-null.disabled` = `false`."""

    name: ColumnPath
    nullable: bool


@dataclass(frozen=True, slots=True)
class UpdateColumnComment(SchemaChange):
    """Change a column's description; None removes it."""

    name: ColumnPath
    description: str | None


@dataclass(frozen=True, slots=True)
class UpdateColumnPosition(SchemaChange):
    """Move a column or a nested field."""

    name: ColumnPath
    position: Position


@dataclass(frozen=True, slots=True)
class UpdateColumnDefault(SchemaChange):
    """Change the default for rows without a value for a column; None removes it. Existing rows stay unchanged.

    The default is text as in `storage.base.types.default_value`.
    """

    name: str
    default_value: str | None


def _text(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInputError(f"The {what} is text, not {value!r}.")
    return value


def _path(given: GivenPath) -> ColumnPath:
    """Return the column that a caller names; a path of one name is that column. Raises InvalidInputError."""
    path = (given,) if isinstance(given, str) else tuple(given)
    if not path or not all(isinstance(name, str) for name in path):
        raise InvalidInputError(f"{given!r} names no column: write its name, or the path of a nested field as a list.")
    return path[0] if len(path) == 1 else path


ELEMENT = "element"
KEY = "key"
VALUE = "value"

Fields = tuple[DataField, ...]
EditFields = Callable[[Fields, str], Fields]
"""Edit of the fields of one table or ROW at the field of that name."""
EditField = Callable[[DataField], DataField]


def path_of(path: ColumnPath) -> tuple[str, ...]:
    """Return the path as a tuple; raises InvalidInputError for an empty one."""
    parts = (path,) if isinstance(path, str) else tuple(path)
    if not parts or not all(parts):
        raise InvalidInputError("A column's path has at least one name, and none that is empty.")
    return parts


def dotted(path: ColumnPath) -> str:
    """Return the path in the form for errors."""
    return repr(".".join(path_of(path)))


def find(fields: Fields, name: str, path: ColumnPath) -> DataField:
    """Return the field of that name; raises InvalidInputError naming the existing ones."""
    for field in fields:
        if field.name == name:
            return field
    raise InvalidInputError(
        f"There is no column {dotted(path)}: {name!r} is none of {', '.join(f.name for f in fields) or 'no fields'}."
    )


def edit_fields(fields: Fields, path: ColumnPath, edit: EditFields) -> Fields:
    """Return the fields with those of the innermost ROW edited.

    Raises InvalidInputError when the path ends elsewhere.
    """
    parts = path_of(path)

    def in_fields(level: Fields, rest: tuple[str, ...]) -> Fields:
        if len(rest) == 1:
            return edit(level, rest[0])
        field = find(level, rest[0], path)
        return replaced(level, replace(field, type=in_type(field.type, rest[1:])))

    def in_type(data_type: DataType, rest: tuple[str, ...]) -> DataType:
        if isinstance(data_type, RowType):
            return replace(data_type, fields=in_fields(data_type.fields, rest))
        if len(rest) == 1:
            raise InvalidInputError(
                f"{dotted(path)} is no field of a ROW: only its type can be changed, and whether it admits nulls."
            )
        return with_part(data_type, rest[0], lambda part: in_type(part, rest[1:]), path)

    return in_fields(fields, parts)


def edit_field(fields: Fields, path: ColumnPath, edit: EditField) -> Fields:
    """Return the fields with the one at the path edited; an element or a map's value is passed as a field, too."""
    parts = path_of(path)

    def in_fields(level: Fields, rest: tuple[str, ...]) -> Fields:
        field = find(level, rest[0], path)
        if len(rest) == 1:
            return replaced(level, edit(field))
        return replaced(level, replace(field, type=in_type(field.type, rest[1:])))

    def in_type(data_type: DataType, rest: tuple[str, ...]) -> DataType:
        if isinstance(data_type, RowType):
            return replace(data_type, fields=in_fields(data_type.fields, rest))

        def inside(part: DataType) -> DataType:
            # An element has no field of its own; only the type of the edited field is used.
            return in_type(part, deeper) if deeper else edit(DataField(id=-1, name=name, type=part)).type

        name, deeper = rest[0], rest[1:]
        return with_part(data_type, name, inside, path)

    return in_fields(fields, parts)


def with_part(data_type: DataType, name: str, edit: Callable[[DataType], DataType], path: ColumnPath) -> DataType:
    """Return the collection type with its element or value edited.

    Raises InvalidInputError, and NotSupportedError for keys.
    """
    match data_type:
        case ArrayType(element=element) if name == ELEMENT:
            return replace(data_type, element=edit(element))
        case MapType(value=value) if name == VALUE:
            return replace(data_type, value=edit(value))
        case MapType() | MultisetType() if name in (KEY, ELEMENT):
            raise NotSupportedError(
                f"{dotted(path)} can't be changed: it is part of a map's key, by which existing entries are found."
            )
        case ArrayType() | MapType():
            part = ELEMENT if isinstance(data_type, ArrayType) else VALUE
            raise InvalidInputError(f"There is no column {dotted(path)}: {name!r} stands where {part!r} has to.")
        case _:
            raise InvalidInputError(f"There is no column {dotted(path)}: nothing is nested above {name!r}.")


def replaced(fields: Fields, field: DataField, *, old_name: str | None = None) -> Fields:
    """Return the fields with one replaced by another of its name, or of `old_name`."""
    name = field.name if old_name is None else old_name
    return tuple(field if f.name == name else f for f in fields)
