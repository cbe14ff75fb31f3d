"""Guessed types of new columns, independent of how many messages are decoded together.

A column gets the type of its first value. It is widened by the first value that the type cannot hold, if the wider type
loses nothing: a fraction after an integer is refused, an integer after a fraction is accepted. A value that comes
before its column has a type, such as an empty list, is null. Messages that were decoded together share one guessed
type. Where that type holds less than the values, each value is examined alone.

Only columns that are new or may get new fields are examined here; `change_fit` handles values of other columns.
"""

import itertools
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import BadMessage, RowChanges, SentRows
from interbed.ingest.formats.arrays import Array, Indices, one_array, valid
from interbed.ingest.formats.json_objects import LARGE_INTEGER, SentNumber
from interbed.ingest.tables.change_fit import SentColumn, grown_type
from interbed.ingest.tables.column_fit import blank_names, fitted, fitted_guess, known_type
from interbed.storage.base.errors import CorruptFileError
from interbed.storage.base.types.arrow import type_from_arrow, type_to_arrow
from interbed.storage.base.types.data_type import (
    INTEGERS,
    ArrayType,
    AtomicType,
    DataType,
    RowType,
    TypeRoot,
    type_from_json,
    type_to_json,
)

_BLOCK = 256
_WAY_OUT = "A column that is guessed has the type of its first value: create it beforehand with another type"


Path = tuple[str, ...]
"""The names of the fields on the path to a number; an element of a list is at `[]`."""


_ELEMENT = "[]"

_TYPES_BEFORE = "types before"


EXACT_MAX = 2.0**53
"""The number up to which every integer is a DOUBLE."""


def as_one_by_one(
    changes: RowChanges, known: Mapping[str, DataType], fixed: Collection[str] = ()
) -> tuple[RowChanges, list[BadMessage]]:
    """Return the changes with the columns that they would have if each message came alone, and the bad messages.

    `known` are the columns of the table, `fixed` those that keep their first type.
    """
    sent = changes.sent
    if sent is None:
        return changes, []
    bad: dict[int, str] = {}
    for column in changes.rows.schema:
        name, kind = column.name, known_type(column.type)
        if kind is None or name in changes.stated or name in sent.computed:
            continue
        given = _GuessedColumn(name, one_array(changes.rows.column(name)), sent, changes.messages)
        there = known.get(name)
        if not _may_differ(given, column.type, there, is_fixed=name in fixed):
            continue
        found = given.in_order(there, is_fixed=name in fixed)
        if there is None or len(found.steps) > 1 or found.alone:
            bad = {**found.bad, **bad}
            if found.is_other:
                at = changes.rows.schema.get_field_index(name)
                rows = changes.rows.set_column(at, name, given.made(found))
                sent = sent.without(name)
                changes = replace(changes, rows=rows, sent=sent)
    if not bad:
        return changes, []
    return changes.where(~np.isin(changes.messages, list(bad))), [
        BadMessage(index, reason) for index, reason in sorted(bad.items())
    ]


def types_after(changes: RowChanges, known: Mapping[str, DataType]) -> dict[str, DataType]:
    """Return the types of the columns of a table after it got those of the changes."""
    found = dict(known)
    for column in changes.rows.schema:
        kind = known_type(column.type)
        if kind is not None and (column.name not in known or isinstance(known[column.name], RowType | ArrayType)):
            found[column.name] = type_from_arrow(kind)
    return found


def growth_to_text(before: Mapping[str, DataType | None]) -> str:
    """Encode the types that columns have before they grow, None for new columns; see growth_from_text."""
    types = {name: None if kind is None else type_to_json(kind) for name, kind in before.items()}
    return json.dumps({_TYPES_BEFORE: types})


def growth_from_text(text: str | None, place: str) -> dict[str, DataType | None]:
    """Decode the result of growth_to_text. Raises CorruptFileError naming the place."""
    try:
        types: Mapping[str, Any] = json.loads(text or "{}").get(_TYPES_BEFORE, {})
        return {name: None if kind is None else type_from_json(kind) for name, kind in types.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptFileError(f"{place} holds no types of columns: {error}: {(text or '')[:200]!r}") from error


class TypesBefore:
    """Types of the columns that tables had at their positions, of tables that have got columns since.

    Messages that are read again from that position get the types that they had the first time: a value that comes
    before its column has a type is null.
    """

    def __init__(self, known: Mapping[str, Mapping[str, DataType]] | None = None) -> None:
        self._again = dict(known or {})

    def of(self, name: str, types: Mapping[str, DataType], *, is_committed: bool) -> Mapping[str, DataType]:
        """Return the types of a table for its next messages.

        `types` are those that it has. They count from the commit on of the rows that needed them.
        """
        if is_committed:
            self._again.pop(name, None)
        return self._again.get(name, types)

    def follow(self, name: str, changes: RowChanges, types: Mapping[str, DataType]) -> RowChanges:
        """Record the types after changes. Return the changes with nulls in columns that have no type yet."""
        if name not in self._again:
            return changes
        self._again[name] = types
        for at, column in enumerate(changes.rows.schema):
            if column.name not in types and changes.sent is not None:
                rows = changes.rows.set_column(at, column.name, pa.nulls(changes.rows.num_rows))
                changes = replace(changes, rows=rows, sent=changes.sent.without(column.name))
        return changes


@dataclass(slots=True)
class _ColumnGrowth:
    """The rows from which on a column has another type, with that type; and the reasons of bad messages.

    `alone` are rows whose value must be parsed from its message; before the first step values are null.
    """

    steps: list[tuple[int, DataType]]
    is_new: bool
    bad: dict[int, str] = field(default_factory=dict)
    alone: set[int] = field(default_factory=set)
    is_other: bool = False


class _GuessedColumn:
    """A column of changes whose type is guessed."""

    def __init__(self, name: str, values: Array, sent: SentRows, messages: Indices) -> None:
        self._name = name
        self._values = values
        self._sent = sent
        self._messages = messages
        self._column = SentColumn(name, values, sent)

    def first_type(self) -> pa.DataType | None:
        """Return the guessed type of the first value alone; None if there is no value."""
        places = np.flatnonzero(valid(self._values))
        return self._column.alone(int(places[0])).type if len(places) else None

    def has_large_numbers(self) -> bool:
        """Return whether a DOUBLE may be an integer that it does not hold exactly."""
        largest: Any = pc.max(pc.abs(self._values))
        return bool(largest.is_valid and largest.as_py() >= EXACT_MAX)

    def has_others(self) -> bool:
        """Return whether a text may have been a value of another kind."""
        return bool((self._sent.rewritten() & valid(self._values)).any())

    def in_order(self, known: DataType | None, *, is_fixed: bool) -> _ColumnGrowth:
        """Return how the column grows, from the type that it has."""
        found = _ColumnGrowth(steps=[] if known is None else [(0, known)], is_new=known is None)
        at = 0
        while at < len(self._values):
            at = self._grow(found, at, is_fixed=is_fixed) if found.steps else self._begin(found, at)
        first = np.flatnonzero(valid(self._values))
        is_late = known is None and bool(found.steps) and len(first) > 0 and found.steps[0][0] > first[0]
        ends = type_to_arrow(found.steps[-1][1]) if found.steps else None
        is_same = ends == known_type(self._values.type)
        found.is_other = bool(found.alone) or is_late or not is_same or len(found.steps) > 1
        return found

    def made(self, found: _ColumnGrowth) -> Array:
        """Return the values with the last type, null for invalid values."""
        if not found.steps:
            return pa.nulls(len(self._values))
        kind = found.steps[-1][1]
        ends = [start for start, _ in found.steps[1:]] + [len(self._values)]
        arrow: Any = type_to_arrow(kind)
        before: Any = pa.nulls(found.steps[0][0], arrow)
        parts: list[Array] = [before]
        for (start, own), end in zip(found.steps, ends, strict=True):
            cuts = sorted({start, end, *(i + d for i in found.alone if start <= i < end for d in (0, 1))})
            for begin, stop in itertools.pairwise(cuts):
                made, _ = self._fitted(begin, stop, own, alone=begin in found.alone)
                parts.append(fitted(made, kind))
        return pa.concat_arrays([part for part in parts if len(part)])

    def _begin(self, found: _ColumnGrowth, at: int) -> int:
        """Find the first value from a row on that has a type, and is a value of it."""
        for row in (np.flatnonzero(valid(self._values)[at:]) + at).tolist():
            kind = known_type(self._column.alone(row).type)
            if kind is None or int(self._messages[row]) in found.bad:
                continue
            if blank_names(kind):
                found.bad[int(self._messages[row])] = (
                    f"its column {self._name!r} has a field with a blank name, which no column can have"
                )
                continue
            own = type_from_arrow(kind)
            _, reasons = self._fitted(row, row + 1, own, alone=True)
            if not reasons:
                found.steps.append((row, own))
                return int(row)
            self._note(found, row, own, reasons[0])
        return len(self._values)

    def _grow(self, found: _ColumnGrowth, at: int, *, is_fixed: bool) -> int:
        """Convert a block of rows to the type. Return the row at which the next block begins."""
        end = min(at + _BLOCK, len(self._values))
        kind = found.steps[-1][1]
        _, unfit = self._fitted(at, end, kind)
        # A loop over rows with a value that is not of the type that was guessed for all.
        for row in sorted(at + i for i in unfit):
            if int(self._messages[row]) in found.bad:
                continue
            _, reasons = self._fitted(row, row + 1, kind, alone=True)
            if not reasons:
                found.alone.add(row)
                continue
            grown = type_to_arrow(kind) if is_fixed else grown_type(self._column.alone(row), kind)
            if grown != type_to_arrow(kind) and blank_names(grown) <= blank_names(type_to_arrow(kind)):
                kind = type_from_arrow(grown)
                found.steps.append((row, kind))
                found.alone.add(row)
                _, reasons = self._fitted(row, row + 1, kind, alone=True)
                if reasons:
                    self._note(found, row, kind, reasons[0])
                return row + 1
            self._note(found, row, kind, reasons[0])
            if not found.steps:
                return row + 1
        return end

    def _fitted(self, start: int, end: int, kind: DataType, *, alone: bool = False) -> tuple[Array, dict[int, str]]:
        """Convert values to the type. Return also the reasons for invalid values, by their place from `start` on."""
        values = self._column.alone(start) if alone else self._values.slice(start, end - start)
        if alone and not self._values[start].is_valid:
            values = pa.nulls(1)
        column = SentColumn(self._name, values, self._sent.slice(start, end))
        return column.fitted(kind, lambda part: fitted_guess(part, kind))

    def _note(self, found: _ColumnGrowth, row: int, kind: DataType, reason: str) -> None:
        """Record why a message is bad. If the message had created the column, the column is removed."""
        number = unheld_number(self._sent.value(row, self._name), kind, (self._name,))
        message = int(self._messages[row])
        found.bad[message] = number or f"{reason}. {_WAY_OUT}"
        if found.is_new and found.steps and int(self._messages[found.steps[0][0]]) == message:
            found.steps.clear()


def _may_differ(column: _GuessedColumn, kind: pa.DataType, known: DataType | None, *, is_fixed: bool) -> bool:
    """Return whether values that were guessed together may have another column than one after the other."""
    if known is not None:
        return pa.types.is_nested(kind) and isinstance(known, RowType | ArrayType) and type_to_arrow(known) != kind
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return False
    if pa.types.is_string(kind):
        return column.has_others()
    if pa.types.is_floating(kind):
        return column.has_large_numbers() or column.first_type() != kind
    return pa.types.is_nested(kind) or (is_fixed and kind == LARGE_INTEGER)


def unheld_number(value: object, kind: DataType, path: Path) -> str | None:
    """Return which number within a value its type does not hold, and advice; None if there is none."""
    match value:
        case bool():
            return None
        case int() if _is_of(kind, TypeRoot.DOUBLE) and _is_inexact(value):
            return _reason(path, value, "which no DOUBLE holds exactly")
        case SentNumber() if _is_integer(kind) and _has_fraction(value):
            return _reason(path, value, "a fraction after an integer")
        case dict() if isinstance(kind, RowType):
            parts = [(value.get(f.name), f.type, f.name) for f in kind.fields]
        case list() if isinstance(kind, ArrayType):
            parts = [(each, kind.element, _ELEMENT) for each in value]
        case _:
            return None
    found = (unheld_number(each, inner, (*path, name)) for each, inner, name in parts)
    return next((reason for reason in found if reason is not None), None)


def _reason(path: Path, number: "int | SentNumber", what: str) -> str:
    return f"its field {'.'.join(path)} has {number}, {what}: create the column beforehand, as a DECIMAL"


def _is_of(kind: DataType, root: TypeRoot) -> bool:
    return isinstance(kind, AtomicType) and kind.root is root


def _is_integer(kind: DataType) -> bool:
    if not isinstance(kind, AtomicType):
        return False
    return kind.root in INTEGERS or (kind.root is TypeRoot.DECIMAL and not kind.scale)


def _has_fraction(number: SentNumber) -> bool:
    exponent = Decimal(number.text).normalize().as_tuple().exponent
    return isinstance(exponent, int) and exponent < 0


def _is_inexact(number: int) -> bool:
    if abs(number) <= EXACT_MAX:
        return False
    try:
        return int(float(number)) != number
    except OverflowError:
        return True
