"""Filters as callers write them: text in the form of SQL's conditions, or expressions in Python.

    amount > 5 AND name LIKE 'x%' AND NOT (dt BETWEEN DATE '2024-01-01' AND DATE '2024-01-31' OR note IS NULL)
    (col("amount") > 5) & col("name").is_in(["x", "y"])

Comparisons are `= <> != < <= > >=` of a column and a literal in either order, `[NOT] IN (…)`, `[NOT] LIKE`, `[NOT]
BETWEEN … AND …`, `IS [NOT] NULL`; a BOOLEAN column is a condition by itself. Names are plain, `quoted` or "quoted"; a
text writes a quote twice. A column may be replaced by a value inside of one: `place.city` or `place['city']` of a ROW,
`labels['env']` or `counts[5]` of a MAP, which is null where the MAP has no such key. Literals besides texts: numbers,
TRUE, FALSE, NULL, X'00ff', DATE '2024-01-31', TIME '12:34:56.7', TIMESTAMP '2024-01-31 12:34:56.789'. A text is also
the literal of a date, a time, a timestamp or a number where it is compared with such a column.

An expression in Python means what the same condition means as text. Whether a column exists and a literal fits is
checked when a scan or a deletion gets the expression.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from interbed.storage.base.errors import FilterError
from interbed.storage.base.predicate.char_columns import ignoring_blanks
from interbed.storage.base.predicate.expr import (
    Comparison,
    Contains,
    EndsWith,
    In,
    IsNotNull,
    IsNull,
    Like,
    NotIn,
    Op,
    Predicate,
    StartsWith,
    between,
    bind,
)
from interbed.storage.base.predicate.operands import InnerReference, Reference, column_of
from interbed.storage.base.types.data_type import DataField


def bound_filter(given: str | Predicate, fields: Sequence[DataField], *, blanks_count: bool = False) -> Predicate:
    """Return a condition or a predicate of a caller, bound to the columns. Raises FilterError.

    CHAR columns are compared without the blanks at their end, unless `blanks_count`.
    """
    if isinstance(given, str):
        # By use: lark and its tables take a while to load, and few processes parse a filter.
        from interbed.storage.base.predicate.grammar import parse_filter

        found = parse_filter(given, fields)
    else:
        found = bind(given, fields)
    return found if blanks_count else ignoring_blanks(found, fields)


def col(name: str) -> "Column":
    """Return the column of that name for predicates: `col("amount") > 5`, `col("labels")["env"] == "prod"`."""
    return Column(name)


class Column:
    """Column in an expression; made by `col`. Comparisons and methods return a Predicate.

    Combine predicates by `&`, `|` and `~`, with parentheses around comparisons. Comparisons raise FilterError for None
    and for another column, because a filter compares with literals.
    """

    __slots__ = ("name",)

    def __init__(self, name: Reference) -> None:
        if not isinstance(name, str | InnerReference):
            raise FilterError(f"A column is named by text, not by {name!r}.")
        self.name = name

    def __repr__(self) -> str:
        steps = self.name.steps if isinstance(self.name, InnerReference) else ()
        return f"col({column_of(self.name)!r})" + "".join(f"[{step!r}]" for step in steps)

    def __getitem__(self, step: object) -> "Column":
        """Return the field of that name in a ROW, or the value of that key in a MAP, null where there is none."""
        if step is None or isinstance(step, list | dict | set | slice | Column | Predicate):
            raise FilterError(f"{self!r} has fields by their names, or values by their keys, not by {step!r}.")
        steps = self.name.steps if isinstance(self.name, InnerReference) else ()
        return Column(InnerReference(column_of(self.name), (*steps, step)))

    # Python would iterate over an object with __getitem__, without end.
    __iter__ = None

    def __eq__(self, value: object) -> Predicate:  # type: ignore[override]
        return self._compared(Op.EQ, value)

    def __ne__(self, value: object) -> Predicate:  # type: ignore[override]
        return self._compared(Op.NE, value)

    def __lt__(self, value: object) -> Predicate:
        return self._compared(Op.LT, value)

    def __le__(self, value: object) -> Predicate:
        return self._compared(Op.LE, value)

    def __gt__(self, value: object) -> Predicate:
        return self._compared(Op.GT, value)

    def __ge__(self, value: object) -> Predicate:
        return self._compared(Op.GE, value)

    # Equality returns a predicate, so columns can't be keys.
    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self!r} alone is not a condition; compare it with a value: {self!r} == True.")

    def is_null(self) -> Predicate:
        """Return the predicate `column IS NULL`."""
        return IsNull(self.name)

    def is_not_null(self) -> Predicate:
        """Return the predicate `column IS NOT NULL`."""
        return IsNotNull(self.name)

    def is_in(self, values: Iterable[Any]) -> Predicate:
        """Return the predicate `column IN (values)`."""
        return In(self.name, self._members(values))

    def is_not_in(self, values: Iterable[Any]) -> Predicate:
        """Return the predicate `column NOT IN (values)`; never true when None is among them."""
        return NotIn(self.name, self._members(values))

    def between(self, low: object, high: object) -> Predicate:
        """Return the predicate `column BETWEEN low AND high`, both included."""
        return between(self.name, self._literal(low), self._literal(high))

    def startswith(self, text: str) -> Predicate:
        """Return the predicate that the column, a text, begins with the text."""
        return StartsWith(self.name, text)

    def endswith(self, text: str) -> Predicate:
        """Return the predicate that the column, a text, ends with the text."""
        return EndsWith(self.name, text)

    def contains(self, text: str) -> Predicate:
        """Return the predicate that the column, a text, contains the text."""
        return Contains(self.name, text)

    def like(self, pattern: str) -> Predicate:
        r"""Return the predicate `column LIKE pattern`: `%` is any text, `_` any character, `\` escapes the next one."""
        return Like(self.name, pattern)

    def _compared(self, op: Op, value: object) -> Predicate:
        return Comparison(op, self.name, self._literal(value))

    def _members(self, values: Iterable[Any]) -> tuple[Any, ...]:
        if isinstance(values, str | bytes):
            raise FilterError(f"{self!r}.is_in takes a list of values, not {values!r}.")
        return tuple(values)

    def _literal(self, value: object) -> object:
        if value is None:
            raise FilterError(f"Nothing is equal to null; write {self!r}.is_null() or {self!r}.is_not_null().")
        if isinstance(value, Column | Predicate):
            raise FilterError(f"A filter compares the column {self.name!r} with a value, not with {value!r}.")
        return value
