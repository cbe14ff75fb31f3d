"""The values of some columns for which a filter can be true, where it lists them."""

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import TypeAlias

from interbed.storage.base.predicate.expr import Comparison, In, Op, Or, Predicate, conjuncts

Key: TypeAlias = tuple[object, ...]
"""A value of each column."""


def key_values(columns: Sequence[str], parts: Sequence[Predicate], *, most: int) -> list[Key] | None:
    """All values of the columns together that equalities and lists allow, in which some may be twice.

    `parts` are all true of a row, and bound. None when some column is free, when there are more than `most`, and for
    zero and NaN of floating-point numbers: they have several forms that are equal, but their hashes are not.
    """
    if not columns:
        return None
    allowed = _products(columns, parts, most)
    if allowed is None:
        # Keys of several columns are asked for as `a = 1 and b = 2 or a = 3 and b = 4`.
        either = (_of_any(columns, p, most) for p in parts if isinstance(p, Or))
        allowed = next((keys for keys in either if keys is not None), None)
    return allowed


def _of_any(columns: Sequence[str], either: Or, most: int) -> list[Key] | None:
    """The values that some part allows; None when one of the parts leaves a column free."""
    found: dict[Key, None] = {}
    for child in either.children:
        keys = key_values(columns, conjuncts(child), most=most)
        if keys is None or len(found) + len(keys) > most:
            return None
        found.update(dict.fromkeys(keys))
    return list(found)


def _products(columns: Sequence[str], parts: Sequence[Predicate], most: int) -> list[Key] | None:
    allowed: list[list[object]] = []
    for name in columns:
        lists: list[list[object]] = []
        for part in parts:
            match part:
                case Comparison(op=Op.EQ, column=column, value=value) if column == name and value is not None:
                    lists.append([value])
                case In(column=column, values=values) if column == name:
                    lists.append([v for v in values if v is not None])
                case _:
                    pass
        if not lists:
            return None
        fewest = min(lists, key=len)
        if any(isinstance(v, float) and (v == 0 or v != v) for v in fewest):
            return None
        allowed.append(fewest)
    return list(product(*allowed)) if prod(map(len, allowed)) <= most else None
