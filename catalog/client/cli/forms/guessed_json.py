"""Types of columns guessed from the values of a JSON file: no type that would lose a digit of a number.

Numbers are guessed from their texts as those of a CSV file are (`guessed_types`), those within objects and lists, too.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from interbed.catalog.client.cli.forms.guessed_types import GuessedColumn

_DIGITS = 38


class GuessedJson:
    """What the values of a column that were seen have in common; `text` is what JsonNumber keeps of a number."""

    def __init__(self) -> None:
        self._kind: str | None = None
        self._has_digits = False
        self._numbers = GuessedColumn()
        self._items: GuessedJson | None = None
        self._fields: dict[str, GuessedJson] = {}

    def add(self, values: Iterable[Any]) -> None:
        """Take more values; raises ValueError when they are of no one type."""
        found = [value for value in values if value is not None]
        for kind in {_kind_of(value) for value in found}:
            if self._kind is not None and kind != self._kind:
                raise ValueError(f"{self._kind} and {kind}")
            self._kind = kind
        if self._kind == "numbers":
            self._add_numbers(found)
        elif self._kind == "lists":
            self._items = self._items or GuessedJson()
            self._items.add(item for value in found for item in value)
        elif self._kind == "objects":
            for name in dict.fromkeys(name for value in found for name in value):
                self._fields.setdefault(name, GuessedJson()).add(value.get(name) for value in found)

    @property
    def type(self) -> pa.DataType:
        """The type of all values; null where there are none. Raises ValueError for numbers that no type holds."""
        match self._kind:
            case "truth values":
                return pa.bool_()
            case "texts":
                return pa.string()
            case "lists":
                return pa.list_(pa.null() if self._items is None else self._items.type)
            case "objects":
                return pa.struct([(name, field.type) for name, field in self._fields.items()])
            case "numbers":
                return self._type_of_numbers()
        return pa.null()

    def _add_numbers(self, numbers: list[Any]) -> None:
        # Python's JSON takes NaN and Infinity, which are floats without digits.
        self._has_digits = self._has_digits or any(type(number) is not float for number in numbers)
        texts = [_plain(getattr(number, "text", str(number))) for number in numbers]
        self._numbers.add(pa.array(texts, pa.string()), pa.null())

    def _type_of_numbers(self) -> pa.DataType:
        if not self._has_digits:
            return pa.float64()
        kind = self._numbers.type
        if pa.types.is_string(kind):
            raise ValueError("their digits fit into no DOUBLE and no DECIMAL")
        return kind


def _plain(text: str) -> str:
    """The same number without an exponent, unless that has more digits than any type; 5e-1 is a DECIMAL, too."""
    if "e" not in text and "E" not in text:
        return text
    number = Decimal(text)
    return format(number, "f") if -_DIGITS <= number.adjusted() <= _DIGITS else text


def _kind_of(value: Any) -> str:
    match value:
        case bool():
            return "truth values"
        case int() | float():
            return "numbers"
        case dict():
            return "objects"
        case list():
            return "lists"
    return "texts"
