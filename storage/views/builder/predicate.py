"""pypaimon's predicate builder: predicates over the columns of a table."""

from collections.abc import Sequence

from interbed.storage.base.predicate.expr import (
    And,
    Comparison,
    Contains,
    EndsWith,
    In,
    IsNotNull,
    IsNull,
    Like,
    Not,
    NotIn,
    Op,
    Or,
    Predicate,
    StartsWith,
    bind,
)
from interbed.storage.base.types.data_type import DataField


class PredicateBuilder:
    """Creates predicates; every method checks the column and the literals at once (FilterError)."""

    def __init__(self, fields: Sequence[DataField]) -> None:
        self._fields = tuple(fields)

    def equal(self, field: str, literal: object) -> Predicate:
        """Return the predicate `field = literal`."""
        return self._bound(Comparison(Op.EQ, field, literal))

    def not_equal(self, field: str, literal: object) -> Predicate:
        """Return the predicate `field <> literal`."""
        return self._bound(Comparison(Op.NE, field, literal))

    def less_than(self, field: str, literal: object) -> Predicate:
        """Return the predicate `field < literal`."""
        return self._bound(Comparison(Op.LT, field, literal))

    def less_or_equal(self, field: str, literal: object) -> Predicate:
        """Return the predicate `field <= literal`."""
        return self._bound(Comparison(Op.LE, field, literal))

    def greater_than(self, field: str, literal: object) -> Predicate:
        """Return the predicate `field > literal`."""
        return self._bound(Comparison(Op.GT, field, literal))

    def greater_or_equal(self, field: str, literal: object) -> Predicate:
        """Return the predicate `field >= literal`."""
        return self._bound(Comparison(Op.GE, field, literal))

    def is_null(self, field: str) -> Predicate:
        """Return the predicate `field IS NULL`."""
        return self._bound(IsNull(field))

    def is_not_null(self, field: str) -> Predicate:
        """Return the predicate `field IS NOT NULL`."""
        return self._bound(IsNotNull(field))

    def startswith(self, field: str, pattern_literal: str) -> Predicate:
        """Return a predicate: the field begins with the text."""
        return self._bound(StartsWith(field, pattern_literal))

    def endswith(self, field: str, pattern_literal: str) -> Predicate:
        """Return a predicate: the field ends with the text."""
        return self._bound(EndsWith(field, pattern_literal))

    def contains(self, field: str, pattern_literal: str) -> Predicate:
        """Return a predicate: the field contains the text."""
        return self._bound(Contains(field, pattern_literal))

    def like(self, field: str, pattern_literal: str) -> Predicate:
        """Return the predicate `field LIKE pattern`."""
        return self._bound(Like(field, pattern_literal))

    def is_in(self, field: str, literals: Sequence[object]) -> Predicate:
        """Return the predicate `field IN (literals)`."""
        return self._bound(In(field, tuple(literals)))

    def is_not_in(self, field: str, literals: Sequence[object]) -> Predicate:
        """Return the predicate `field NOT IN (literals)`."""
        return self._bound(NotIn(field, tuple(literals)))

    def between(self, field: str, included_lower_bound: object, included_upper_bound: object) -> Predicate:
        """Return the predicate `field BETWEEN lower AND upper`."""
        low, high = Comparison(Op.GE, field, included_lower_bound), Comparison(Op.LE, field, included_upper_bound)
        return self._bound(And((low, high)))

    def not_between(self, field: str, included_lower_bound: object, included_upper_bound: object) -> Predicate:
        """Return the predicate `field NOT BETWEEN lower AND upper`."""
        return Not(self.between(field, included_lower_bound, included_upper_bound))

    @staticmethod
    def and_predicates(predicates: Sequence[Predicate]) -> Predicate | None:
        """Return the conjunction of predicates; None for an empty list."""
        return (And(tuple(predicates)) if len(predicates) > 1 else predicates[0]) if predicates else None

    @staticmethod
    def or_predicates(predicates: Sequence[Predicate]) -> Predicate | None:
        """Return the disjunction of predicates; None for an empty list, which selects all rows, as in pypaimon."""
        return (Or(tuple(predicates)) if len(predicates) > 1 else predicates[0]) if predicates else None

    def _bound(self, predicate: Predicate) -> Predicate:
        return bind(predicate, self._fields)
