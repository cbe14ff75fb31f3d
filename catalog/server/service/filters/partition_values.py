"""Values of partition keys as they are searched for: text whose order is the order of the values.

A partition's value is text, whatever its key's type. For comparisons in SQL each has a search form, which sorts by
code points as the values sort by their type:

    string, char, varchar, boolean   the text itself
    tinyint … bigint                 a letter for sign and number of digits, then the digits; those of negative
                                     numbers as their difference to 9: -12 "U87", 0 "b0", 7 "b7", 12 "c12"
    date                             yyyy-mm-dd
    timestamp                        yyyy-mm-dd hh:mm:ss[.fraction], without zeros at its end
    other types                      the text; filters on such keys are refused

What is no value of its type, as the default partition is none of a number's, has the empty text: it sorts before all
others, and no comparison holds for it.
"""

import re
from datetime import date, datetime
from enum import StrEnum

from interbed.catalog.server.service.settings import DEFAULT_PARTITION_NAME

NO_VALUE = ""
"""The search form of what is no value of the key's type."""

DIGITS_MAX = 22
"""Digits that the letters provide for; bigint has 19."""

_DIGITS = re.compile(r"[+-]?[0-9]+")
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T].*)?", re.DOTALL)
_TIMESTAMP = re.compile(r"(\d{4}-\d{1,2}-\d{1,2})(?:[ T](\d{1,2}:\d{1,2}:\d{1,2})(?:\.(\d{1,9}))?)?")
_COMPLEMENT = str.maketrans("0123456789", "9876543210")


class KeyKind(StrEnum):
    """How values of a partition key compare."""

    TEXT = "text"
    INTEGRAL = "integral"
    DATE = "date"
    TIMESTAMP = "timestamp"
    OTHER = "other"


_KINDS = {
    **dict.fromkeys(("string", "char", "varchar", "boolean"), KeyKind.TEXT),
    **dict.fromkeys(("tinyint", "smallint", "int", "integer", "bigint"), KeyKind.INTEGRAL),
    "date": KeyKind.DATE,
    "timestamp": KeyKind.TIMESTAMP,
}


def kind_of_type(type_text: str | None) -> KeyKind:
    """The kind of a key by its Hive type; a key without a type is text."""
    return _KINDS.get((type_text or "string").partition("(")[0].strip().lower(), KeyKind.OTHER)


def search_form(kind: KeyKind, value: str) -> str:
    """The search form of a partition's value. NO_VALUE if it is none of the type, never an error."""
    if kind is KeyKind.INTEGRAL:
        return integral_form(int(value)) if _DIGITS.fullmatch(value) and len(value) <= 64 else NO_VALUE
    if kind is KeyKind.DATE:
        return date_form(value)
    if kind is KeyKind.TIMESTAMP:
        return timestamp_form(value)
    # A partition without a value is stored in the default partition's directory, and is found under its name.
    return value or DEFAULT_PARTITION_NAME


def integral_form(number: int) -> str:
    """The search form of a number; NO_VALUE if it has more digits than any key's type."""
    digits = str(abs(number))
    if len(digits) > DIGITS_MAX:
        return NO_VALUE
    if number < 0:
        return chr(ord("W") - len(digits)) + digits.translate(_COMPLEMENT)
    return chr(ord("a") + len(digits)) + digits


def date_form(text: str) -> str:
    """The search form of a date; what follows the day is left out, as Hive leaves it out. NO_VALUE for other text."""
    match = _DATE.fullmatch(text)
    if match is None:
        return NO_VALUE
    try:
        return date(int(match[1]), int(match[2]), int(match[3])).isoformat()
    except ValueError:
        return NO_VALUE


def timestamp_form(text: str) -> str:
    """The search form of a point in time; a date alone is its beginning. NO_VALUE for other text."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return NO_VALUE
    day = date_form(match[1])
    try:
        clock = datetime.strptime(match[2] or "00:00:00", "%H:%M:%S").strftime("%H:%M:%S")
    except ValueError:
        return NO_VALUE
    fraction = (match[3] or "").rstrip("0")
    return f"{day} {clock}{'.' + fraction if fraction else ''}" if day else NO_VALUE
