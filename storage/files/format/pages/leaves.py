"""Which leaf columns of a Parquet file hold what a condition looks at.

A nested column is stored as its leaves, in the order in which its type names them: those of a ROW's fields one after
the other, and of a MAP the keys before the values. Source: parquet-format, LogicalTypes.md and README.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from interbed.storage.base.predicate.reference import Inner, Reference


@dataclass(frozen=True, slots=True)
class KeyLeaf:
    """The leaf with the keys of a MAP, by its place among the column's leaves, and the key that is asked for."""

    place: int
    type: pa.DataType
    key: object


@dataclass(frozen=True, slots=True)
class Leaf:
    """The leaf with the values, by its place among the column's leaves.

    Of values inside of MAPs `keys` tells the way; then the leaf has the values of other keys, too, and other numbers of
    values and nulls than there are rows.
    """

    place: int
    type: pa.DataType
    keys: tuple[KeyLeaf, ...] = ()


def leaf_of(reference: Reference, column: pa.DataType) -> Leaf | None:
    """The leaf of a bound reference in a column of that type; None for what is not one leaf."""
    steps: Sequence[object] = reference.steps if isinstance(reference, Inner) else ()
    place, current = 0, column
    keys: list[KeyLeaf] = []
    for step in steps:
        nested: Any = current
        if pa.types.is_map(current):
            if pa.types.is_nested(nested.key_type):
                return None
            keys.append(KeyLeaf(place, nested.key_type, step))
            place, current = place + 1, nested.item_type
        elif pa.types.is_struct(current) and (index := nested.get_field_index(step)) >= 0:
            place += sum(leaf_count(nested.field(i).type) for i in range(index))
            current = nested.field(index).type
        else:
            return None
    return None if pa.types.is_nested(current) else Leaf(place, current, tuple(keys))


def leaf_count(arrow: pa.DataType) -> int:
    """How many leaves a column of the type has."""
    nested: Any = arrow
    if pa.types.is_map(arrow):
        return leaf_count(nested.key_type) + leaf_count(nested.item_type)
    if pa.types.is_struct(arrow):
        return sum(leaf_count(field.type) for field in nested)
    if pa.types.is_nested(arrow):
        return leaf_count(nested.value_type)
    return 1
