"""Which integers a FLOAT or a DOUBLE holds: all up to 2^24 and 2^53, and some beyond."""

from typing import Any

import numpy as np
import pyarrow.compute as pc

from interbed.storage.base.types.data_type import TypeRoot

_LARGEST_FLOAT = 3.4028234663852886e38
MOST_DIGITS = 400
"""More digits than any number of a column has."""


def integers_from(root: TypeRoot) -> int:
    """The first integer after which not all are values of the type."""
    return 1 << (24 if root is TypeRoot.FLOAT else 53)


def inexact_integer(texts: Any, root: TypeRoot) -> str | None:
    """The first text that is an integer which FLOAT or DOUBLE does not have; None for none."""
    large = texts.filter(pc.match_substring_regex(texts, "^[-+]?[0-9]{8,}$")).drop_null()
    return next((text for text in large.to_pylist() if not is_exact_integer(text, root)), None)


def is_exact_integer(number: int | str, root: TypeRoot) -> bool:
    """Whether FLOAT or DOUBLE has an integer, which may be a text of digits."""
    if isinstance(number, str):
        if len(number) > MOST_DIGITS:
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
