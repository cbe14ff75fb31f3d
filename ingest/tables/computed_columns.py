"""Columns that are computed from others while changes are written: `dt=date_format(created, 'yyyy-MM-dd')`.

Functions and their names are those of Paimon's `computed_column`: year, month, day, hour, minute, second and
date_format(column, pattern) of a DATE, a TIMESTAMP or a text of one; substring(column, begin[, end]) from 0 on;
truncate(column, width); lower, upper, trim; cast(literal, type). Source: Paimon's documentation, "CDC Ingestion",
computed functions.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import NOT_SENT_BEFORE, BadMessage, RowChanges, UnsentRows
from interbed.ingest.formats.arrays import MISFITS, Array, converted_values, one_array, valid
from interbed.ingest.formats.json_objects import json_text
from interbed.ingest.tables.column_fit import fitted
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.row.python_values import shown_value
from interbed.storage.base.types.arrow import data_type
from interbed.storage.base.types.casting.formatting import text_of_times
from interbed.storage.base.types.data_type import AtomicType

_CALL = re.compile(r"\s*(?P<name>[^=\s]+)\s*=\s*(?P<function>\w+)\s*\((?P<arguments>.*)\)\s*", re.DOTALL)
_ARGUMENT = re.compile(r"\s*(?:'((?:[^']|'')*)'|([^,']+))\s*(?:,|$)")
# Java's letters with those of strftime; a quoted text is copied.
_LETTERS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_PATTERN = re.compile(r"yyyy|MM|dd|HH|mm|ss|'([^']*)'|[^A-Za-z']+")
_PARTS: Mapping[str, Any] = {
    "year": pc.year,
    "month": pc.month,
    "day": pc.day,
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
}
_OF_TEXT: Mapping[str, Any] = {
    "lower": pc.utf8_lower,
    "upper": pc.utf8_upper,
    "trim": pc.utf8_trim_whitespace,
}
_COUNTS: Mapping[str, range] = {
    "date_format": range(2, 3),
    "substring": range(2, 4),
    "truncate": range(2, 3),
    "cast": range(2, 3),
}
_TEXT_FUNCTIONS = (*_OF_TEXT, "substring")
_FUNCTIONS = (*_PARTS, *_OF_TEXT, *_COUNTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedColumn:
    """A column with its function, and the arguments of the function as texts."""

    name: str
    function: str
    arguments: Sequence[str]
    is_bare: bool = False
    """Whether the first argument has no quotes, like the name of a column."""

    @staticmethod
    def parse(text: str) -> "ComputedColumn":
        """Parse a computed column. Raises InvalidInputError, and NotSupportedError for an unknown function."""
        found = _CALL.fullmatch(text)
        if found is None:
            raise InvalidInputError(f"{text!r} is no computed column: it is to be NAME=FUNCTION(COLUMN, …).")
        function = found["function"].lower()
        if function not in _FUNCTIONS:
            raise NotSupportedError(f"{text!r}: there is no function {function!r}; there are {', '.join(_FUNCTIONS)}.")
        given = _arguments(found["arguments"])
        arguments = [argument for argument, _ in given]
        if len(arguments) not in _COUNTS.get(function, range(1, 2)):
            raise InvalidInputError(f"{text!r}: {function} does not take {len(arguments)} arguments.")
        is_bare = not given[0][1]
        column = ComputedColumn(name=found["name"], function=function, arguments=arguments, is_bare=is_bare)
        # Invalid arguments raise even without rows.
        column.computed(pa.table({column.column or "x": pa.array([], pa.string())}))
        return column

    @property
    def column(self) -> str | None:
        """The column that it is computed from; None for a literal."""
        return None if self.function == "cast" else self.arguments[0]

    def check_literal(self, names: Collection[str]) -> None:
        """Raise InvalidInputError for a literal without quotes that is the name of a column."""
        if self.column is None and self.is_bare and self.arguments[0] in names:
            literal, kind = self.arguments
            raise InvalidInputError(
                f"The computed column {self.name!r}: cast takes a constant, and {literal!r} is a column. Write "
                f"cast('{literal}', {kind}) for the text in every row; for the column with another type create the "
                f"table with {literal!r} as {kind}."
            )

    def computed(self, rows: pa.Table) -> Array:
        """Return the values of the column for the rows, null where the other column is null.

        Raises InvalidInputError if the rows lack the column, ValueError for a value that the function refuses.
        """
        if self.function == "cast":
            return self._literal(rows.num_rows)
        name = self.arguments[0]
        if name not in rows.schema.names:
            raise InvalidInputError(f"The computed column {self.name!r} needs a column {name!r}, which messages lack.")
        values: Any = one_array(rows.column(name))
        if pa.types.is_null(values.type):
            values = values.cast(pa.string())
        return self._of(values)

    def _of(self, values: Any) -> Array:
        result: Any
        match self.function:
            case "date_format":
                times = _times(values)
                # Arrow's letter for seconds writes the fraction as well, unless the unit is seconds.
                whole = pc.floor_temporal(times, unit="second").cast(pa.timestamp("s", times.type.tz))
                result = pc.strftime(whole, format=_strftime(self.arguments[1]))
            case "substring":
                texts = text_of_times(values)
                numbers = [self._number(a) for a in self.arguments[1:]]
                result = pc.utf8_slice_codeunits(texts, numbers[0], numbers[1] if len(numbers) > 1 else None)
            case "truncate":
                result = self._truncated(values, self._number(self.arguments[1]))
            case name if name in _PARTS:
                result = _PARTS[name](_times(values)).cast(pa.int32())
            case name:
                result = _OF_TEXT[name](text_of_times(values))
        return result if isinstance(result, pa.Array) else pa.concat_arrays(result.chunks)

    def _truncated(self, values: Any, width: int) -> Any:
        if width <= 0:
            raise InvalidInputError(f"The computed column {self.name!r} is truncated to {width}, which is no width.")
        if pa.types.is_integer(values.type):
            # Down to a multiple of the width, also for negative numbers.
            rest: Any = pc.subtract(values, pc.multiply(pc.divide(values, width), width))
            rest = pc.if_else(pc.less(rest, pa.scalar(0)), pc.add(rest, width), rest)
            return pc.subtract(values, rest).cast(values.type)
        if pa.types.is_string(values.type):
            return pc.utf8_slice_codeunits(values, 0, width)
        raise InvalidInputError(f"The computed column {self.name!r} truncates texts and integers, not {values.type}.")

    def _literal(self, count: int) -> Array:
        literal, name = self.arguments
        kind = data_type(name)
        if not isinstance(kind, AtomicType):
            raise InvalidInputError(f"The computed column {self.name!r} is cast to {name}, which is no atomic type.")
        try:
            [value] = fitted(pa.array([literal]), kind)
        except ValueError as error:
            raise InvalidInputError(f"The computed column {self.name!r}: {error}.") from error
        return pa.repeat(value, count)

    def _number(self, text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise InvalidInputError(f"The computed column {self.name!r}: {text!r} is no whole number.") from None


def with_computed(
    changes: RowChanges, columns: Sequence[ComputedColumn], known: Collection[str] = ()
) -> tuple[RowChanges, list[BadMessage]]:
    """Return the changes with the columns, which replace columns of their names, and the bad messages.

    `known` are the columns of the table: those that the rows lack are null. Raises InvalidInputError if a column cannot
    be computed for any values.
    """
    bad: dict[int, str] = {}
    made = {column.name for column in columns}
    names = {*changes.rows.schema.names, *(name for name in known if name not in made)}
    for column in columns:
        column.check_literal(names)
        changes = _with_one(changes, column, known, bad)
    return changes, [BadMessage(index, reason) for index, reason in sorted(bad.items())]


def _with_one(changes: RowChanges, column: ComputedColumn, known: Collection[str], bad: dict[int, str]) -> RowChanges:
    rows, source = changes.rows, column.column
    errors: dict[int, Exception] = {}
    if source is None:
        values = column.computed(rows)
    elif source in known and source not in rows.schema.names:
        values = pa.nulls(rows.num_rows)
    else:
        kind = _type_of(column, source, changes)
        given = _texts_sent(changes, source) if column.function in _TEXT_FUNCTIONS else one_array(rows.column(source))
        values, errors = converted_values(given, lambda part: column.computed(pa.table({source: part})), kind)
        for i, error in errors.items():
            of = f"its column {source!r}, which has {shown_value(given, i)}"
            bad.setdefault(int(changes.messages[i]), f"the column {column.name!r} can't be made of {of}: {error}")
    at = rows.schema.get_field_index(column.name)
    rows = rows.set_column(at, column.name, values) if at >= 0 else rows.append_column(column.name, values)
    # A value computed from an unsent value is not known either.
    unsent = {name: each for name, each in changes.unsent.items() if name != column.name}
    if source is not None and source in changes.unsent:
        unsent[column.name] = changes.unsent[source]
    may_lack = {name: each for name, each in changes.may_lack.items() if name != column.name}
    if source is not None and source in changes.may_lack:
        may_lack[column.name] = changes.may_lack[source]
    unsent_before = {name: each for name, each in changes.unsent_before.items() if name != column.name}
    of_key = changes.of_key
    if source is None or source in (changes.key or ()):
        of_key |= {column.name}
    elif source in changes.unsent_before:
        unsent_before[column.name] = changes.unsent_before[source]
    elif source not in changes.rows.schema.names:
        unsent_before[column.name] = UnsentRows(np.ones(rows.num_rows, bool), NOT_SENT_BEFORE)
    sent = None if changes.sent is None else changes.sent.without(column.name)
    changes = replace(
        changes,
        rows=rows,
        unsent=unsent,
        may_lack=may_lack,
        unsent_before=unsent_before,
        of_key=of_key,
        sent=sent,
    )
    return changes.where(~np.isin(changes.messages, list(bad))) if errors else changes


def _texts_sent(changes: RowChanges, name: str) -> Array:
    """Return the values of a column, with numbers of a guessed type as the texts of the messages."""
    values = one_array(changes.rows.column(name))
    sent = changes.sent
    is_number = pa.types.is_floating(values.type) or pa.types.is_decimal(values.type)
    if sent is None or name in sent.computed or not is_number:
        return values
    texts = [json_text(sent.value(i, name)) if there else None for i, there in enumerate(valid(values))]
    return pa.array(texts, pa.string())


def _type_of(column: ComputedColumn, source: str, changes: RowChanges) -> pa.DataType:
    """Return the type of the values. Raises InvalidInputError if it cannot be computed of a column whose type is
    stated.
    """
    try:
        made: Any = column.computed(changes.rows.slice(0, 0))
        kind: pa.DataType = made.type
        return kind
    except MISFITS as error:
        if source in changes.rows.schema.names and source not in changes.stated:
            # The type is guessed from these messages; others may have another type.
            return pa.null()
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(
            f"The computed column {column.name!r} can't be made of the column {source!r}: {error}."
        ) from error


def _arguments(text: str) -> list[tuple[str, bool]]:
    """Return the arguments, and whether each is in quotes."""
    found, at = [], 0
    while at < len(text):
        part = _ARGUMENT.match(text, at)
        if part is None or not (part[1] is not None or part[2].strip()):
            raise InvalidInputError(f"{text!r} are no arguments of a computed column: a text is in single quotes.")
        quoted = part[1]
        found.append((part[2].strip(), False) if quoted is None else (quoted.replace("''", "'"), True))
        at = part.end()
    return found


def _times(values: Any) -> Any:
    if pa.types.is_temporal(values.type) and not pa.types.is_time(values.type):
        return values.cast(pa.timestamp("us")) if pa.types.is_date(values.type) else values
    if pa.types.is_string(values.type):
        # With an offset from UTC or without one.
        try:
            return values.cast(pa.timestamp("ns"))
        except pa.ArrowInvalid:
            return values.cast(pa.timestamp("ns", "UTC"))
    raise ValueError(f"{values.type} is no DATE and no TIMESTAMP")


def _strftime(pattern: str) -> str:
    found, at = "", 0
    while at < len(pattern):
        part = _PATTERN.match(pattern, at)
        if part is None:
            raise NotSupportedError(
                f"The pattern {pattern!r} of a date has {pattern[at]!r}; known are {', '.join(_LETTERS)} and texts in "
                "quotes."
            )
        found += _LETTERS.get(part[0]) or (part[1] if part[1] is not None else part[0]).replace("%", "%%")
        at = part.end()
    return found
