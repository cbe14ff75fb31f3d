"""Integers that a guessed DOUBLE does not hold exactly, beside numbers with a fraction in one field of JSON.

A new column is of the kind that its first such number has, so that the result does not depend on how many messages
are decoded at once: after an integer beyond 2^53 a fraction is refused, and after a fraction such an integer.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import BadMessage
from interbed.ingest.formats.arrays import mask_of
from interbed.ingest.formats.guessed.sent_number import SentNumber

Path = tuple[str, ...]
"""The names of the fields on the way to a number; an element of a list is at `[]`."""

_ELEMENT = "[]"
_EXACT_MAX = 2.0**53
"""Up to it every integer is a DOUBLE."""


def rows_with_large_doubles(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Return the numbers of the rows that have a DOUBLE of 2^53 or more, at any depth."""
    found = [_large(column, np.arange(rows.num_rows)) for column in rows.columns]
    return np.unique(np.concatenate([np.empty(0, np.int64), *found]))


def has_inexact_integer(value: object) -> bool:
    """Whether a value that was parsed from JSON has an integer that no DOUBLE is."""
    return any(_is_inexact(number) for _, number in _numbers(value, ()))


def mixed_numbers(messages: Mapping[int, Sequence[object]]) -> tuple[list[BadMessage], frozenset[str]]:
    """Return the messages that are refused, and the columns that have an integer that no DOUBLE is.

    `messages` are the rows of each message, as objects, in the order of the messages.
    """
    inexact = {path for rows in messages.values() for path, n in _numbers_of(rows) if _is_inexact(n)}
    kinds: dict[Path, type] = {}
    bad = []
    for i, rows in messages.items():
        # What a message alone would make of them; of a message that mixes the two, the second is refused.
        made = dict(kinds)
        for path, number in _numbers_of(rows):
            if path in inexact and (isinstance(number, SentNumber) or _is_inexact(number)):
                kind = made.setdefault(path, type(number))
                if kind is not type(number):
                    bad.append(BadMessage(i, _reason(path, number)))
                    break
        else:
            kinds = made
    return bad, frozenset(path[0] for path in inexact)


def _reason(path: Path, number: "int | SentNumber") -> str:
    what = (
        "after an integer that no DOUBLE holds" if isinstance(number, SentNumber) else "which no DOUBLE holds exactly"
    )
    return f"its field {'.'.join(path)} has {number}, {what}: create the column beforehand, as a DECIMAL"


def _numbers_of(rows: Sequence[object]) -> "Iterator[tuple[Path, int | SentNumber]]":
    for row in rows:
        yield from _numbers(row, ())


def _numbers(value: object, path: Path) -> "Iterator[tuple[Path, int | SentNumber]]":
    match value:
        case bool():
            return
        case int() | SentNumber():
            yield path, value
        case dict():
            for name, each in value.items():
                yield from _numbers(each, (*path, name))
        case list():
            for each in value:
                yield from _numbers(each, (*path, _ELEMENT))


def _is_inexact(number: "int | SentNumber") -> bool:
    if isinstance(number, SentNumber) or abs(number) <= _EXACT_MAX:
        return False
    try:
        return int(float(number)) != number
    except OverflowError:
        return True


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
