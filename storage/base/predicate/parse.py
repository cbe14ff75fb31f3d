"""Filters written as conditions of SQL.

    amount > 5 AND name LIKE 'x%' AND NOT (dt BETWEEN DATE '2024-01-01' AND DATE '2024-01-31' OR note IS NULL)

Comparisons are `= <> != < <= > >=` of a column and a literal in either order, `[NOT] IN (…)`, `[NOT] LIKE`, `[NOT]
BETWEEN … AND …`, `IS [NOT] NULL`; a BOOLEAN column stands for itself. Names are plain, `quoted` or "quoted"; a text
writes a quote twice. Where a column may stand, so may what is inside of one: `place.city` or `place['city']` of a ROW,
`labels['env']` or `counts[5]` of a MAP, which is null where the MAP has no such key. Literals besides texts: numbers,
TRUE, FALSE, NULL, X'00ff', DATE '2024-01-31', TIME '12:34:56.7', TIMESTAMP '2024-01-31 12:34:56.789'. A text may stand
for a date, a time, a timestamp or a number where it is compared with such a column.
"""

from collections.abc import Sequence

from interbed.storage.base.predicate.expr import Predicate, bind
from interbed.storage.base.types.data_type import DataField


def bound_filter(given: str | Predicate, fields: Sequence[DataField]) -> Predicate:
    """A condition or a predicate, bound to the columns; raises FilterError."""
    if not isinstance(given, str):
        return bind(given, fields)
    # By use: lark and its tables take a while to load, and few processes read a filter.
    from interbed.storage.base.predicate.grammar import parse_filter

    return parse_filter(given, fields)
