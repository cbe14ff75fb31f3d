"""Comparisons of CHAR columns, in which blanks at the end of a value do not count, as in SQL.

Spark pads the values of a CHAR(n) column with blanks to n characters when it writes them, and other writers do not. A
comparison means that of both sides padded to n. It is expressed by the stored values, so that statistics, indexes and
buckets are used as for other texts: `c = 'ab'` of a CHAR(4) is `c IN ('ab', 'ab ', 'ab  ')`. A stored value is never
greater than itself padded, so `c <= 'ab'` is `c <= 'ab  '`, except for a value of which the literal has a character
below the blank where the value ends. LIKE and its kin take the stored text.
"""

from collections.abc import Mapping, Sequence

from interbed.storage.base.errors import FilterError
from interbed.storage.base.predicate.expr import (
    AlwaysFalse,
    Comparison,
    In,
    Leaf,
    NotIn,
    Op,
    Predicate,
    and_,
    map_leaves,
    or_,
)
from interbed.storage.base.predicate.operands import Reference
from interbed.storage.base.types.data_type import AtomicType, DataField, TypeRoot

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
