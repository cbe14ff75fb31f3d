"""Which integers a FLOAT or a DOUBLE holds: all up to 2^24 and 2^53, and some beyond."""

import numpy as np

from interbed.storage.base.types.data_type import TypeRoot

_LARGEST_FLOAT = 3.4028234663852886e38
_MOST_DIGITS = 400
"""More digits than any number of a column has."""


def is_exact_integer(number: int | str, root: TypeRoot) -> bool:
    """Whether FLOAT or DOUBLE has an integer, which may be a text of digits."""
    if isinstance(number, str):
        if len(number) > _MOST_DIGITS:
            return False
        number = int(number)
    try:
        near = float(number)
    except OverflowError:
        return False
    if root is TypeRoot.FLOAT:
        if abs(near) > _LARGEST_FLOAT:
            return False
        near = float(np.float32(near))
    return int(near) == number
