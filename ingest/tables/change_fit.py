"""Changes in a table's terms: the columns that the table lacks for them, and their rows with its types and kinds.

Values of guessed types are converted to those of a column independently of the other values of the field. All values of
a field have one guessed type: an integer beside a fraction is a DOUBLE, and beside a text it is a text. If a column may
hold more of a value than that type does, the value is parsed from its message again, alone:

| guessed | column | which values |
|---|---|---|
| DOUBLE | DOUBLE, FLOAT | from 2^53 and 2^24 on, where not every integer is one; -0.0, which may be an integer |
| DOUBLE | DECIMAL, integers | those of messages with 16 digits in a row, or a small exponent |
| DOUBLE, integers beyond 64 bits | others | all |
| ROW, ARRAY | STRING | all |
| STRING | others than STRING | where a value of another kind became a text |
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import BadMessage, RowChanges, SentRows
from interbed.ingest.formats.arrays import (
    FLOATS,
    MISFITS,
    Array,
    Mask,
    converted_values,
    integers_from,
    kept,
    mask_of,
    one_array,
    taken,
    true_of,
    valid,
)
from interbed.ingest.formats.json_objects import LARGE_INTEGER, SentNumber, json_text, type_of
from interbed.ingest.tables.column_fit import (
    SENT_NUMBERS,
    doubles,
    exact_arrays,
    fitted,
    fitted_guess,
    impossible_columns,
    known_type,
)
from interbed.ingest.tables.unsent_values import FittingRows, RowsBefore, UnsentValues
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.row.python_values import shown_value
from interbed.storage.base.types.arrow import type_from_arrow, type_to_arrow
from interbed.storage.base.types.data_type import (
    INTEGERS,
    STRINGS,
    ArrayType,
    AtomicType,
    DataType,
    RowType,
    TypeRoot,
)
from interbed.storage.base.types.nested import without_hidden_nulls
from interbed.storage.meta.schema.evolution import is_widening
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.table.table import Table
from interbed.storage.write.row_converter import RowCheck

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


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedRows:
    """Rows to be written, a RowKind for each, and the messages that are refused because of a value.

    `lacks_rows_before` says that rows before changes, or values of them, are missing in the changelog of the table.
    """

    rows: pa.Table
    kinds: npt.NDArray[np.int8]
    bad: Sequence[BadMessage]
    lacks_rows_before: bool = False


class ChangeFit:
    """Conversion of changes for a table, at the schema that it has at the time."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._rules: RowCheck | None = None
        self._unsent: UnsentValues | None = None
        self._before: RowsBefore | None = None

    def lacking(self, changes: RowChanges) -> "Sequence[pa.Field[Any]]":
        """Return the columns that the table must get, or must have with a wider type, before it takes the rows."""
        schema = self._table.schema
        known = {f.name: f.type for f in schema.fields}
        keys = fixed_columns(schema)
        found: list[pa.Field[Any]] = []
        impossible = impossible_guesses(changes, known)
        for column in changes.rows.schema:
            if column.name in impossible:
                continue
            kind: pa.DataType | None = known_type(column.type)
            if kind is None:
                # The type of a column is known when it has a value.
                continue
            if column.name not in known:
                found.append(column.with_type(kind))
                continue
            arrow = type_to_arrow(known[column.name])
            if column.type == arrow:
                continue
            values = one_array(changes.rows.column(column.name))
            if column.name in changes.stated:
                is_fixed = column.name in keys and _widens(known[column.name], column.type)
                if not is_fixed and not _fits(values, known[column.name], exactly=True):
                    found.append(column)
            elif column.name not in keys and (grown := _grown_by(changes, column.name, known[column.name])) != arrow:
                # The table is not changed for values that only have another spelling.
                found.append(column.with_type(grown))
        return found

    def fit(self, changes: RowChanges) -> FittedRows:
        """Convert the rows for the table. Messages with a value that the table cannot take are bad."""
        rows = changes.rows
        fields = {f.name: f for f in self._table.schema.fields}
        names = [n for n in rows.schema.names if n in fields]
        fixed = fixed_columns(self._table.schema)
        columns: dict[str, Array] = {}
        reasons: dict[int, str] = {}
        for n in names:
            target, is_stated = fields[n].type, n in changes.stated
            sent = None if is_stated else changes.sent
            column = SentColumn(n, one_array(rows.column(n)), sent, is_key=n in fixed)
            convert = _converter(target, n, is_stated=is_stated, is_fixed=n in fixed)
            columns[n], more = column.fitted(target, convert)
            reasons = {**more, **reasons}
        fit = pa.table(columns)
        kinds, messages = changes.kinds.copy(), changes.messages
        reasons = {**self._refused(changes), **without_a_column(changes, fields), **reasons}
        written = self._written(fit, kinds)
        written[np.isin(messages, messages[list(reasons)])] = False
        more = self._unsent_values().refused(changes, fit, kinds, written)
        before = FittingRows(changes=changes, rows=fit, kinds=kinds, written=written)
        more |= self._rows_before().refused(before)
        reasons |= {**self._check().refused(fit, kinds, written), **more}
        bad = {int(messages[i]): reason for i, reason in sorted(reasons.items(), reverse=True)}
        good = written & ~np.isin(messages, list(bad)) if bad else written
        return FittedRows(
            rows=kept(fit, good),
            kinds=kinds[good],
            bad=[BadMessage(index, reason) for index, reason in sorted(bad.items())],
            lacks_rows_before=self._rows_before().is_lacking_in_changelog(replace(before, written=good)),
        )

    def _rows_before(self) -> RowsBefore:
        """Return the rule for rows before changes, at the schema that the table has now."""
        if self._before is None or self._before.schema is not self._table.schema:
            self._before = RowsBefore(self._table)
        return self._before

    def _unsent_values(self) -> UnsentValues:
        """Return the rule for values that the source did not send, at the schema that the table has now."""
        if self._unsent is None or self._unsent.schema is not self._table.schema:
            self._unsent = UnsentValues(self._table)
        return self._unsent

    def _check(self) -> RowCheck:
        """Return the rules for rows at the schema that the table has now."""
        if self._rules is None or self._rules.schema is not self._table.schema:
            table = self._table
            self._rules = RowCheck(table.name, table.schema, table.options, table.store.paths)
        return self._rules

    def _refused(self, changes: RowChanges) -> dict[int, str]:
        """Return the changes that the table cannot apply, with the reason."""
        if self._table.schema.has_primary_key:
            return {}
        others = np.flatnonzero(changes.kinds != RowKind.INSERT)
        reason = f"it changes or deletes a row of {self._table.name}, which has no primary key to find it by"
        return dict.fromkeys(map(int, others), reason)

    def _written(self, rows: pa.Table, kinds: npt.NDArray[np.int8]) -> npt.NDArray[np.bool_]:
        """Return which rows are written: all, except those before an update if the row after it replaces them.

        If an update changed the key, its kinds become those of a deletion and an insertion.
        """
        written = np.ones(len(kinds), bool)
        before = np.flatnonzero(kinds == RowKind.UPDATE_BEFORE)
        if not len(before):
            return written
        same = np.ones(len(before), bool)
        for name in self._table.schema.primary_keys:
            if name in rows.schema.names:
                values = one_array(rows.column(name))
                same &= mask_of(pc.equal(taken(values, before), taken(values, before + 1)).fill_null(False))
        kinds[before[~same]] = RowKind.DELETE
        kinds[before[~same] + 1] = RowKind.INSERT
        written[before[same]] = self._rows_before().are_written
        return written


def fixed_columns(schema: TableSchema) -> Collection[str]:
    """Return the columns by which rows are found. Their types are fixed: a message with a value of another type is
    bad.
    """
    return {*schema.primary_keys, *schema.partition_keys, *schema.bucket_keys}


def impossible_guesses(changes: RowChanges, known: Collection[str]) -> dict[str, str]:
    """Return guessed columns that a table with the columns `known` cannot get, with the reasons."""
    guessed = [f.name for f in changes.rows.schema if f.name not in changes.stated and known_type(f.type) is not None]
    return impossible_columns(guessed, known)


def without_a_column(changes: RowChanges, known: Collection[str]) -> dict[int, str]:
    """Return the reasons, by row, for values that no column can have."""
    reasons: dict[int, str] = {}
    for name, why in impossible_guesses(changes, known).items():
        column = one_array(changes.rows.column(name))
        for i in np.flatnonzero(valid(column)).tolist():
            reasons.setdefault(i, f"its column {name!r}, with {shown_value(column, i)}, {why}")
    return reasons


def _converter(target: DataType, name: str, *, is_stated: bool, is_fixed: bool) -> Callable[[Array], Array]:
    """Return the conversion of values of messages to those of a column. It raises ValueError."""
    arrow = type_to_arrow(target)

    def convert(values: Array) -> Array:
        if is_fixed and values.type == SENT_NUMBERS and isinstance(target, AtomicType) and target.root in STRINGS:
            raise ValueError(
                "a number with a point or an exponent is no text of a key: it may be written in several ways. Create "
                "the column beforehand, as a DECIMAL"
            )
        try:
            found = fitted(values, target) if is_stated else fitted_guess(values, target)
        except MISFITS as error:
            if is_fixed and is_stated and _widens(target, values.type):
                raise ValueError(
                    f"{error}; the source's type is {type_from_arrow(values.type)} now, and a key column keeps its "
                    f"type {target}: write the source's table to a new table"
                ) from error
            raise
        without_hidden_nulls(found, arrow, name)
        return found

    return convert


def _fits(values: Array, target: DataType, *, exactly: bool = False) -> bool:
    """Return whether the values are of the type. With `exactly`, a DOUBLE that the source states is not rounded to
    FLOAT.
    """
    try:
        fitted(values, target)
    except MISFITS:
        return False
    return not exactly or not _is_rounded(values, target)


def _is_rounded(values: Any, target: DataType) -> bool:
    """Return whether a DOUBLE among the values is another number as a FLOAT."""
    kind = values.type
    if isinstance(target, RowType) and pa.types.is_struct(kind):
        types = {f.name: f.type for f in target.fields}
        parts = zip([f.name for f in kind], values.flatten(), strict=True)
        return any(_is_rounded(part, types[name]) for name, part in parts if name in types)
    if isinstance(target, ArrayType) and pa.types.is_list(kind):
        return _is_rounded(values.flatten(), target.element)
    if not (isinstance(target, AtomicType) and target.root is TypeRoot.FLOAT and pa.types.is_float64(kind)):
        return False
    again = values.cast(pa.float32(), safe=False).cast(kind)
    is_same = pc.or_(pc.equal(again, values), pc.is_nan(values))
    return not mask_of(is_same.fill_null(True)).all()


def _grown_by(changes: RowChanges, name: str, known: DataType) -> pa.DataType:
    """Return the type that a column needs for guessed values.

    The values that its type does not hold are examined one after the other, each with the type that it has alone.
    """
    column = SentColumn(name, one_array(changes.rows.column(name)), changes.sent)
    _, unfit = column.fitted(known, lambda values: fitted_guess(values, known))
    arrow = type_to_arrow(known)
    grown: pa.DataType = arrow
    for row in sorted(unfit):
        kind = type_from_arrow(grown) if grown != arrow else known
        grown = grown_type(column.alone(row), kind)
    return grown


def grown_type(values: Array, known: DataType) -> pa.DataType:
    """Return the type that a column needs for values of a guessed type: wider if that loses nothing, and with new
    fields.

    Values that the type still does not hold are refused later, one by one.
    """
    arrow = type_to_arrow(known)
    given: Any = values.type
    if given == arrow or known_type(given) is None or _fits(values, known):
        return arrow
    if isinstance(known, RowType) and pa.types.is_struct(given):
        parts: Any = values
        kinds: Any = arrow
        columns = dict(zip([f.name for f in given], parts.flatten(), strict=True))
        fields = [
            f.with_type(grown_type(columns[f.name], inner.type)) if f.name in columns else f
            for f, inner in zip(kinds, known.fields, strict=True)
        ]
        others = [n for n in columns if n not in known.names and n not in impossible_columns(columns, known.names)]
        new = [pa.field(n, kind) for n in others if (kind := known_type(columns[n].type)) is not None]
        return pa.struct([*fields, *new])
    if isinstance(known, ArrayType) and pa.types.is_list(given):
        lists: Any = values
        return pa.list_(arrow.field(0).with_type(grown_type(lists.flatten(), known.element)))
    return given if _widens(known, given) else arrow


def _widens(known: DataType, given: pa.DataType) -> bool:
    """Return whether every value of the column keeps its value in the other type."""
    is_single = isinstance(known, AtomicType) and not pa.types.is_nested(given)
    return is_single and is_widening(known, type_from_arrow(given))
