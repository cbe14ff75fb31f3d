"""Integers that a guessed DOUBLE does not hold exactly, beside numbers with a fraction in one field of JSON.

A field is of the kind that its first such number has, so that the result does not depend on how many messages are
decoded at once: after an integer beyond 2^53 a fraction is refused, and after a fraction such an integer.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import BadMessage
from interbed.ingest.formats.arrays import mask_of

Path = tuple[str, ...]
"""The names of the fields on the way to a number; an element of a list is at `[]`."""

_ELEMENT = "[]"
_EXACT_MAX = 2.0**53
"""Up to it every integer is a DOUBLE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedNumbers:
    """The messages that are refused, and the outermost fields that have to be learned again from the others."""

    bad: Sequence[BadMessage]
    fields: frozenset[str]


def rows_with_large_doubles(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Return the numbers of the rows that have a DOUBLE of 2^53 or more, at any depth."""
    found = [_large(column, np.arange(rows.num_rows)) for column in rows.columns]
    return np.unique(np.concatenate([np.empty(0, np.int64), *found]))


def has_inexact_integer(value: object) -> bool:
    """Whether a value that was parsed from JSON has an integer that no DOUBLE is."""
    return any(_is_inexact(number) for _, number in _numbers(value, ()))


def mixed_numbers(objects: Mapping[int, object], alike: Collection[str]) -> MixedNumbers:
    """Return what to do about the objects of a batch, in the order of their messages. Fields that are `alike` are of
    one kind.
    """
    inexact: set[Path] = set()
    fields: set[str] = set()
    for value in objects.values():
        for path, number in _numbers(value, ()):
            if _is_inexact(number):
                inexact.add(_common(path, alike))
                fields |= set(alike) if path[0] in alike else {path[0]}
    kinds: dict[Path, type] = {}
    bad = []
    for i, value in objects.items():
        # What a message alone would make of them; of a message that mixes the two, the second is refused.
        made = dict(kinds)
        for path, number in _numbers(value, ()):
            common = _common(path, alike)
            if common in inexact and (isinstance(number, Decimal) or _is_inexact(number)):
                kind = made.setdefault(common, type(number))
                if kind is not type(number):
                    bad.append(BadMessage(i, _reason(path, number)))
                    break
        else:
            kinds = made
    return MixedNumbers(bad=bad, fields=frozenset(fields))


def _reason(path: Path, number: "int | Decimal") -> str:
    what = "after an integer that no DOUBLE holds" if isinstance(number, Decimal) else "which no DOUBLE holds exactly"
    return f"its field {'.'.join(path)} has {number}, {what}: create the column beforehand, as a DECIMAL"


def _numbers(value: object, path: Path) -> "Iterator[tuple[Path, int | Decimal]]":
    match value:
        case bool():
            return
        case int() | Decimal():
            yield path, value
        case dict():
            for name, each in value.items():
                yield from _numbers(each, (*path, name))
        case list():
            for each in value:
                yield from _numbers(each, (*path, _ELEMENT))


def _is_inexact(number: "int | Decimal") -> bool:
    if isinstance(number, Decimal) or abs(number) <= _EXACT_MAX:
        return False
    try:
        return int(float(number)) != number
    except OverflowError:
        return True


def _common(path: Path, alike: Collection[str]) -> Path:
    return ("", *path[1:]) if path[0] in alike else path


def _large(values: Any, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the numbers of rows with a large DOUBLE; `rows` has that of each of the values."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    kind: Any = values.type
    if pa.types.is_floating(kind):
        size: Any = pc.abs(values)
        large: Any = pc.greater_equal(size, pa.scalar(_EXACT_MAX))
        return rows[mask_of(large.fill_null(False))]
    if pa.types.is_struct(kind):
        return np.concatenate([np.empty(0, np.int64), *(_large(part, rows) for part in values.flatten())])
    if pa.types.is_list(kind):
        return _large(values.flatten(), rows[pc.list_parent_indices(values).to_numpy()])
    return np.empty(0, np.int64)
