"""Numbers of JSON that the guessed type of their field does not hold: integers in a DOUBLE, fractions in an integer."""

from decimal import Decimal

from interbed.ingest.formats.guessed.sent_number import SentNumber
from interbed.storage.base.types.data_type import INTEGERS, ArrayType, AtomicType, DataType, RowType, TypeRoot

Path = tuple[str, ...]
"""The names of the fields on the way to a number; an element of a list is at `[]`."""

_ELEMENT = "[]"
EXACT_MAX = 2.0**53
"""Up to it every integer is a DOUBLE."""


def unheld_number(value: object, kind: DataType, path: Path) -> str | None:
    """Say which number within a value its type does not hold, and the way out; None where there is none."""
    match value:
        case bool():
            return None
        case int() if _is_of(kind, TypeRoot.DOUBLE) and _is_inexact(value):
            return _reason(path, value, "which no DOUBLE holds exactly")
        case SentNumber() if _is_integer(kind) and _has_fraction(value):
            return _reason(path, value, "a fraction after an integer")
        case dict() if isinstance(kind, RowType):
            parts = [(value.get(f.name), f.type, f.name) for f in kind.fields]
        case list() if isinstance(kind, ArrayType):
            parts = [(each, kind.element, _ELEMENT) for each in value]
        case _:
            return None
    found = (unheld_number(each, inner, (*path, name)) for each, inner, name in parts)
    return next((reason for reason in found if reason is not None), None)


def _reason(path: Path, number: "int | SentNumber", what: str) -> str:
    return f"its field {'.'.join(path)} has {number}, {what}: create the column beforehand, as a DECIMAL"


def _is_of(kind: DataType, root: TypeRoot) -> bool:
    return isinstance(kind, AtomicType) and kind.root is root


def _is_integer(kind: DataType) -> bool:
    if not isinstance(kind, AtomicType):
        return False
    return kind.root in INTEGERS or (kind.root is TypeRoot.DECIMAL and not kind.scale)


def _has_fraction(number: SentNumber) -> bool:
    exponent = Decimal(number.text).normalize().as_tuple().exponent
    return isinstance(exponent, int) and exponent < 0


def _is_inexact(number: int) -> bool:
    if abs(number) <= EXACT_MAX:
        return False
    try:
        return int(float(number)) != number
    except OverflowError:
        return True
