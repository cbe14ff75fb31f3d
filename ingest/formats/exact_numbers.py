"""Numbers as values of a column. A fraction becomes the nearest FLOAT or DOUBLE; no other number is rounded.

A number beyond the range of the type is refused, and so is a number other than 0 whose nearest value is 0.

FLOAT and DOUBLE hold all integers up to 2^24 and 2^53, and some larger ones.
"""

import re
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.formats.arrays import Array, mask_of
from interbed.storage.base.types.data_type import INTEGERS, AtomicType, TypeRoot

_NOT_ZERO = r"^\s*[-+]?[0.]*[1-9]"
"""Pattern of texts of numbers with a digit other than 0 before the exponent."""
_LARGEST_FLOAT = 3.4028234663852886e38
MOST_DIGITS = 400
"""More digits than a number of any column has."""


def integers_from(root: TypeRoot) -> int:
    """Return the first integer after which the type does not hold every integer."""
    return 1 << (24 if root is TypeRoot.FLOAT else 53)


def inexact_integer(texts: Any, root: TypeRoot) -> str | None:
    """Return the first text that is an integer which FLOAT or DOUBLE does not hold exactly; None if there is none."""
    large = texts.filter(pc.match_substring_regex(texts, "^[-+]?[0-9]{8,}$")).drop_null()
    return next((text for text in large.to_pylist() if not is_exact_integer(text, root)), None)


def is_exact_integer(number: int | str, root: TypeRoot) -> bool:
    """Return whether FLOAT or DOUBLE holds an integer exactly. The integer may be a text of digits."""
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


FLOATS = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
_NUMBER = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"


def sent_numbers(texts: Any, target: AtomicType, arrow: pa.DataType) -> Array:
    """Convert numbers of JSON, given as their texts, to a numeric type."""
    if target.root in FLOATS:
        made: Any = floats_of_texts(texts.cast(pa.string()), target)
        if mask_of(pc.is_inf(made).fill_null(False)).any():
            raise ValueError(f"it is beyond the range of {target}")
        return made  # type: ignore[no-any-return]
    # One by one: these are numbers whose digits a DOUBLE may not have.
    if target.root in INTEGERS:
        return pa.array([None if t is None else _integer(t, target) for t in texts.to_pylist()], arrow)
    return pa.array([None if t is None else _decimal(t, target) for t in texts.to_pylist()], arrow)


def floats_of_texts(texts: Any, target: AtomicType) -> Array:
    """Convert texts of numbers to FLOAT or DOUBLE: integers exactly, fractions to the nearest DOUBLE and its FLOAT."""
    inexact = inexact_integer(texts, target.root)
    if inexact is not None:
        raise ValueError(_not_held(inexact, target))
    made: Any = texts.cast(pa.float64())
    check_not_lost(texts, made, target)
    return made if target.root is TypeRoot.DOUBLE else _checked(made, made.cast(pa.float32()), target)


def decimals_of_texts(texts: Any, target: AtomicType, arrow: pa.DataType) -> Array:
    """Convert texts of numbers to DECIMAL. Arrow gets only texts whose digits surely fit, because it wraps others."""
    scale = target.scale or 0
    digits = (target.precision or 0) - scale
    short = rf"^[-+]?[0-9]{{1,{digits}}}(\.[0-9]{{0,{scale}}})?$" if digits else r"^0$"
    if mask_of(pc.match_substring_regex(texts, short).fill_null(True)).all():
        found: Array = texts.cast(arrow)
        return found
    if not mask_of(pc.match_substring_regex(texts, _NUMBER).fill_null(True)).all():
        raise ValueError(f"it is no {target}")
    # One by one: these are written with more digits than the type has, or with an exponent.
    return pa.array([None if t is None else _decimal(t, target) for t in texts.to_pylist()], arrow)


def floats_of_integers(values: Any, target: AtomicType, arrow: pa.DataType) -> Array:
    """Convert integers, or decimals without a fraction, to FLOAT or DOUBLE."""
    most = integers_from(target.root)
    wide = values.cast(pa.decimal128(38, 0)) if pa.types.is_integer(values.type) else values
    beyond = pc.greater(pc.abs(wide), pa.scalar(Decimal(most), pa.decimal128(38, 0)))
    for number in wide.filter(beyond).drop_null().to_pylist():
        if not is_exact_integer(int(number), target.root):
            raise ValueError(_not_held(number, target))
    found: Array = values.cast(pa.float64(), safe=False).cast(arrow, safe=False)
    return found


def _checked(given: Any, made: Any, target: AtomicType) -> Array:
    """Return FLOATs of DOUBLEs. Raises ValueError if one became infinite."""
    if mask_of(pc.and_(pc.is_inf(made), pc.is_finite(given)).fill_null(False)).any():
        raise ValueError(f"it is beyond the range of {target}")
    check_not_lost(given, made, target)
    found: Array = made
    return found


def is_lost(text: str) -> bool:
    """Return whether the nearest DOUBLE of a number other than 0 is 0."""
    return float(text) == 0 and re.match(_NOT_ZERO, text) is not None


def check_not_lost(given: Any, made: Any, target: object) -> None:
    """Raise ValueError if a number other than 0, given as a text or a float, became 0."""
    zero: Any = pc.equal(made, pa.scalar(0, made.type))
    if not mask_of(zero.fill_null(False)).any():
        return
    if pa.types.is_floating(given.type):
        other: Any = pc.not_equal(given, pa.scalar(0, given.type))
    else:
        other = pc.match_substring_regex(given, _NOT_ZERO)
    if mask_of(pc.and_(zero, other).fill_null(False)).any():
        raise ValueError(f"it is closer to 0 than any {target}")


def _not_held(number: object, target: AtomicType) -> str:
    return f"no {target.root.value} is the integer {str(number)[:60]}"


def _integer(text: str, target: AtomicType) -> int:
    number = Decimal(text)
    if number.adjusted() > MOST_DIGITS or number != number.to_integral_value():
        raise ValueError(f"{text} is no {target}")
    return int(number)


def _decimal(text: str, target: AtomicType) -> Decimal:
    """Return the number without trailing zeros. Raises ValueError if it has more digits than the type."""
    # The length of the text is a precision that rounds nothing.
    number = Decimal(text).normalize(Context(prec=len(text)))
    _, _, exponent = number.as_tuple()
    scale = target.scale or 0
    if isinstance(exponent, int) and (-exponent > scale or number.adjusted() >= (target.precision or 0) - scale):
        if number:
            raise ValueError(f"it has more digits than {target}")
        return Decimal(0)
    return number
