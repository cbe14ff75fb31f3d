"""The aggregate functions by their names in the options `fields.<column>.aggregate-function`.

Source: documentation page `primary-key-table/merge-engine/aggregation`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from interbed.storage.base.errors import InvalidOptionError, NotSupportedError
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
from interbed.storage.lsm.merge_function.fields import elements, number, pick, unions
from interbed.storage.lsm.merge_function.fields.fold import Column, ColumnFold, retract_message
from interbed.storage.meta.options.core import CoreOptions

LAST_VALUE = "last_value"
LAST_NON_NULL_VALUE = "last_non_null_value"

_NUMERIC = INTEGERS | {TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DECIMAL}
_PLAIN: dict[str, type[ColumnFold]] = {
    "sum": number.Sum,
    "product": number.Product,
    "max": pick.MaxValue,
    "min": pick.MinValue,
    "bool_or": pick.MaxValue,
    "bool_and": pick.MinValue,
    LAST_VALUE: pick.LastValue,
    LAST_NON_NULL_VALUE: pick.LastNonNullValue,
    "first_value": pick.FirstValue,
    "first_non_null_value": pick.FirstNonNullValue,
    "first_not_null_value": pick.FirstNonNullValue,
    "merge_map": elements.MergeMap,
    "rbm32": unions.RoaringUnion,
    "rbm64": unions.Roaring64Union,
    "hll_sketch": unions.HllUnion,
    "theta_sketch": unions.ThetaUnion,
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
