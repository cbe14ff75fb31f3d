"""Changes of a table's schema as values (Paimon's documentation: concepts/schema-evolution); `apply` carries them out.

A column is named by its name, and a field inside of one by a path: `("address", "city")`. The element of an ARRAY is
`element`, the value of a MAP is `value`: `("orders", "element", "price")`.
"""

from dataclasses import dataclass

from interbed.storage.base.types.data_type import DataType

ColumnPath = str | tuple[str, ...]
"""A column's name (dots in it are part of the name), or the path of a nested field."""


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
    """Where a column goes: first, or after another column of the same table or ROW."""

    after: str | None = None


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Add a nullable column or nested field, at the end unless a position is given."""

    name: ColumnPath
    type: DataType
    description: str | None = None
    position: Position | None = None
    default_value: str | None = None


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Rename a column or a nested field."""

    name: ColumnPath
    new_name: str


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Drop a column or a nested field; its data stays in old files, unread."""

    name: ColumnPath


@dataclass(frozen=True, slots=True)
class UpdateColumnType:
    """Widen the type of a column, a nested field, an element or a map's value; whether it admits nulls stays as it is.

    `explicit`, or with the table's option `disable-explicit-type-casting` = `false`, any type that values can be cast
    to is possible, although they may lose something.
    """

    name: ColumnPath
    type: DataType
    explicit: bool = False


@dataclass(frozen=True, slots=True)
class UpdateColumnNullability:
    """Let a column admit nulls; or none, with the option `alter-column-null-to-not-null.disabled` = `false`."""

    name: ColumnPath
    nullable: bool


@dataclass(frozen=True, slots=True)
class UpdateColumnComment:
    """Change a column's description; None removes it."""

    name: ColumnPath
    description: str | None


@dataclass(frozen=True, slots=True)
class UpdateColumnPosition:
    """Move a column or a nested field."""

    name: ColumnPath
    position: Position


@dataclass(frozen=True, slots=True)
class UpdateColumnDefault:
    """Change what is written where rows have no value for a column; None removes it. Existing rows stay as they are.

    The default is text as in `storage.types.default_value`.
    """

    name: str
    default_value: str | None


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
    | UpdateColumnDefault
)
