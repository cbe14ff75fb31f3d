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

Blanks at the end of a value of a CHAR column do not count, as in SQL. Spark pads the values of a CHAR(n) column with
blanks to n characters when it writes them, and other writers do not. A comparison means that of both sides padded to n.
It is expressed by the stored values, so that statistics, indexes and buckets are used as for other texts: `c = 'ab'` of
a CHAR(4) is `c IN ('ab', 'ab ', 'ab  ')`. A stored value is never greater than itself padded, so `c <= 'ab'` is
`c <= 'ab  '`, except for a value of which the literal has a character below the blank where the value ends. LIKE and
its kin take the stored text.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from interbed.storage.base.errors import FilterError
from interbed.storage.base.predicate.expr import (
    AlwaysFalse,
    Comparison,
    Contains,
    EndsWith,
    In,
    IsNotNull,
    IsNull,
    Leaf,
    Like,
    NotIn,
    Op,
    Predicate,
    StartsWith,
    and_,
    between,
    bind,
    map_leaves,
    or_,
)
from interbed.storage.base.predicate.operands import InnerReference, Reference, column_of
from interbed.storage.base.types.data_type import AtomicType, DataField, TypeRoot


def bound_filter(given: str | Predicate, fields: Sequence[DataField], *, blanks_count: bool = False) -> Predicate:
    """Return a condition or a predicate of a caller, bound to the columns. Raises FilterError, also for any other
    object.

    CHAR columns are compared without the blanks at their end, unless `blanks_count`.
    """
    if not isinstance(given, str | Predicate):
        raise FilterError(
            'A filter is a text such as "amount > 5", or a predicate such as interbed.col("amount") > 5, '
            f"not {given!r}."
        )
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


FORMS_MAX = 4096
"""The most blanks that may follow a literal; a column with more is compared by LIKE alone."""


def char_lengths(fields: Sequence[DataField]) -> dict[str, int]:
    """Return the lengths of the columns of type CHAR, by name."""
    return {
        field.name: field.type.length or 1
        for field in fields
        if isinstance(field.type, AtomicType) and field.type.root is TypeRoot.CHAR
    }


def ignoring_blanks(predicate: Predicate, fields: Sequence[DataField]) -> Predicate:
    """Return a bound predicate in which CHAR columns are compared without the blanks at their end.

    Raises FilterError for a column that is too long for that.
    """
    lengths = char_lengths(fields)
    return map_leaves(predicate, lambda leaf: _padded(leaf, lengths)) if lengths else predicate


def _padded(leaf: Leaf, lengths: Mapping[str, int]) -> Predicate:
    length = lengths.get(leaf.column) if isinstance(leaf.column, str) else None
    if length is None:
        return leaf
    match leaf:
        case In(column, values) | NotIn(column, values):
            forms: dict[object, None] = {}
            for value in values:
                forms.update(dict.fromkeys(char_forms(column, value, length) if isinstance(value, str) else (value,)))
            return type(leaf)(column, tuple(forms))
        case Comparison(op, column, str() as text):
            return _compared(op, column, text, length)
        case _:
            return leaf


def _compared(op: Op, column: Reference, text: str, length: int) -> Predicate:
    equal = char_forms(column, text, length)
    if op in (Op.EQ, Op.NE):
        return In(column, equal) if op is Op.EQ else NotIn(column, equal)
    last = equal[-1]
    ends = [last[:place] for place in range(len(last))] if min(last, default=" ") < " " else []
    # Values at whose end the literal has a character below the blank: they are less, and greater when padded.
    greater = tuple(end for end in ends if end.ljust(len(last)) > last)
    match op:
        case Op.LE | Op.LT:
            others = greater if op is Op.LE else (*greater, *equal)
            return and_(Comparison(Op.LE, column, last), NotIn(column, others) if others else None)
        case _:
            others = greater if op is Op.GT else (*greater, *equal)
            return or_(Comparison(Op.GT, column, last), In(column, others) if others else AlwaysFalse())


def char_forms(column: Reference, text: str, length: int) -> tuple[str, ...]:
    """Return the texts that equal the literal, the shortest first."""
    bare = text.rstrip(" ")
    longest = max(length, len(bare))
    if longest - len(bare) > FORMS_MAX:
        raise FilterError(
            f"The filter compares the column {column!r}, a CHAR({length}), with {bare!r}: the blanks at its end do not "
            f"count, and there may be more than {FORMS_MAX}. Compare it by LIKE, or change its type to STRING."
        )
    return tuple(bare.ljust(end) for end in range(len(bare), longest + 1))
