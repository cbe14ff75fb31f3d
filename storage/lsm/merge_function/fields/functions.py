"""The aggregate functions by their names in the options `fields.<column>.aggregate-function`.

Source: documentation page `primary-key-table/merge-engine/aggregation`.

`rbm32`, `rbm64`, `hll_sketch` and `theta_sketch`: unions of serialized sets, and of sketches of sets.

Values are in the formats of Java's libraries: RoaringBitmap's portable format for `rbm32` and its own one for `rbm64`
(see `roaring64`), compact sketches of Apache DataSketches. Unions have the same bytes as in Paimon (`RoaringBitmap64`,
`HllSketchUtil` and `ThetaSketch` of its utilities), except HLL sketches of different precision, whose unions have
another intermediate estimate (a number of 8 bytes). The only value of a key is unchanged.

The functions loop over rows in Python, because each union is one call of a library.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyroaring import BitMap

from interbed.storage.base.errors import CorruptFileError, InvalidOptionError, NotSupportedError, load_extra
from interbed.storage.base.types.data_type import (
    INTEGERS,
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
    is_atomic,
)
from interbed.storage.lsm.merge_function.fields import elements, fold, number
from interbed.storage.lsm.merge_function.fields.fold import Column, ColumnFold, FieldValues, retract_message
from interbed.storage.lsm.merge_function.fields.roaring64 import Roaring64Bitmap
from interbed.storage.meta.options.core import CoreOptions

_FLAGS, _EMPTY, _OUT_OF_ORDER, _SINGLE_ITEM = 5, 0x04, 0x10, 0x20
_MODE, _REGISTERS = 7, 2
_PREAMBLE_LONGS = 0x3F
_PROBABILITY = struct.pack("<f", 1.0)


class Union(FieldValues):
    """A fold of serialized sets by slot."""

    def _agg(self, held: Any, value: Any) -> Any:
        if held is None or value is None:
            return value if held is None else held
        try:
            return self._union(held, value)
        except (CorruptFileError, ValueError, RuntimeError, IndexError) as error:
            raise CorruptFileError(f"The {self.of} can't read a value: {error}.") from error

    def _union(self, held: Any, value: Any) -> Any:
        """Return the union; `held` is the older value."""
        raise NotImplementedError


class RoaringUnion(Union):
    """`rbm32`: the union of 32-bit roaring bitmaps."""

    def _union(self, held: bytes, value: bytes) -> bytes:
        union = BitMap.deserialize(held) | BitMap.deserialize(value)
        union.run_optimize()
        return bytes(union.serialize())


class Roaring64Union(Union):
    """`rbm64`: the union of 64-bit roaring bitmaps, which are kept deserialized."""

    def result(self) -> Column:
        self._held = [held.to_bytes() if isinstance(held, Roaring64Bitmap) else held for held in self._held]
        return super().result()

    def _union(self, held: "bytes | Roaring64Bitmap", value: "bytes | Roaring64Bitmap") -> Roaring64Bitmap:
        union = held if isinstance(held, Roaring64Bitmap) else Roaring64Bitmap(held)
        union.add_all(value if isinstance(value, Roaring64Bitmap) else Roaring64Bitmap(value))
        return union


class HllUnion(Union):
    """`hll_sketch`: the union of HLL sketches, with at most the precision of the newer one."""

    def __init__(self, column: Column, slots: int, of: str) -> None:
        super().__init__(column, slots, of)
        self._library = datasketches(of)

    def _union(self, held: bytes, value: bytes) -> bytes:
        merged = [s for s in (held, value) if _is_array(s) and s[_FLAGS] & _OUT_OF_ORDER]
        lists = [s for s in (held, value) if not _is_array(s)]
        if merged and lists:
            # Java continues the running estimate of such a sketch, although it is never read again. C++ does so only
            # if the sketch is not marked as merged.
            data = bytearray(self._united(*(_unmarked(s) if s in merged else s for s in (held, value))))
            data[_FLAGS] |= _OUT_OF_ORDER
            return bytes(data)
        return self._united(held, value)

    def _united(self, held: bytes, value: bytes) -> bytes:
        newer = self._library.hll_sketch.deserialize(value)
        union = self._library.hll_union(newer.lg_config_k)
        union.update(newer)
        union.update(self._library.hll_sketch.deserialize(held))
        return bytes(union.get_result(self._library.HLL_4).serialize_compact())


class ThetaUnion(Union):
    """`theta_sketch`: the union of theta sketches of the default size and seed."""

    def __init__(self, column: Column, slots: int, of: str) -> None:
        super().__init__(column, slots, of)
        self._library = datasketches(of)

    def _union(self, held: bytes, value: bytes) -> bytes:
        union = self._library.theta_union()
        union.update(self._library.compact_theta_sketch.deserialize(held))
        union.update(self._library.compact_theta_sketch.deserialize(value))
        data = bytearray(union.get_result().serialize())
        # Java marks a sketch of one number, writes no seed into an empty one, and writes the sampling probability,
        # which compact sketches do not use. C++ does none of this.
        if data[_FLAGS] & _EMPTY:
            data[6:8] = b"\0\0"
        elif data[0] & _PREAMBLE_LONGS == 1:
            data[_FLAGS] |= _SINGLE_ITEM
        else:
            data[12:16] = _PROBABILITY
        return bytes(data)


def _is_array(sketch: bytes) -> bool:
    """Return whether an HLL sketch has registers, and is not a list or set of a few numbers."""
    return sketch[_MODE] & 3 == _REGISTERS


def _unmarked(sketch: bytes) -> bytes:
    return sketch[:_FLAGS] + bytes([sketch[_FLAGS] & ~_OUT_OF_ORDER]) + sketch[_FLAGS + 1 :]


def datasketches(of: str) -> Any:
    """Return the library of sketches; raises MissingExtraError, naming the function `of`, if it is not installed."""
    return load_extra("datasketches", needed_by=f"The {of}")


LAST_VALUE = "last_value"
LAST_NON_NULL_VALUE = "last_non_null_value"

_NUMERIC = INTEGERS | {TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DECIMAL}
_PLAIN: dict[str, type[ColumnFold]] = {
    "sum": number.Sum,
    "product": number.Product,
    "max": fold.MaxValue,
    "min": fold.MinValue,
    "bool_or": fold.MaxValue,
    "bool_and": fold.MinValue,
    LAST_VALUE: fold.LastValue,
    LAST_NON_NULL_VALUE: fold.LastNonNullValue,
    "first_value": fold.FirstValue,
    "first_non_null_value": fold.FirstNonNullValue,
    "first_not_null_value": fold.FirstNonNullValue,
    "merge_map": elements.MergeMap,
    "rbm32": RoaringUnion,
    "rbm64": Roaring64Union,
    "hll_sketch": HllUnion,
    "theta_sketch": ThetaUnion,
}
_WITH_OPTIONS: dict[str, type[ColumnFold]] = {
    "listagg": elements.ListAgg,
    "collect": elements.CollectElements,
    "merge_map_with_keytime": elements.MergeMapWithKeyTime,
    "nested_update": elements.NestedUpdate,
    "nested_partial_update": elements.NestedPartialUpdate,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldFunction:
    """The aggregate function of one column of a table."""

    name: str
    field: str
    ignore_retract: bool
    kind: type[ColumnFold]
    make: Callable[[Column, int, str], ColumnFold]

    def fold(self, column: Column, slots: int) -> ColumnFold:
        """Return a fold of the function over a column of a block."""
        fold = self.make(column, slots, self._of)
        fold.ignores_retracts = self.ignore_retract
        return fold

    @property
    def retract_refusal(self) -> str | None:
        """The reason why the function refuses retractions; None if it accepts them."""
        return None if self.ignore_retract or self.kind.can_retract else retract_message(self._of)

    @property
    def _of(self) -> str:
        return f"function '{self.name}' of column '{self.field}'"


def chosen_function(field: str, options: CoreOptions) -> str | None:
    """Return the name of the function that the options choose for a column; None without any."""
    name = options.text(f"fields.{field}.aggregate-function", "")
    return name or options.text("fields.default-aggregate-function", "") or None


def check_function_name(column: str, name: str) -> None:
    """Raise InvalidOptionError if there is no function of that name."""
    if name not in _PLAIN and name not in _WITH_OPTIONS:
        known = ", ".join(sorted((*_PLAIN, *_WITH_OPTIONS)))
        raise InvalidOptionError(f"The column '{column}' has the unknown aggregate function '{name}'; use {known}.")


def field_function(field: DataField, name: str, options: CoreOptions) -> FieldFunction:
    """Return the function of that name for a column.

    Raises InvalidOptionError for an unknown function, a column of an unsuitable type, and contradicting options;
    NotSupportedError for options that this version lacks.
    """
    check_function_name(field.name, name)
    _check_type(field, name)
    ignore_retract = options.boolean(f"fields.{field.name}.ignore-retract", False)
    if ignore_retract and options.boolean("aggregation.remove-record-on-delete", False):
        raise InvalidOptionError(
            f"Options 'aggregation.remove-record-on-delete' and 'fields.{field.name}.ignore-retract' contradict each "
            "other; set one of them."
        )
    kind = _PLAIN.get(name) or _WITH_OPTIONS[name]
    make: Callable[..., ColumnFold] = kind
    if name in _WITH_OPTIONS:
        make = partial(kind, **_arguments(field, name, options))
    return FieldFunction(name=name, field=field.name, ignore_retract=ignore_retract, kind=kind, make=make)


def _check_type(field: DataField, name: str) -> None:
    of = field.type
    wanted: str | None = None
    if name in ("sum", "product"):
        wanted = None if is_atomic(of, *_NUMERIC) else "a number"
    elif name in ("bool_and", "bool_or"):
        wanted = None if is_atomic(of, TypeRoot.BOOLEAN) else "a BOOLEAN"
    elif name in ("max", "min"):
        wanted = None if is_atomic(of) and not is_atomic(of, TypeRoot.BOOLEAN) else "of a type that can be compared"
    elif name == "listagg":
        wanted = None if isinstance(of, AtomicType) and _is_string(of) else "a STRING"
    elif name in ("rbm32", "rbm64", "hll_sketch", "theta_sketch"):
        wanted = None if is_atomic(of, TypeRoot.VARBINARY) else "a VARBINARY"
    elif name == "collect":
        wanted = None if isinstance(of, ArrayType) else "an ARRAY"
    elif name == "merge_map":
        wanted = None if isinstance(of, MapType) else "a MAP"
    elif name == "merge_map_with_keytime":
        wanted = None if isinstance(of, MapType) and isinstance(of.value, RowType) else "a MAP with values of type ROW"
    elif name in ("nested_update", "nested_partial_update"):
        wanted = None if isinstance(of, ArrayType) and isinstance(of.element, RowType) else "an ARRAY of ROW"
    if wanted is not None:
        raise InvalidOptionError(
            f"The aggregate function '{name}' needs column '{field.name}' to be {wanted}; it is {_spelled(of)}."
        )


def _is_string(of: AtomicType) -> bool:
    return of.root is TypeRoot.VARCHAR and of.length == MAX_LENGTH


def _spelled(of: DataType) -> str:
    if isinstance(of, AtomicType):
        return f"{of.root}({of.length})" if of.length is not None else str(of.root)
    return type(of).__name__.removesuffix("Type").upper()


def _arguments(field: DataField, name: str, options: CoreOptions) -> dict[str, Any]:
    prefix = f"fields.{field.name}."
    of = field.type
    distinct = options.boolean(f"{prefix}distinct", False)
    if name == "listagg":
        return {"delimiter": options.text(f"{prefix}list-agg-delimiter", ","), "distinct": distinct}
    if name == "collect":
        return {"distinct": distinct}
    if isinstance(of, MapType) and isinstance(of.value, RowType):
        return {"time_field": _time_field(of.value, prefix, options)}
    assert isinstance(of, ArrayType)
    assert isinstance(of.element, RowType)
    keys = options.names(f"{prefix}nested-key")
    for key in keys:
        if key not in of.element.names:
            raise InvalidOptionError(
                f"Option '{prefix}nested-key' names {key!r}, which is none of {', '.join(of.element.names)}."
            )
    for option in ("nested-sequence-field", "nested-key-null-strategy"):
        if options.text(prefix + option, ""):
            raise NotSupportedError(f"Option '{prefix}{option}' is not supported.")
    key_fields = [of.element.names.index(key) for key in keys]
    if name == "nested_partial_update":
        if not keys:
            raise InvalidOptionError(f"The function 'nested_partial_update' needs option '{prefix}nested-key'.")
        return {"key_fields": key_fields}
    return {"key_fields": key_fields, "limit": options.integer(f"{prefix}count-limit", 2**31 - 1)}


def _time_field(row: RowType, prefix: str, options: CoreOptions) -> int:
    if len(row.fields) < 2:
        raise InvalidOptionError(f"The values of column '{prefix[7:-1]}' need a time and at least one other field.")
    name = options.text(f"{prefix}ts-field", row.names[-1])
    if name not in row.names:
        raise InvalidOptionError(f"Option '{prefix}ts-field' names {name!r}, which is none of {', '.join(row.names)}.")
    if not is_atomic(row.field(name).type, TypeRoot.VARCHAR, TypeRoot.CHAR):
        raise InvalidOptionError(f"The time field {name!r} of function 'merge_map_with_keytime' has to be a STRING.")
    return row.names.index(name)
