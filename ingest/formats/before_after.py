"""Rows before and after a change, by column, as changes of a table."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.formats.arrays import Array, Mask, taken, valid
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.row.python_values import python_value


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
    columns: Sequence[Array], convert: Sequence[Callable[[Array], Array]], names: Sequence[str]
) -> tuple[list[Array], dict[int, str]]:
    """Each column converted, and for rows with a value that can't be the reason why; those are null then."""
    reasons: dict[int, str] = {}
    found = []
    for column, change, name in zip(columns, convert, names, strict=True):
        try:
            found.append(change(column))
            continue
        except (ValueError, TypeError):
            pass
        # One value at a time, to tell the bad ones from the others.
        parts: list[Array | None] = []
        for i in range(len(column)):
            try:
                parts.append(change(column.slice(i, 1)))
            except (ValueError, TypeError) as error:
                reasons.setdefault(
                    i, f"its column {name!r} has {python_value(column[i])!r}, which is no value of it: {error}"
                )
                parts.append(None)
        good = change(column.slice(0, 0))
        found.append(pa.concat_arrays([pa.nulls(1, good.type) if part is None else part for part in parts]))
    return found, reasons
