"""A column of one type as a column of another: the rules of Paimon's casts, put together."""

from typing import Any

import pyarrow as pa

from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.casting.formatting import cast_to_text, resized_bytes
from interbed.storage.base.types.casting.numbers import cast_number
from interbed.storage.base.types.casting.parsing import cast_text
from interbed.storage.base.types.casting.rules import NUMBERS
from interbed.storage.base.types.casting.times import cast_time, seconds_to_timestamps
from interbed.storage.base.types.casting.values import Array
from interbed.storage.base.types.data_type import BINARIES, STRINGS, TIMESTAMPS, AtomicType, DataType, TypeRoot


def cast_values(array: "pa.Array[Any]", source: DataType, target: AtomicType) -> Array:
    """Values of a type as those of another, for types for which `has_cast` is true; nulls stay null.

    The arrays are of the Arrow types of their logical ones. A DECIMAL that has too many digits becomes null; raises
    ValueError for a text that is no value of the type, a DECIMAL of NaN, and a timestamp that 64 bits don't hold.
    """
    if target.root in STRINGS:
        return cast_to_text(array, source, target)
    if not isinstance(source, AtomicType):
        raise TypeError(f"There is no cast from {source} to {target}.")
    if target.root in BINARIES:
        return resized_bytes(array.cast(type_to_arrow(target)), target)
    if source.root in STRINGS:
        return cast_text(array, target)
    if source.root in NUMBERS or source.root is TypeRoot.BOOLEAN:
        return seconds_to_timestamps(array, target) if target.root in TIMESTAMPS else cast_number(array, source, target)
    return cast_time(array, source, target)
