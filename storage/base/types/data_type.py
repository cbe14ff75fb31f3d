"""Paimon's logical data types as immutable values, and their text and JSON in schema files.

An atomic type is a string such as `DECIMAL(10, 2) NOT NULL` or `STRING`; a nested type is a JSON object. The
constructors also take pypaimon's arguments: `AtomicType("VARCHAR(10)", False)`, `ArrayType(True, element)`,
`DataField(0, "id", AtomicType("INT"))`. Source: Paimon's documentation, concepts/data-types and spec/schema.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple, Self, TypeAlias, overload

from interbed.storage.base.errors import CorruptFileError, InvalidInputError, NotSupportedError, plain_errors


class TypeRoot(StrEnum):
    """Name of an atomic type in schema files."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"


INTEGERS = frozenset({TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT})
STRINGS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
BINARIES = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})

_LENGTH_DEFAULT = {
    TypeRoot.CHAR: 1,
    TypeRoot.VARCHAR: 1,
    TypeRoot.BINARY: 1,
    TypeRoot.VARBINARY: 1,
}
_PRECISION_DEFAULT = {
    TypeRoot.DECIMAL: 10,
    TypeRoot.TIME: 0,
    TypeRoot.TIMESTAMP: 6,
    TypeRoot.TIMESTAMP_LTZ: 6,
}
_PRECISION_RANGE = {
    TypeRoot.DECIMAL: (1, 38),
    TypeRoot.TIME: (0, 9),
    TypeRoot.TIMESTAMP: (0, 9),
    TypeRoot.TIMESTAMP_LTZ: (0, 9),
}


MAX_LENGTH = 2**31 - 1
"""The length of STRING, a VARCHAR, and of BYTES, a VARBINARY."""

_NOT_NULL = re.compile(r"\s+NOT\s+NULL\s*$")
_ATOMIC = re.compile(
    r"^\s*(?P<name>[A-Z_]+(?:\s+PRECISION)?)\s*(?:\(\s*(?P<first>\d+)\s*(?:,\s*(?P<second>\d+)\s*)?\))?"
    r"(?P<suffix>\s+WITH(?:OUT)?(?:\s+LOCAL)?\s+TIME\s+ZONE)?\s*$"
)
_ALIASES = {"INTEGER": "INT", "DEC": "DECIMAL", "NUMERIC": "DECIMAL", "DOUBLE PRECISION": "DOUBLE"}
_WIDEST = {"STRING": "VARCHAR", "BYTES": "VARBINARY"}
_WITH_LENGTH = frozenset({"CHAR", "VARCHAR", "BINARY", "VARBINARY"})
UNSUPPORTED = frozenset({"VARIANT", "BLOB", "VECTOR", "GEOMETRY", "GEOGRAPHY"})


class AtomicText(NamedTuple):
    """Parts of an atomic type's text; `root` is the name with aliases resolved, which may be unknown."""

    root: str
    length: int | None
    precision: int | None
    scale: int | None
    nullable: bool


def split_atomic(text: str) -> AtomicText | None:
    """Return the parts of `VARCHAR(10) NOT NULL`, None for other text. Raises NotSupportedError for BLOB."""
    body, nullable = split_nullable(text.upper())
    match = _ATOMIC.match(body)
    if match is None:
        return None
    name = " ".join(match["name"].split())
    name = _ALIASES.get(name, name)
    if name in UNSUPPORTED:
        raise NotSupportedError(f"Columns of type {name} are not supported yet.")
    if name in _WIDEST:
        return AtomicText(_WIDEST[name], MAX_LENGTH, None, None, nullable)
    if name == "TIMESTAMP" and "LOCAL" in (match["suffix"] or ""):
        name = "TIMESTAMP_LTZ"
    first = int(match["first"]) if match["first"] else None
    second = int(match["second"]) if match["second"] else None
    if name in _WITH_LENGTH:
        return AtomicText(name, first, None, None, nullable)
    return AtomicText(name, None, first, second, nullable)


def split_nullable(text: str) -> tuple[str, bool]:
    """Return the text without `NOT NULL` at its end, and whether it admits nulls."""
    stripped, count = _NOT_NULL.subn("", text)
    return stripped, count == 0


def atomic_text(root: str, length: int | None, precision: int | None, scale: int | None) -> str:
    """Return the text of a type without NOT NULL."""
    if root == "VARCHAR" and length == MAX_LENGTH:
        return "STRING"
    if root == "VARBINARY" and length == MAX_LENGTH:
        return "BYTES"
    if root in _WITH_LENGTH:
        return f"{root}({length})"
    if root == "DECIMAL":
        return f"DECIMAL({precision}, {scale})"
    if root in ("TIME", "TIMESTAMP"):
        return f"{root}({precision})"
    if root == "TIMESTAMP_LTZ":
        return f"TIMESTAMP({precision}) WITH LOCAL TIME ZONE"
    return root


@plain_errors
@dataclass(frozen=True, slots=True, repr=False)
class DataType:
    """Logical type of a column; `nullable` says whether it admits nulls. Base of the classes below."""

    nullable: bool = field(default=True, kw_only=True)

    def __repr__(self) -> str:
        # Messages show lists and tuples of types, too, in the form of SQL.
        return f"{type(self).__name__}({str(self)!r})"

    def with_nullable(self, nullable: bool) -> Self:
        """Return the same type, nullable or not."""
        return replace(self, nullable=nullable)

    def children(self) -> Iterator["DataType"]:
        """Return the types nested directly in this one, none for an atomic type."""
        return iter(())

    def to_dict(self) -> Any:
        """Return the type as in a schema file: text for an atomic type, a dict for a nested one."""
        raise TypeError(f"No JSON form for {self!r}.")

    @staticmethod
    def from_dict(data: Any) -> "DataType":
        """Return the type of a to_dict result. Raises CorruptFileError for other data, NotSupportedError for BLOB."""
        return _parsed(data)


@plain_errors
@dataclass(frozen=True, slots=True, init=False, repr=False)
class AtomicType(DataType):
    """Type without nested types; `length` counts characters or bytes, `precision` digits.

    The constructor also takes the text, as in pypaimon: `AtomicType("DECIMAL(10, 2)", False)`. Raises
    InvalidInputError for the text of no type and for invalid lengths and precisions, NotSupportedError for BLOB and
    the like.
    """

    root: TypeRoot
    length: int | None = None
    precision: int | None = None
    scale: int | None = None

    def __init__(
        self,
        root: TypeRoot | str,
        nullable: bool = True,
        *,
        length: int | None = None,
        precision: int | None = None,
        scale: int | None = None,
    ) -> None:
        if not isinstance(root, TypeRoot):
            text = _known(root)
            if text is None:
                raise InvalidInputError(f"Unknown data type {root!r}.")
            root = TypeRoot(text.root)
            length, precision, scale = text.length, text.precision, text.scale
            nullable = nullable and text.nullable
        _set(self, nullable=nullable, root=root)
        _set(self, length=_length(root, length), precision=_precision(root, precision))
        _set(self, scale=_scale(root, self.precision, scale))

    def __str__(self) -> str:
        return self.type + _suffix(self)

    def to_dict(self) -> str:
        return str(self)

    @property
    def type(self) -> str:
        """The type's text without NOT NULL: `DECIMAL(10, 2)`."""
        return atomic_text(self.root, self.length, self.precision, self.scale)


def _known(text: str) -> AtomicText | None:
    """Return the parts of an atomic type's text; None for the text of no type."""
    found = split_atomic(text)
    return found if found is not None and found.root in TypeRoot.__members__ else None


def _length(root: TypeRoot, given: int | None) -> int | None:
    if root not in _LENGTH_DEFAULT:
        if given is not None:
            raise InvalidInputError(f"{root} takes no length.")
        return None
    length = _LENGTH_DEFAULT[root] if given is None else given
    if not 1 <= length <= MAX_LENGTH:
        raise InvalidInputError(f"{root} takes a length from 1 to {MAX_LENGTH}, not {length}.")
    return length


def _precision(root: TypeRoot, given: int | None) -> int | None:
    if root not in _PRECISION_DEFAULT:
        if given is not None:
            raise InvalidInputError(f"{root} takes no precision.")
        return None
    precision = _PRECISION_DEFAULT[root] if given is None else given
    low, high = _PRECISION_RANGE[root]
    if not low <= precision <= high:
        raise InvalidInputError(f"{root} takes a precision from {low} to {high}, not {precision}.")
    return precision


def _scale(root: TypeRoot, precision: int | None, given: int | None) -> int | None:
    if root is not TypeRoot.DECIMAL:
        if given is not None:
            raise InvalidInputError(f"{root} takes no scale.")
        return None
    scale = 0 if given is None else given
    if not 0 <= scale <= (precision or 0):
        raise InvalidInputError(f"DECIMAL({precision}) takes a scale from 0 to its precision, not {scale}.")
    return scale


@plain_errors
@dataclass(frozen=True, slots=True, init=False, repr=False)
class ArrayType(DataType):
    """List of elements of one type."""

    element: DataType

    @overload
    def __init__(self, element: DataType, /, *, nullable: bool = True) -> None: ...
    @overload
    def __init__(self, nullable: bool, element_type: DataType) -> None: ...
    @overload
    def __init__(self, *, element: DataType, nullable: bool = True) -> None: ...
    def __init__(self, *given: DataType | bool, **named: DataType | bool) -> None:
        _set_nested(self, ("element",), given, named)

    def __str__(self) -> str:
        return f"ARRAY<{self.element}>{_suffix(self)}"

    def to_dict(self) -> dict[str, Any]:
        return {"type": "ARRAY" + _suffix(self), "element": self.element.to_dict()}

    def children(self) -> Iterator[DataType]:
        yield self.element


@plain_errors
@dataclass(frozen=True, slots=True, init=False, repr=False)
class MapType(DataType):
    """Map from keys to values. Keys may have any type, as in Paimon, and are never null, as in Arrow."""

    key: DataType
    value: DataType

    @overload
    def __init__(self, key: DataType, value: DataType, /, *, nullable: bool = True) -> None: ...
    @overload
    def __init__(self, nullable: bool, key_type: DataType, value_type: DataType) -> None: ...
    @overload
    def __init__(self, *, key: DataType, value: DataType, nullable: bool = True) -> None: ...
    def __init__(self, *given: DataType | bool, **named: DataType | bool) -> None:
        _set_nested(self, ("key", "value"), given, named)

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>{_suffix(self)}"

    def to_dict(self) -> dict[str, Any]:
        return {"type": "MAP" + _suffix(self), "key": self.key.to_dict(), "value": self.value.to_dict()}

    def children(self) -> Iterator[DataType]:
        yield self.key
        yield self.value


@plain_errors
@dataclass(frozen=True, slots=True, init=False, repr=False)
class MultisetType(DataType):
    """Multiset of elements; stored as a map from element to its count, an INT NOT NULL."""

    element: DataType

    @overload
    def __init__(self, element: DataType, /, *, nullable: bool = True) -> None: ...
    @overload
    def __init__(self, nullable: bool, element_type: DataType) -> None: ...
    @overload
    def __init__(self, *, element: DataType, nullable: bool = True) -> None: ...
    def __init__(self, *given: DataType | bool, **named: DataType | bool) -> None:
        _set_nested(self, ("element",), given, named)

    def __str__(self) -> str:
        return f"MULTISET<{self.element}>{_suffix(self)}"

    def to_dict(self) -> dict[str, Any]:
        return {"type": "MULTISET" + _suffix(self), "element": self.element.to_dict()}

    def children(self) -> Iterator[DataType]:
        yield self.element


@plain_errors
@dataclass(frozen=True, slots=True)
class DataField:
    """Column of a table or field of a ROW; `id` stays the same over renames."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.type}"

    def to_dict(self) -> dict[str, Any]:
        """Return the field as in a schema file."""
        result: dict[str, Any] = {"id": self.id, "name": self.name, "type": self.type.to_dict()}
        if self.description is not None:
            result["description"] = self.description
        if self.default_value is not None:
            result["defaultValue"] = self.default_value
        return result

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> "DataField":
        """Return the field of a dict with `id`, `name`, `type`, and perhaps `description` and `defaultValue`.

        Raises CorruptFileError for an invalid type, and for a member that is no text. A name is not null.
        """
        texts = {name: data.get(name) for name in ("description", "defaultValue")}
        for name, text in (("name", data["name"]), *texts.items()):
            if not isinstance(text, str) and (text is not None or name == "name"):
                raise CorruptFileError(f"The member {name!r} of a field is {text!r}, which is no text.")
        number = data["id"]
        if not isinstance(number, int) or isinstance(number, bool):
            raise CorruptFileError(f"The id of a field is {number!r}, which is no integer.")
        return DataField(
            id=number,
            name=data["name"],
            type=_parsed(data["type"]),
            description=texts["description"],
            default_value=texts["defaultValue"],
        )


@plain_errors
@dataclass(frozen=True, slots=True, init=False, repr=False)
class RowType(DataType):
    """Sequence of named fields."""

    fields: tuple[DataField, ...]

    @overload
    def __init__(self, fields: Iterable[DataField], /, *, nullable: bool = True) -> None: ...
    @overload
    def __init__(self, nullable: bool, fields: Iterable[DataField]) -> None: ...
    @overload
    def __init__(self, *, fields: Iterable[DataField], nullable: bool = True) -> None: ...
    def __init__(self, *given: Iterable[DataField] | bool, **named: Iterable[DataField] | bool) -> None:
        _set_nested(self, ("fields",), given, named)
        _set(self, fields=tuple(self.fields))

    def __str__(self) -> str:
        return f"ROW<{', '.join(map(str, self.fields))}>{_suffix(self)}"

    def to_dict(self) -> dict[str, Any]:
        return {"type": "ROW" + _suffix(self), "fields": [f.to_dict() for f in self.fields]}

    def children(self) -> Iterator[DataType]:
        return (f.type for f in self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields, in order."""
        return tuple(f.name for f in self.fields)

    def field(self, name: str) -> DataField:
        """Return the field of that name. Raises KeyError."""
        for f in self.fields:
            if f.name == name:
                return f
        raise KeyError(name)


def _suffix(data_type: DataType) -> str:
    return "" if data_type.nullable else " NOT NULL"


def _set(data_type: DataType, **values: object) -> None:
    """Set attributes of a frozen type in its constructor."""
    for name, value in values.items():
        object.__setattr__(data_type, name, value)


def _parsed(data: Any) -> DataType:
    if isinstance(data, str):
        if _known(data) is None:
            raise CorruptFileError(f"Unknown data type {data!r}.")
        return AtomicType(data)
    if not isinstance(data, Mapping) or not isinstance(data.get("type"), str):
        raise CorruptFileError(f"Not a data type: {data!r}.")
    text, nullable = split_nullable(data["type"])
    try:
        match text.strip().upper():
            case "ARRAY":
                return ArrayType(_parsed(data["element"]), nullable=nullable)
            case "MULTISET":
                return MultisetType(_parsed(data["element"]), nullable=nullable)
            case "MAP":
                return MapType(_parsed(data["key"]), _parsed(data["value"]), nullable=nullable)
            case "ROW":
                return RowType(tuple(DataField.from_dict(f) for f in data["fields"]), nullable=nullable)
            case other if other.split("(")[0] in UNSUPPORTED:
                raise NotSupportedError(f"Columns of type {other} are not supported yet.")
            case _:
                raise CorruptFileError(f"Unknown nested type {data['type']!r}.")
    except KeyError as missing:
        raise CorruptFileError(f"The type {data!r} lacks {missing}.") from missing


def _set_nested(
    data_type: DataType, parts: tuple[str, ...], given: tuple[object, ...], named: Mapping[str, object]
) -> None:
    """Set the parts of a nested type from its arguments: the parts, or `nullable` and the parts as in pypaimon."""
    values: dict[str, object] = {"nullable": True}
    names = ("nullable", *parts) if given and isinstance(given[0], bool) else parts
    values.update(zip(names, given, strict=False))
    values.update({name.removesuffix("_type"): value for name, value in named.items()})
    kind = type(data_type).__name__
    if len(given) > len(names) or set(values) != {"nullable", *parts}:
        raise TypeError(f"{kind} takes {', '.join(parts)} and nullable=…, or as in pypaimon nullable before them.")
    _set(data_type, **values)


def is_atomic(data_type: DataType, *roots: TypeRoot) -> bool:
    """Return whether the type is atomic and, when roots are given, has one of them."""
    return isinstance(data_type, AtomicType) and (not roots or data_type.root in roots)


Json: TypeAlias = Any


def type_to_json(data_type: DataType) -> Json:
    """Return the JSON value of a type: a string for atomic types, an object for nested ones."""
    return data_type.to_dict()


def type_from_json(value: Json) -> DataType:
    """Return the type of a JSON value. Raises CorruptFileError for a misfit, NotSupportedError for VARIANT and BLOB."""
    return DataType.from_dict(value)


def field_to_json(field: DataField) -> dict[str, Json]:
    """Return the JSON object of a column or ROW field."""
    return field.to_dict()


def field_from_json(value: Mapping[str, Json]) -> DataField:
    """Return the column or ROW field of a JSON object."""
    return DataField.from_dict(value)


def parse_atomic(text: str) -> AtomicType:
    """Return the atomic type of a text such as `VARCHAR(10) NOT NULL`, `STRING` or `BYTES`."""
    found = DataType.from_dict(text)
    assert isinstance(found, AtomicType)
    return found
