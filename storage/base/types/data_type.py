"""Paimon's logical data types as immutable values (specification: concepts/data-types, spec/schema)."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self

from interbed.storage.base.errors import InvalidInputError

MAX_LENGTH = 2**31 - 1
"""The length that makes VARCHAR a STRING and VARBINARY a BYTES."""


class TypeRoot(StrEnum):
    """The name of an atomic type, as it is spelled in a schema file."""

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


@dataclass(frozen=True, slots=True)
class DataType:
    """A logical type and whether it admits nulls; base of the classes below."""

    nullable: bool = field(default=True, kw_only=True)

    def with_nullable(self, nullable: bool) -> Self:
        """The same type, admitting nulls or not."""
        return replace(self, nullable=nullable)

    def children(self) -> Iterator["DataType"]:
        """The types nested directly in this one, none for an atomic type."""
        return iter(())


@dataclass(frozen=True, slots=True)
class AtomicType(DataType):
    """A type without nested types; `length` counts characters or bytes, `precision` digits."""

    root: TypeRoot
    length: int | None = None
    precision: int | None = None
    scale: int | None = None

    def __post_init__(self) -> None:
        root = self.root
        if root in _LENGTH_DEFAULT:
            length = _LENGTH_DEFAULT[root] if self.length is None else self.length
            if not 1 <= length <= MAX_LENGTH:
                raise InvalidInputError(f"{root} takes a length from 1 to {MAX_LENGTH}, not {length}.")
            object.__setattr__(self, "length", length)
        elif self.length is not None:
            raise InvalidInputError(f"{root} takes no length.")
        if root in _PRECISION_DEFAULT:
            precision = _PRECISION_DEFAULT[root] if self.precision is None else self.precision
            low, high = _PRECISION_RANGE[root]
            if not low <= precision <= high:
                raise InvalidInputError(f"{root} takes a precision from {low} to {high}, not {precision}.")
            object.__setattr__(self, "precision", precision)
        elif self.precision is not None:
            raise InvalidInputError(f"{root} takes no precision.")
        if root is TypeRoot.DECIMAL:
            scale = 0 if self.scale is None else self.scale
            if not 0 <= scale <= (self.precision or 0):
                raise InvalidInputError(
                    f"DECIMAL({self.precision}) takes a scale from 0 to its precision, not {scale}."
                )
            object.__setattr__(self, "scale", scale)
        elif self.scale is not None:
            raise InvalidInputError(f"{root} takes no scale.")


@dataclass(frozen=True, slots=True)
class ArrayType(DataType):
    """A list of elements of one type."""

    element: DataType

    def children(self) -> Iterator[DataType]:
        yield self.element


@dataclass(frozen=True, slots=True)
class MapType(DataType):
    """Keys to values; Paimon allows any key type, interbed as Arrow does: keys are never null."""

    key: DataType
    value: DataType

    def children(self) -> Iterator[DataType]:
        yield self.key
        yield self.value


@dataclass(frozen=True, slots=True)
class MultisetType(DataType):
    """Elements with their multiplicities; stored as a map from element to INT NOT NULL."""

    element: DataType

    def children(self) -> Iterator[DataType]:
        yield self.element


@dataclass(frozen=True, slots=True, kw_only=True)
class DataField:
    """A column of a table or a field of a ROW; `id` stays the same over renames."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None


@dataclass(frozen=True, slots=True)
class RowType(DataType):
    """A sequence of named fields."""

    fields: tuple[DataField, ...]

    def children(self) -> Iterator[DataType]:
        return (f.type for f in self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields, in order."""
        return tuple(f.name for f in self.fields)

    def field(self, name: str) -> DataField:
        """The field of that name; raises KeyError."""
        for f in self.fields:
            if f.name == name:
                return f
        raise KeyError(name)


def is_atomic(data_type: DataType, *roots: TypeRoot) -> bool:
    """Whether the type is atomic and, when roots are given, one of them."""
    return isinstance(data_type, AtomicType) and (not roots or data_type.root in roots)
