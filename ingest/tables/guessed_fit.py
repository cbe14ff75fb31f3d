"""Conversion of values of guessed types to those of a column, independent of the other values of the field.

All values of a field have one guessed type: an integer beside a fraction is a DOUBLE, and beside a text it is a text.
If a column may hold more of a value than that type does, the value is parsed from its message again, alone:

| guessed | column | which values |
|---|---|---|
| DOUBLE | DOUBLE, FLOAT | from 2^53 and 2^24 on, where not every integer is one; -0.0, which may be an integer |
| DOUBLE | DECIMAL, integers | those of messages with 16 digits in a row, or a small exponent |
| DOUBLE, integers beyond 64 bits | others | all |
| ROW, ARRAY | STRING | all |
| STRING | others than STRING | where a value of another kind became a text |
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import SentRows
from interbed.ingest.formats.arrays import Array, Mask, converted_values, mask_of, taken, true_of, valid
from interbed.ingest.formats.exact_numbers import FLOATS, integers_from
from interbed.ingest.formats.json_objects import LARGE_INTEGER, SentNumber, json_text, type_of
from interbed.ingest.tables.column_fit import doubles, exact_arrays
from interbed.storage.base.row.python_values import shown_value
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import (
    INTEGERS,
    STRINGS,
    ArrayType,
    AtomicType,
    DataType,
    RowType,
    TypeRoot,
)

_LONG = r"[0-9.]{16}|[eE]-[0-9]{3}"
"""Pattern of texts with a number of which a DOUBLE may not keep all digits: it keeps 15 digits."""
_SHOWN_MAX = 100
_SEVERAL_SPELLINGS = (
    "an object or a list with a number that has a point or an exponent is no text of a key: the number may be written "
    "in several ways"
)
_SEVERAL_ORDERS = (
    "an object whose names are not in alphabetical order is no text of a key: it may be written in several orders"
)


class SentColumn:
    """The values of a column, with a guessed type, and the rows of their messages."""

    def __init__(self, name: str, values: Array, sent: SentRows | None, *, is_key: bool = False) -> None:
        self._is_key = is_key
        self._name = name
        self._values = values
        self._sent = None if sent is None or name in sent.computed else sent

    def fitted(self, target: DataType, convert: Callable[[Array], Array]) -> tuple[Array, dict[int, str]]:
        """Convert the values to the type of a column. Return also the reasons, by place, for invalid values; these are
        null.
        """
        kind = type_to_arrow(target)
        values, sent = self._values, self._sent
        every = np.arange(len(values))
        alone = np.zeros(len(values), bool) if sent is None else _doubtful(values, target, self._rows, every)
        if sent is not None and self._is_key and pa.types.is_string(values.type):
            # A number that became a text is refused as a key, because it may have several spellings.
            alone |= self._rows.rewritten & valid(values)
        if sent is None or not alone.any():
            made, errors = converted_values(values, convert, kind)
            return made, {i: self._reason(shown_value(values, i), error) for i, error in errors.items()}
        reasons: dict[int, str] = {}
        parts, places = [], []
        if len(sure := np.flatnonzero(~alone)):
            made, errors = converted_values(taken(values, sure), convert, kind)
            parts.append(made)
            places.append(sure)
            reasons = {int(sure[i]): self._reason(shown_value(values, int(sure[i])), e) for i, e in errors.items()}
        given = {i: sent.value(i, self._name) for i in np.flatnonzero(alone).tolist()}
        if self._is_key and isinstance(target, AtomicType) and target.root in STRINGS:
            for i, several in [(i, why) for i, value in given.items() if (why := _several_texts(value)) is not None]:
                reasons[i] = self._reason(_shown(given[i]), ValueError(several))
                given[i] = None
        for numbers, array in exact_arrays(given, target):
            made, errors = converted_values(array, convert, kind)
            parts.append(made)
            places.append(numbers)
            for i, error in errors.items():
                at = int(numbers[i])
                reasons[at] = self._reason(_shown(given[at]), error)
        whole = pa.concat_arrays([part if part.type == kind else part.cast(kind) for part in parts])
        return taken(whole, np.argsort(np.concatenate(places), kind="stable")), reasons

    def alone(self, row: int) -> Array:
        """Return the value of a row with the guessed type that it has alone; without its message, the value of the
        column.
        """
        if self._sent is None:
            return self._values.slice(row, 1)
        value = self._sent.value(row, self._name)
        return doubles([value], type_of(value))

    def _reason(self, value: str, error: Exception) -> str:
        return f"its column {self._name!r} has {value}, which is no value of it: {error}"

    @cached_property
    def _rows(self) -> "_Rows":
        assert self._sent is not None
        return _Rows(self._sent)


class _Rows:
    """Properties of the messages of rows."""

    def __init__(self, sent: SentRows) -> None:
        self._sent = sent

    @cached_property
    def rewritten(self) -> Mask:
        """Rows that may have a text in place of another value."""
        return self._sent.rewritten()

    @cached_property
    def long(self) -> Mask:
        """Rows that may have a number that a DOUBLE does not represent exactly."""
        return mask_of(pc.match_substring_regex(self._sent.texts(), _LONG))


def _doubtful(values: Any, target: DataType, rows: _Rows, owner: "np.ndarray[Any, np.dtype[np.int64]]") -> Mask:
    """Return which values must be parsed from their messages; `owner` has the row of each."""
    kind = values.type
    nothing = np.zeros(len(values), bool)
    if values.null_count == len(values):
        return nothing
    is_text = isinstance(target, AtomicType) and target.root in STRINGS
    if pa.types.is_struct(kind) and isinstance(target, RowType):
        types = {f.name: f.type for f in target.fields}
        for field, part in zip(kind, values.flatten(), strict=True):
            if field.name in types:
                nothing |= _doubtful(part, types[field.name], rows, owner)
        return nothing
    if pa.types.is_list(kind) and isinstance(target, ArrayType):
        parents = pc.list_parent_indices(values).to_numpy()
        nothing[parents[_doubtful(values.flatten(), target.element, rows, owner[parents])]] = True
        return nothing
    if pa.types.is_nested(kind):
        return valid(values) if is_text else nothing
    if pa.types.is_string(kind):
        return nothing if is_text or not rows.rewritten.any() else rows.rewritten[owner] & valid(values)
    if kind == LARGE_INTEGER:
        return valid(values)
    if not pa.types.is_floating(kind):
        return nothing
    return _doubtful_doubles(values, target, rows, owner)


def _doubtful_doubles(values: Any, target: DataType, rows: _Rows, owner: "np.ndarray[Any, np.dtype[np.int64]]") -> Mask:
    if not isinstance(target, AtomicType):
        return valid(values)
    if target.root in FLOATS:
        large = pc.greater_equal(pc.abs(values), pa.scalar(float(integers_from(target.root))))
        numbers: npt.NDArray[np.float64] = values.fill_null(1.0).to_numpy()
        found: Mask = true_of(large) | ((numbers == 0) & np.signbit(numbers))
        return found
    if target.root is TypeRoot.DECIMAL or target.root in INTEGERS:
        long: Mask = rows.long[owner] & valid(values)
        return long
    return valid(values)


def _several_texts(value: object) -> str | None:
    """Return the reason why an object or a list may be sent as several texts; None for all other values."""
    if not isinstance(value, dict | list):
        return None
    if isinstance(value, dict) and list(value) != sorted(value):
        return _SEVERAL_ORDERS
    parts = list(value.values()) if isinstance(value, dict) else value
    if any(isinstance(part, SentNumber) for part in parts):
        return _SEVERAL_SPELLINGS
    return next((why for part in parts if (why := _several_texts(part)) is not None), None)


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, str) else json_text(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
