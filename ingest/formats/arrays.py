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
    """Arrow's booleans, without nulls, as numpy's."""
    found: Mask = booleans.to_numpy(zero_copy_only=False)
    return found


def valid(array: Array) -> Mask:
    """Which values are not null."""
    return mask_of(array.is_valid())


def true_of(booleans: Any) -> Mask:
    """Where Arrow's booleans are true; nulls are not."""
    return mask_of(booleans.fill_null(False))


def taken(values: Rows, numbers: Indices) -> Rows:
    """The values, or rows of a table, with these indices."""
    found: Rows = values.take(pa.array(numbers))
    return found


def kept(values: Rows, chosen: Mask) -> Rows:
    """The values, or rows of a table, for which it is true; the same object when it is true of all."""
    if chosen.all():
        return values
    found: Rows = values.filter(pa.array(chosen))
    return found


def buffer_of(numbers: "npt.NDArray[Any]") -> Any:
    """The bytes of numbers as a buffer of Arrow, which shares them."""
    whole: Any = np.ascontiguousarray(numbers)
    return pa.py_buffer(whole)


MISFITS = (ValueError, TypeError, NotImplementedError, ArithmeticError)
"""What conversions raise for a value that can't be converted: pyarrow's errors are among them."""


def changed_rows(
    before: Any, after: Any, *, inserted: Mask, updated: Mask, deleted: Mask
) -> tuple[pa.Table, npt.NDArray[np.int8], npt.NDArray[np.int64]]:
    """Rows, kinds and the index of the change that each comes from, in the order of the changes.

    Both are arrays of structs of the same type, with an entry for each change, null where there is no such row.
    A change that was inserted has the row after it, one that was deleted the row before it, one that was updated the
    row after it and, where that is known, the one before it.
    """
    count = len(after)
    names = [field.name for field in after.type]
    old = deleted | (updated & valid(before))
    new = inserted | updated
    last = np.where(updated, np.int8(RowKind.UPDATE_AFTER), np.int8(RowKind.INSERT))
    if (old ^ new).all():
        # One row of each change, as a rule where rows before an update are not known.
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
    """The fields of the rows of one where it is true, else of the other."""
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
    """Each column converted to its type, and why rows have a value that can't be, by their place; it is null then."""
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
    """The values converted to a type, and the errors of those that can't be, by their place; these are null then."""
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
    """The column converted in pieces: halves find a bad value in few steps. A value that can't be is None."""
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
