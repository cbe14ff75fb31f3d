"""The text of values in CSV and JSON files, and the values of texts.

Texts are those of Paimon's casts (storage.base.types.casting), bytes are base64, BOOLEAN is `true` or `false`. Java
Paimon takes any other text of a BOOLEAN as false; here it is malformed. Dates and times are written only if their text
is read back as the same value. TIMESTAMP WITH LOCAL TIME ZONE is the local time of the machine, as in Java.
"""

import base64
import binascii
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import FALSE, array_of, from_numpy, nulls_of, scalar_of, to_numpy
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.casting.cast import cast_text
from interbed.storage.base.types.casting.formatting import cast_to_text
from interbed.storage.base.types.casting.numeric import cast_few
from interbed.storage.base.types.data_type import (
    BINARIES,
    INTEGERS,
    STRINGS,
    TIMESTAMPS,
    AtomicType,
    TypeRoot,
)

Array = Any
"""`pa.Array`, whose stubs are incomplete."""

Rows = npt.NDArray[np.int64]
"""Numbers of rows in the data of the caller, for errors."""

_TIMES = TIMESTAMPS | {TypeRoot.DATE, TypeRoot.TIME}
_STRING = AtomicType(TypeRoot.VARCHAR, length=2**31 - 1)
_INTEGER = r"^[+-]?[0-9]+$"


def texts_of(array: Array, data_type: AtomicType, *, name: str, rows: Rows) -> Array:
    """Return the texts of the values of a column; null stays null.

    Raises InvalidInputError naming the column and the row of a value whose text is that of another value.
    """
    root = data_type.root
    if root in STRINGS:
        return array.cast(pa.string())
    if root in BINARIES:
        return cast_few(array, pa.string(), _base64)
    texts = cast_to_text(array, data_type, _STRING)
    if root in _TIMES:
        _check_same(array, texts, data_type, name, rows)
    return texts


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _check_same(array: Array, texts: Array, data_type: AtomicType, name: str, rows: Rows) -> None:
    values, malformed = values_of(texts, data_type)
    equal: Any = pc.equal(values, array)
    same = to_numpy(equal.fill_null(True))
    lost = to_numpy(values.is_null()) & ~to_numpy(array.is_null())
    wrong = np.flatnonzero(~same | lost | (False if malformed is None else malformed))
    if len(wrong):
        row = int(wrong[0])
        raise InvalidInputError(
            f"The column {name!r}, {data_type}, has a value in row {rows[row]} (counted from 0) whose text "
            f"{texts[row].as_py()!r} would be read as another value; keep such values in Parquet, ORC or Avro files."
        )


def values_of(texts: Array, data_type: AtomicType, *, numeric_times: bool = True) -> tuple[Array, Mask | None]:
    """Return the values of texts, and where a text is no value of the type: null there; None if it is nowhere.

    With `numeric_times` an integer is a number of units since 1970 in a TIMESTAMP, as in Paimon's casts; Hive's SerDes
    do not take it.
    """
    root = data_type.root
    if root in STRINGS:
        return texts, None
    valid = to_numpy(texts.is_valid())
    malformed = np.zeros(len(texts), np.bool_)
    if root is TypeRoot.BOOLEAN:
        lower: Any = pc.utf8_lower(texts)
        true, false = (to_numpy(equal_to(lower, each)) for each in _BOOLEANS)
        known = true | false
        return from_numpy(true, ~known), _some(valid & ~known)
    if root in INTEGERS or (root in _TIMES and not numeric_times):
        integers: Array = pc.match_substring_regex(texts, _INTEGER)
        integral = to_numpy(pc.fill_null(integers, FALSE))
        malformed = valid & (~integral if root in INTEGERS else integral)
        texts = pc.if_else(from_numpy(malformed), scalar_of(None, pa.string()), texts)
    if root in INTEGERS:
        # Java's integers may have a plus sign, Arrow's have none.
        texts = pc.replace_substring_regex(texts, r"^\+", "")
    arrow = type_to_arrow(data_type.with_nullable(True))
    try:
        values = _converted(texts, data_type)
    except ValueError:
        values, more = _one_by_one(texts, data_type, arrow)
        malformed |= more
    # A DECIMAL with too many digits becomes null.
    malformed |= to_numpy(values.is_null()) & valid
    return values, _some(malformed)


_BOOLEANS = ("true", "false")


def equal_to(texts: Array, text: str) -> Array:
    """Return where texts are equal to one text; false for null."""
    equal: Array = pc.equal(texts, scalar_of(text, pa.string()))
    filled: Array = pc.fill_null(equal, FALSE)
    return filled


def _some(malformed: Mask) -> Mask | None:
    return malformed if malformed.any() else None


def _converted(texts: Array, data_type: AtomicType) -> Array:
    if data_type.root in BINARIES:
        return cast_few(texts, pa.binary(), _bytes)
    return cast_text(texts, data_type)


def _bytes(text: str | None) -> bytes | None:
    try:
        return None if text is None else base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _one_by_one(texts: Array, data_type: AtomicType, arrow: pa.DataType) -> tuple[Array, Mask]:
    """Return the values of texts of which some are malformed; halves are converted until the bad ones are found."""
    parts: list[Array] = []
    malformed = np.zeros(len(texts), np.bool_)

    def convert(begin: int, count: int) -> None:
        try:
            parts.append(_converted(texts.slice(begin, count), data_type))
        except ValueError:
            if count == 1:
                malformed[begin] = True
                parts.append(nulls_of(1, arrow))
                return
            convert(begin, count // 2)
            convert(begin + count // 2, count - count // 2)

    convert(0, len(texts))
    return (pa.concat_arrays([part.cast(arrow) for part in parts]) if parts else array_of([], arrow)), malformed
