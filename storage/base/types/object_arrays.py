"""Conversion of Python objects to Arrow arrays, each value independently of its neighbours.

Arrow infers one type for a list from its first values and converts the others: a datetime after a date loses its time,
a datetime with a time zone after one without is shifted to UTC, True among floats is 1.0, nanoseconds of a pandas
Timestamp are cut. Here values of different kinds are different arrays, which are cast to the type of their column by
the rules of exact_cast.py. Parts of lists, maps and rows are columns of their own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import array_of, from_numpy
from interbed.storage.base.errors import SchemaMismatchError
from interbed.storage.base.types.exact_cast import exact_array
from interbed.storage.base.types.far_times import FarDate, FarTimestamp
from interbed.storage.base.types.nested import LIST_OF, MAP_OF, nullable_inside

Array = Any
"""`pa.Array`, whose stubs are incomplete."""
Values = Sequence[Any]
Kind = Any
"""A class of Python, or a hashable value that distinguishes values of a class."""

_MISFITS = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, ValueError, TypeError, OverflowError)
_ALONE = frozenset({int, float, bool, str, bytes, date})
"""Classes whose values Arrow takes unchanged if a list has no others."""
_SHOWN_MAX = 100


def object_array(values: Values, wanted: pa.DataType | None, *, name: str, what: str) -> Array:
    """Return the values of a column, None being null, in the type `wanted`, or in a type of their own.

    Plain values of one kind keep their own type, which the writer casts. Without `wanted` their type is the one that
    Arrow infers, if all of them have it. `name` and `what` name column and table in errors. Raises SchemaMismatchError.
    """
    if any(issubclass(kind, pa.Scalar) for kind in set(map(type, values))):
        values = [_missing_is_none(value) for value in values]
    column = _Column(name=name, what=what, kind=wanted, path="", rows=range(len(values)))
    if wanted is None:
        return column.inferred(values)
    if not pa.types.is_nested(wanted) and len(kinds := _by_kind(values)) == 1 and not pa.types.is_decimal(wanted):
        return column.of_one_kind(values, next(iter(kinds)), wanted)
    return column.array(values, nullable_inside(wanted))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """Column of the type `kind` or a part of it, with the path of the part and the row of each value."""

    name: str
    what: str
    kind: pa.DataType | None
    path: str
    rows: Sequence[int]

    def part(self, step: str, rows: Sequence[int]) -> "_Column":
        return replace(self, path=f"{self.path or self.name}.{step}", rows=rows)

    def misfit(self, at: int, value: object, why: object) -> SchemaMismatchError:
        where = f"{self.path}: " if self.path else ""
        return SchemaMismatchError(
            f"The column {self.name!r} of {self.what} is {self.kind}; row {self.rows[at]} (counted from 0) has "
            f"{_shown(value)}: {where}{why}"
        )

    def inferred(self, values: Values) -> Array:
        """Return the values in the type that Arrow infers, without its conversions of values of different kinds."""
        kinds = _by_kind(values)
        try:
            if len(kinds) == 1 and not isinstance(next(v for v in values if v is not None), _NESTED):
                return _natural(values, next(iter(kinds)))
            kind = _in_nanoseconds(kinds) or nullable_inside(array_of(values).type)
        except _MISFITS as error:
            raise SchemaMismatchError(
                f"The column {self.name!r} of {self.what} is values of one type; the values do not fit: {error}"
            ) from None
        return replace(self, kind=kind).array(values, kind)

    def of_one_kind(self, values: Values, kind: Kind, wanted: pa.DataType) -> Array:
        try:
            return _natural(values, kind)
        except _MISFITS:
            # Values of one class may not fit one array.
            return self.array(values, nullable_inside(wanted))

    def array(self, values: Values, wanted: pa.DataType) -> Array:
        """Return the values in the type `wanted`, which each must fit."""
        if isinstance(wanted, pa.StructType):
            return self._rows_of(values, wanted)
        if isinstance(wanted, pa.MapType):
            return self._maps_of(values, wanted)
        if isinstance(wanted, pa.ListType):
            return self._lists_of(values, wanted)
        kinds = _by_kind(values)
        if not kinds:
            nulls: Array = array_of([None] * len(values), wanted)
            return nulls
        if len(kinds) == 1:
            return self._cast(values, next(iter(kinds)), wanted, range(len(values)))
        places: dict[Kind, Sequence[int]] = {
            kind: [i for i, v in enumerate(values) if v is not None and _kind(v) == kind] for kind in kinds
        }
        places["null"] = [i for i, v in enumerate(values) if v is None]
        parts = [self._cast([values[i] for i in at], kind, wanted, at) for kind, at in places.items()]
        order = np.argsort(np.concatenate([np.array(at, np.int64) for at in places.values()]), kind="stable")
        return pa.concat_arrays(parts).take(from_numpy(order))

    def _cast(self, values: Values, kind: Kind, wanted: pa.DataType, places: Sequence[int]) -> Array:
        try:
            return exact_array(_natural(values, kind, wanted), wanted)
        except _MISFITS:
            pass
        made = []
        # A loop over the values up to the first misfit.
        for at, value in zip(places, values, strict=True):
            try:
                made.append(exact_array(_natural([value], _kind(value), wanted), wanted))
            except _MISFITS as error:
                raise self.misfit(at, value, error) from None
        return pa.concat_arrays(made)

    def _rows_of(self, values: Values, wanted: pa.StructType) -> Array:
        known = [field.name for field in wanted]
        found: list[Mapping[Any, Any] | None] = []
        for at, value in enumerate(values):
            value = _valid(value)
            if isinstance(value, tuple) and len(value) == len(known):
                value = dict(zip(known, value, strict=True))
            if value is not None and not isinstance(value, Mapping):
                raise self.misfit(at, value, "it is not a row; give a dict")
            unknown = [] if value is None else [key for key in value if key not in known]
            if unknown:
                why = f"there is no field {unknown[0]!r}; the fields are {', '.join(known)}"
                raise self.misfit(at, value, why)
            found.append(value)
        parts = []
        for field in wanted:
            inside = [None if row is None else _missing_is_none(row.get(field.name)) for row in found]
            parts.append(self.part(field.name, self.rows).array(inside, field.type))
        mask = from_numpy(np.fromiter((row is None for row in found), np.bool_, len(found)))
        return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=mask)

    def _lists_of(self, values: Values, wanted: "pa.ListType[Any]") -> Array:
        found = [self._items(at, _valid(value), "it is not a list") for at, value in enumerate(values)]
        inside, offsets, mask = self._flat(found, wanted.value_field.name)
        flat = [_missing_is_none(item) for items in found for item in items or ()]
        return LIST_OF(offsets, inside.array(flat, wanted.value_type), type=wanted, mask=mask)

    def _maps_of(self, values: Values, wanted: "pa.MapType[Any, Any, Any]") -> Array:
        found = []
        for at, value in enumerate(values):
            value = _valid(value)
            pairs = value.items() if isinstance(value, Mapping) else value
            items = self._items(at, pairs, "it is not a map; give a dict, or pairs of keys and values")
            if items is not None and any(not isinstance(item, tuple | list) or len(item) != 2 for item in items):
                raise self.misfit(at, value, "it is not a map; give a dict, or pairs of keys and values")
            found.append(items)
        inside, offsets, mask = self._flat(found, "key")
        pairs = [pair for items in found for pair in items or ()]
        keys = inside.array([_missing_is_none(key) for key, _ in pairs], wanted.key_type)
        items = self.part("value", inside.rows).array([_missing_is_none(item) for _, item in pairs], wanted.item_type)
        if keys.null_count:
            at = keys.is_null().to_pylist().index(True)
            raise inside.misfit(at, None, "a map has no null for a key")
        return MAP_OF(offsets, keys, items, type=wanted, mask=mask)

    def _items(self, at: int, value: Any, why: str) -> list[Any] | None:
        if value is None:
            return None
        if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(value, Iterable):
            raise self.misfit(at, value, why)
        return list(value)

    def _flat(self, found: Sequence[list[Any] | None], step: str) -> tuple["_Column", Array, Array]:
        """Return the column of the lists' items, and offsets and mask of the lists."""
        lengths = np.fromiter((len(items or ()) for items in found), np.int64, len(found))
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        if offsets[-1] > np.iinfo(np.int32).max:
            raise SchemaMismatchError(f"The column {self.name!r} of {self.what} has too many values for one batch.")
        rows = np.repeat(np.array(self.rows, np.int64), lengths).tolist()
        mask = from_numpy(np.fromiter((items is None for items in found), np.bool_, len(found)))
        return self.part(step, rows), from_numpy(offsets.astype(np.int32)), mask


# -- kinds of values ---------------------------------------------------------------------------------------------------

_NESTED = (Mapping, list, tuple, set, frozenset, np.ndarray, pa.Array)


def _by_kind(values: Values) -> set[Kind]:
    """Return the kinds of the values; values of one kind fit one array unchanged."""
    classes = set(map(type, values)) - {type(None)}
    if len(classes) == 1 and (only := next(iter(classes))) in _ALONE:
        return {only}
    return {_kind(value) for value in values if value is not None}


def _kind(value: Any) -> Kind:
    kind = type(value)
    if kind in _ALONE or value is None:
        return kind
    if isinstance(value, pa.Scalar):
        return ("scalar", value.type)
    if isinstance(value, FarTimestamp):
        return ("far timestamp", value.unit, value.zoned)
    if isinstance(value, datetime):
        return ("datetime", value.tzinfo is not None, bool(getattr(value, "nanosecond", 0)))
    if isinstance(value, np.datetime64):
        return value.dtype
    for base in (FarDate, np.bool_, np.integer, np.floating, str, bytes, int, float, date, time, Decimal, Mapping):
        if isinstance(value, base):
            return base
    return kind


def _natural(values: Values, kind: Kind, wanted: pa.DataType | None = None) -> Array:
    """Return values of one kind in a type of their own. Raises Arrow's errors, ValueError and OverflowError."""
    if kind is type(None) or kind == "null":
        return pa.nulls(len(values))
    if isinstance(kind, tuple):
        return _times_of(values, kind)
    if kind in (int, Decimal) and wanted is not None and pa.types.is_decimal(wanted):
        # Together they may need more digits than a type of their own has.
        for value in values:
            if isinstance(value, Decimal) and not value.is_finite():
                raise ValueError("it has no digits")
        return array_of(values, wanted)
    if kind is float and wanted is not None and pa.types.is_integer(wanted):
        fraction = next((value for value in values if value is not None and not value.is_integer()), None)
        if fraction is not None:
            raise ValueError(f"{fraction!r} is not a whole number")
    if kind is FarDate:
        return array_of(values, pa.date32())
    if kind is time and any(value is not None and value.tzinfo is not None for value in values):
        raise ValueError("a TIME has no time zone; convert it to the time of one zone, without it")
    if kind is UUID:
        raise ValueError("a UUID is given as text, str(value), or as bytes, value.bytes")
    return array_of(values)


def _times_of(values: Values, kind: tuple[Any, ...]) -> Array:
    match kind:
        case ("scalar", scalar_type):
            return array_of(values, scalar_type)
        case ("far timestamp", unit, zoned):
            return array_of(values, _timestamp(unit, zoned))
        case (_, zoned, True):
            # Arrow takes microseconds only; pandas counts nanoseconds since 1970, in UTC for values with a zone.
            ticks = [None if value is None else int(value.as_unit("ns").value) for value in values]
            return array_of(ticks, pa.int64()).cast(_timestamp("ns", zoned))
        case _:
            return array_of(values)


def _timestamp(unit: str, zoned: bool) -> pa.DataType:
    # The stubs of pyarrow take literal units and zones only.
    words: Any = (unit, "UTC" if zoned else None)
    return pa.timestamp(*words)


def _in_nanoseconds(kinds: set[Kind]) -> pa.DataType | None:
    """Return the type of datetimes of which some have nanoseconds; None for other values.

    Raises ValueError where some datetimes have a time zone, and others have none.
    """
    datetimes = {kind for kind in kinds if isinstance(kind, tuple) and kind[0] == "datetime"}
    zones = {is_zoned for _, is_zoned, _ in datetimes}
    if len(zones) > 1:
        raise ValueError("some datetimes have a time zone, and others have none")
    return _timestamp("ns", zones.pop()) if zones and datetimes == kinds else None


def _valid(value: Any) -> Any:
    """Return the value; None for a null scalar, and the items of a list scalar of Arrow."""
    value = _missing_is_none(value)
    if isinstance(value, pa.ListScalar | pa.LargeListScalar):
        return value.values
    return value


def _missing_is_none(value: Any) -> Any:
    return None if isinstance(value, pa.Scalar) and not value.is_valid else value


def _shown(value: object) -> str:
    text = repr(value)
    return f"{text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + '…'} ({type(value).__name__})"
