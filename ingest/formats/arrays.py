"""Helpers that decoders share: masks and buffers between Arrow and numpy, rows of changes, conversion of values."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrays import Mask as Mask
from interbed.storage.base.arrow_values import one_array as one_array
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.row.python_values import shown_value

Array: TypeAlias = "pa.Array[Any]"
Indices: TypeAlias = npt.NDArray[np.int64]
Rows = TypeVar("Rows", bound=Any)


def mask_of(booleans: Any) -> Mask:
    """Return Arrow's booleans, which have no nulls, as a numpy mask."""
    found: Mask = booleans.to_numpy(zero_copy_only=False)
    return found


def valid(array: Array) -> Mask:
    """Return which values are not null."""
    return mask_of(array.is_valid())


def true_of(booleans: Any) -> Mask:
    """Return where Arrow's booleans are true; nulls count as false."""
    return mask_of(booleans.fill_null(False))


def taken(values: Rows, numbers: Indices) -> Rows:
    """Return the values, or rows of a table, with these indices."""
    found: Rows = values.take(pa.array(numbers))
    return found


def kept(values: Rows, chosen: Mask) -> Rows:
    """Return the chosen values, or rows of a table; the same object if all are chosen."""
    if chosen.all():
        return values
    found: Rows = values.filter(pa.array(chosen))
    return found


def buffer_of(numbers: "npt.NDArray[Any]") -> Any:
    """Return the bytes of numbers as a buffer of Arrow, without a copy."""
    whole: Any = np.ascontiguousarray(numbers)
    return pa.py_buffer(whole)


MISFITS = (ValueError, TypeError, NotImplementedError, ArithmeticError)
"""The exceptions of conversions for a value that cannot be converted; pyarrow's errors are among them."""


def changed_rows(
    before: Any, after: Any, *, inserted: Mask, updated: Mask, deleted: Mask
) -> tuple[pa.Table, npt.NDArray[np.int8], npt.NDArray[np.int64]]:
    """Return rows, kinds and the index of the change of each row, in the order of the changes.

    `before` and `after` are arrays of structs of the same type with an entry for each change, null where there is no
    such row. An insertion has the row after it, a deletion the row before it. An update has the row after it and, where
    it is known, the row before it.
    """
    count = len(after)
    names = [field.name for field in after.type]
    old = deleted | (updated & valid(before))
    new = inserted | updated
    last = np.where(updated, np.int8(RowKind.UPDATE_AFTER), np.int8(RowKind.INSERT))
    if (old ^ new).all():
        # Each change has one row. This is common: most sources do not send rows before updates.
        rows = _either(new, after, before)
        return (
            pa.table(dict(zip(names, rows, strict=True))),
            np.where(new, last, np.int8(RowKind.DELETE)),
            np.arange(count),
        )
    wanted = np.stack([old, new], axis=1)
    place = np.stack([np.arange(count), count + np.arange(count)], axis=1)[wanted]
    kinds = np.stack(
        [
            np.where(deleted, np.int8(RowKind.DELETE), np.int8(RowKind.UPDATE_BEFORE)),
            last,
        ],
        axis=1,
    )[wanted]
    columns = [
        taken(pa.concat_arrays([one, other]), place)
        for one, other in zip(before.flatten(), after.flatten(), strict=True)
    ]
    return pa.table(dict(zip(names, columns, strict=True))), kinds, np.arange(count).repeat(wanted.sum(axis=1))


def _either(chosen: Mask, one: Any, other: Any) -> list[Array]:
    """Return the fields of the rows of `one` where `chosen` is true, otherwise those of `other`."""
    if chosen.all():
        fields: list[Array] = one.flatten()
        return fields
    pairs = zip(one.flatten(), other.flatten(), strict=True)
    return [pc.if_else(pa.array(chosen), first, second) for first, second in pairs]


def converted_columns(
    columns: Sequence[Array],
    convert: Sequence[Callable[[Array], Array]],
    names: Sequence[str],
    types: Sequence[pa.DataType],
) -> tuple[list[Array], dict[int, str]]:
    """Convert each column to its type. Return also the reasons, by row, for values that cannot be converted; these are
    null.
    """
    reasons: dict[int, str] = {}
    found = []
    for column, change, name, kind in zip(columns, convert, names, types, strict=True):
        made, misfits = converted_values(column, change, kind)
        found.append(made)
        for i, error in misfits.items():
            reason = f"its column {name!r} has {shown_value(column, i)}, which is no value of it: {error}"
            reasons.setdefault(i, reason)
    return found, reasons


def converted_values(
    column: Array, change: Callable[[Array], Array], kind: pa.DataType
) -> tuple[Array, dict[int, Exception]]:
    """Convert values to a type. Return also the errors, by place, of values that cannot be converted; these are
    null.
    """
    errors: dict[int, Exception] = {}
    parts = _parts(column, change, errors, 0)
    if len(parts) == 1 and parts[0] is not None:
        return parts[0], errors
    good = next((part.type for part in parts if part is not None), kind)
    nothing: Any = pa.nulls(1, good)  # type: ignore[arg-type]
    return pa.concat_arrays([nothing if part is None else part for part in parts]), errors


def _parts(
    column: Array, change: Callable[[Array], Array], errors: dict[int, Exception], first: int
) -> "list[Array | None]":
    """Convert the column in pieces: halving finds a bad value in few steps. A piece that is a bad value is None."""
    try:
        return [change(column)]
    except MISFITS as error:
        if len(column) <= 1:
            if len(column):
                errors[first] = error
            return [None] * len(column)
    middle = len(column) // 2
    begin = _parts(column.slice(0, middle), change, errors, first)
    return [*begin, *_parts(column.slice(middle), change, errors, first + middle)]
