"""Rules of casts: between which types values can be cast, and which casts are implicit. Pure.

Paimon always allows an implicit cast when a column's type changes, although some implicit casts lose information
(`DECIMAL(10, 2)` to `DECIMAL(5, 0)`, `VARCHAR(10)` to `VARCHAR(5)`); all others are explicit. Source: paimon-api
`types.DataTypeCasts`, paimon-common `casting.CastExecutors` and its rules, of Paimon 1.4.2.
"""

from interbed.storage.base.types.data_type import (
    BINARIES,
    INTEGERS,
    MAX_LENGTH,
    STRINGS,
    TIMESTAMPS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    RowType,
    TypeRoot,
)

FRACTIONS = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
NUMBERS = INTEGERS | FRACTIONS | {TypeRoot.DECIMAL}
_SECONDS = frozenset({TypeRoot.INT, TypeRoot.BIGINT})
"""The integers that are cast from and to timestamps, as seconds."""

_EXPLICIT: dict[TypeRoot, frozenset[TypeRoot]] = {
    **dict.fromkeys(INTEGERS, NUMBERS | {TypeRoot.BOOLEAN}),
    **dict.fromkeys(FRACTIONS | {TypeRoot.DECIMAL}, NUMBERS),
    **dict.fromkeys(_SECONDS, NUMBERS | TIMESTAMPS | {TypeRoot.BOOLEAN}),
    TypeRoot.BOOLEAN: NUMBERS,
    **dict.fromkeys(
        STRINGS, STRINGS | BINARIES | NUMBERS | TIMESTAMPS | {TypeRoot.BOOLEAN, TypeRoot.DATE, TypeRoot.TIME}
    ),
    **dict.fromkeys(BINARIES, BINARIES | STRINGS),
    TypeRoot.DATE: TIMESTAMPS,
    TypeRoot.TIME: TIMESTAMPS,
    **dict.fromkeys(TIMESTAMPS, TIMESTAMPS | _SECONDS | {TypeRoot.DATE, TypeRoot.TIME}),
}
"""The targets of casts by source. Numbers and booleans also cast to text, times and nested types to STRING."""

_WIDER_INTEGERS = {
    TypeRoot.TINYINT: frozenset({TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT}),
    TypeRoot.SMALLINT: frozenset({TypeRoot.INT, TypeRoot.BIGINT}),
    TypeRoot.INT: frozenset({TypeRoot.BIGINT}),
    TypeRoot.BIGINT: frozenset[TypeRoot](),
}
_IMPLICIT: dict[TypeRoot, frozenset[TypeRoot]] = {
    **{old: new | FRACTIONS | {TypeRoot.DECIMAL, old} for old, new in _WIDER_INTEGERS.items()},
    TypeRoot.FLOAT: frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DECIMAL}),
    TypeRoot.DOUBLE: frozenset({TypeRoot.DOUBLE, TypeRoot.DECIMAL}),
    TypeRoot.DECIMAL: FRACTIONS | {TypeRoot.DECIMAL},
    TypeRoot.CHAR: STRINGS,
    TypeRoot.VARCHAR: frozenset({TypeRoot.VARCHAR}),
    TypeRoot.BINARY: BINARIES,
    TypeRoot.VARBINARY: frozenset({TypeRoot.VARBINARY}),
    TypeRoot.TIMESTAMP: TIMESTAMPS | {TypeRoot.DATE, TypeRoot.TIME},
    TypeRoot.TIMESTAMP_LTZ: TIMESTAMPS,
}


def has_cast(old: DataType, new: DataType) -> bool:
    """Return whether values of the type `old` can be cast to `new`, implicitly or explicitly.

    Elements of ARRAYs, values of MAPs and fields of ROWs have types, and casts, of their own.
    """
    if not isinstance(new, AtomicType):
        return False
    if not isinstance(old, AtomicType):
        return new.root in STRINGS and _has_text(old)
    if new.root in _EXPLICIT[old.root]:
        return True
    if new.root not in STRINGS:
        return False
    if old.root in NUMBERS or old.root is TypeRoot.BOOLEAN:
        return True
    # Paimon casts DATE, TIME and timestamps to exactly the type STRING: no other text, no NOT NULL.
    return new.root is TypeRoot.VARCHAR and new.length == MAX_LENGTH and new.nullable


def is_implicit(old: DataType, new: DataType) -> bool:
    """Return whether Paimon allows the cast for every value of the option `disable-explicit-type-casting`."""
    return (
        isinstance(old, AtomicType)
        and isinstance(new, AtomicType)
        and has_cast(old, new)
        and new.root in _IMPLICIT.get(old.root, ())
    )


def _has_text(data_type: DataType) -> bool:
    """Return whether values of the type have a text inside an ARRAY, MAP or ROW."""
    match data_type:
        case AtomicType():
            return True
        case ArrayType() | MapType() | RowType():
            return all(_has_text(child) for child in data_type.children())
        case _:
            return False
