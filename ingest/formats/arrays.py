"""Helpers that decoders share: masks and buffers between Arrow and numpy, rows of changes, values and exact numbers.

A fraction becomes the nearest FLOAT or DOUBLE; no other number is rounded. A number beyond the range of the type is
refused, and so is a number other than 0 whose nearest value is 0. FLOAT and DOUBLE hold all integers up to 2^24 and
2^53, and some larger ones.
"""

import re
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrays import Mask as Mask
from interbed.storage.base.arrow_values import one_array as one_array
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.row.python_values import shown_value
from interbed.storage.base.types.data_type import INTEGERS, AtomicType, TypeRoot

Array: TypeAlias = "pa.Array[Any]"
Indices: TypeAlias = npt.NDArray[np.int64]
Rows = TypeVar("Rows", bound=Any)


def mask_of(booleans: Any) -> Mask:
    """Return Arrow's booleans, which have no nulls, as a numpy mask."""
    found: Mask = booleans.to_numpy(zero_copy_only=False)
    return found


def valid(array: Array) -> Mask:
    """Return which values are not null."""
    return mask_of(array.is_valid())


def true_of(booleans: Any) -> Mask:
    """Return where Arrow's booleans are true; nulls count as false."""
    return mask_of(booleans.fill_null(False))


def taken(values: Rows, numbers: Indices) -> Rows:
    """Return the values, or rows of a table, with these indices."""
    found: Rows = values.take(pa.array(numbers))
    return found


def kept(values: Rows, chosen: Mask) -> Rows:
    """Return the chosen values, or rows of a table; the same object if all are chosen."""
    if chosen.all():
        return values
    found: Rows = values.filter(pa.array(chosen))
    return found


def buffer_of(numbers: "npt.NDArray[Any]") -> Any:
    """Return the bytes of numbers as a buffer of Arrow, without a copy."""
    whole: Any = np.ascontiguousarray(numbers)
    return pa.py_buffer(whole)


MISFITS = (ValueError, TypeError, NotImplementedError, ArithmeticError)
"""The exceptions of conversions for a value that cannot be converted; pyarrow's errors are among them."""


def changed_rows(
    before: Any, after: Any, *, inserted: Mask, updated: Mask, deleted: Mask
) -> tuple[pa.Table, npt.NDArray[np.int8], npt.NDArray[np.int64]]:
    """Return rows, kinds and the index of the change of each row, in the order of the changes.

    `before` and `after` are arrays of structs of the same type with an entry for each change, null where there is no
    such row. An insertion has the row after it, a deletion the row before it. An update has the row after it and, where
    it is known, the row before it.
    """
    count = len(after)
    names = [field.name for field in after.type]
    old = deleted | (updated & valid(before))
    new = inserted | updated
    last = np.where(updated, np.int8(RowKind.UPDATE_AFTER), np.int8(RowKind.INSERT))
    if (old ^ new).all():
        # Each change has one row. This is common: most sources do not send rows before updates.
        rows = _either(new, after, before)
        return (
            pa.table(dict(zip(names, rows, strict=True))),
            np.where(new, last, np.int8(RowKind.DELETE)),
            np.arange(count),
        )
    wanted = np.stack([old, new], axis=1)
    place = np.stack([np.arange(count), count + np.arange(count)], axis=1)[wanted]
    kinds = np.stack(
        [
            np.where(deleted, np.int8(RowKind.DELETE), np.int8(RowKind.UPDATE_BEFORE)),
            last,
        ],
        axis=1,
    )[wanted]
    columns = [
        taken(pa.concat_arrays([one, other]), place)
        for one, other in zip(before.flatten(), after.flatten(), strict=True)
    ]
    return pa.table(dict(zip(names, columns, strict=True))), kinds, np.arange(count).repeat(wanted.sum(axis=1))


def _either(chosen: Mask, one: Any, other: Any) -> list[Array]:
    """Return the fields of the rows of `one` where `chosen` is true, otherwise those of `other`."""
    if chosen.all():
        fields: list[Array] = one.flatten()
        return fields
    pairs = zip(one.flatten(), other.flatten(), strict=True)
    return [pc.if_else(pa.array(chosen), first, second) for first, second in pairs]


def converted_columns(
    columns: Sequence[Array],
    convert: Sequence[Callable[[Array], Array]],
    names: Sequence[str],
    types: Sequence[pa.DataType],
) -> tuple[list[Array], dict[int, str]]:
    """Convert each column to its type. Return also the reasons, by row, for values that cannot be converted; these are
    null.
    """
    reasons: dict[int, str] = {}
    found = []
    for column, change, name, kind in zip(columns, convert, names, types, strict=True):
        made, misfits = converted_values(column, change, kind)
        found.append(made)
        for i, error in misfits.items():
            reason = f"its column {name!r} has {shown_value(column, i)}, which is no value of it: {error}"
            reasons.setdefault(i, reason)
    return found, reasons


def converted_values(
    column: Array, change: Callable[[Array], Array], kind: pa.DataType
) -> tuple[Array, dict[int, Exception]]:
    """Convert values to a type. Return also the errors, by place, of values that cannot be converted; these are
    null.
    """
    errors: dict[int, Exception] = {}
    parts = _parts(column, change, errors, 0)
    if len(parts) == 1 and parts[0] is not None:
        return parts[0], errors
    good = next((part.type for part in parts if part is not None), kind)
    nothing: Any = pa.nulls(1, good)  # type: ignore[arg-type]
    return pa.concat_arrays([nothing if part is None else part for part in parts]), errors


def _parts(
    column: Array, change: Callable[[Array], Array], errors: dict[int, Exception], first: int
) -> "list[Array | None]":
    """Convert the column in pieces: halving finds a bad value in few steps. A piece that is a bad value is None."""
    try:
        return [change(column)]
    except MISFITS as error:
        if len(column) <= 1:
            if len(column):
                errors[first] = error
            return [None] * len(column)
    middle = len(column) // 2
    begin = _parts(column.slice(0, middle), change, errors, first)
    return [*begin, *_parts(column.slice(middle), change, errors, first + middle)]


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
NUMBER_FORM = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"


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
    try:
        made: Any = texts.cast(pa.float64())
    except pa.ArrowInvalid as error:
        raise ValueError(f"it is no {target}") from error
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
    if not mask_of(pc.match_substring_regex(texts, NUMBER_FORM).fill_null(True)).all():
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
