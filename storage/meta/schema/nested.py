"""Editing the fields of a schema at a path into nested types. Pure.

The element of an ARRAY is called `element`, the value of a MAP `value`, as Spark and Paimon call them; between them
and the fields of a ROW any nesting is possible: `("orders", "element", "price")`.
"""

from collections.abc import Callable
from dataclasses import replace

from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.types.data_type import ArrayType, DataField, DataType, MapType, MultisetType, RowType
from interbed.storage.meta.schema.change import ColumnPath

ELEMENT = "element"
KEY = "key"
VALUE = "value"

Fields = tuple[DataField, ...]
EditFields = Callable[[Fields, str], Fields]
"""The fields of one table or ROW, edited at the field of that name."""
EditField = Callable[[DataField], DataField]


def path_of(path: ColumnPath) -> tuple[str, ...]:
    """The path as a tuple; raises InvalidInputError for an empty one."""
    parts = (path,) if isinstance(path, str) else tuple(path)
    if not parts or not all(parts):
        raise InvalidInputError("A column's path has at least one name, and none that is empty.")
    return parts


def dotted(path: ColumnPath) -> str:
    """The path as errors name it."""
    return repr(".".join(path_of(path)))


def find(fields: Fields, name: str, path: ColumnPath) -> DataField:
    """The field of that name; raises InvalidInputError naming those that there are."""
    for field in fields:
        if field.name == name:
            return field
    raise InvalidInputError(
        f"There is no column {dotted(path)}: {name!r} is none of {', '.join(f.name for f in fields) or 'no fields'}."
    )


def edit_fields(fields: Fields, path: ColumnPath, edit: EditFields) -> Fields:
    """The fields with those of the innermost ROW edited; raises InvalidInputError when the path ends elsewhere."""
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
    """The fields with the one at the path edited; an element or a map's value is given as a field, too."""
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
            # An element has no field of its own, and of the field only the type is taken back.
            return in_type(part, deeper) if deeper else edit(DataField(id=-1, name=name, type=part)).type

        name, deeper = rest[0], rest[1:]
        return with_part(data_type, name, inside, path)

    return in_fields(fields, parts)


def with_part(data_type: DataType, name: str, edit: Callable[[DataType], DataType], path: ColumnPath) -> DataType:
    """The collection type with its element or value edited; raises InvalidInputError, NotSupportedError for keys."""
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
    """The fields with one exchanged for another of its name, or for that of another name."""
    name = field.name if old_name is None else old_name
    return tuple(field if f.name == name else f for f in fields)
