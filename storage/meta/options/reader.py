"""Parser of options: text of a table's option map as typed values.

Every method raises InvalidOptionError naming the key, the value and the valid values.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.path_name import is_name_part, is_path_name
from interbed.storage.base.shown_text import parse_duration_millis, parse_memory

_E = TypeVar("_E", bound=StrEnum)

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LIST_OF = "list of "
_INT = (-(2**31), 2**31 - 1)
_LONG = (-(2**63), 2**63 - 1)
LONG_INTEGERS = frozenset(
    (
        "dynamic-bucket.target-row-num",
        "parquet.page.size",
        "read.stream.maxBytesPerTrigger",
        "read.stream.maxRowsPerTrigger",
        "read.stream.maxTriggerDelayMs",
        "read.stream.minRowsPerTrigger",
        "scan.bounded.watermark",
        "scan.creation-time-millis",
        "scan.file-creation-time-millis",
        "scan.snapshot-id",
        "scan.timestamp-millis",
        "scan.watermark",
        "target-file-row-num",
    )
)
"""Integers of 64 bits; all others have 32, as in Java."""


@dataclass(frozen=True, slots=True)
class OptionReader:
    """Map of options; `raw` is the map of the schema file with the caller's dynamic options on top.

    `sources` has the file of the keys that come from one: errors name it, because its text may be damaged.
    """

    raw: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    def text(self, key: str, default: str) -> str:
        """Return the option as text."""
        return self.raw.get(key, default)

    def name_prefix(self, key: str, default: str) -> str:
        """Return the option as a prefix of file names, without separators and control characters."""
        value = self.raw.get(key, default)
        if not is_name_part(value):
            raise self._refused(
                key, f"Option '{key}' takes what names of files begin with, without slashes or controls, not {value!r}."
            )
        return value

    def inner_directory(self, key: str) -> str | None:
        """Return the option as a directory below the table's, such as 'data/new'; None when it is not set."""
        value = self.raw.get(key)
        if value is None or not value.strip("/"):
            return None
        if not all(is_path_name(part) for part in value.strip("/").split("/")):
            raise self._refused(
                key, f"Option '{key}' takes a directory below the table's, such as 'data', not {value!r}."
            )
        return value.strip("/")

    def integer(self, key: str, default: int) -> int:
        """Return the option as an integer."""
        value = self.raw.get(key)
        if value is None:
            return default
        if not _INTEGER.fullmatch(value):
            raise self._refused(key, f"Option '{key}' takes an integer, not '{value}'.")
        number = int(value)
        least, most = _LONG if key in LONG_INTEGERS else _INT
        if not least <= number <= most:
            raise self._refused(key, f"Option '{key}' takes an integer from {least} to {most}, not '{value}'.")
        return number

    def boolean(self, key: str, default: bool) -> bool:
        """Return the option as true or false."""
        value = self.raw.get(key)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise self._refused(key, f"Option '{key}' takes true or false, not '{value}'.")
        return value.lower() == "true"

    def number(self, key: str, default: float) -> float:
        """Return the option as a number with a fraction."""
        value = self.raw.get(key)
        if value is None:
            return default
        if not _NUMBER.fullmatch(value) or not math.isfinite(float(value)):
            raise self._refused(key, f"Option '{key}' takes a number, not '{value}'.")
        return float(value)

    def optional_integer(self, key: str) -> int | None:
        """Return the option as an integer, None when it is not set."""
        return self.integer(key, 0) if key in self.raw else None

    def optional_memory(self, key: str) -> int | None:
        """Return the option as a size in bytes, None when it is not set."""
        return self.memory(key, 0) if key in self.raw else None

    def optional_duration_millis(self, key: str) -> int | None:
        """Return the option as a duration in milliseconds, None when it is not set."""
        return self.duration_millis(key, 0) if key in self.raw else None

    def first(self, *keys: str) -> str:
        """Return the first of the keys that is set, otherwise the first one: for options with older names."""
        return next((k for k in keys if k in self.raw), keys[0])

    def by_level(self, key: str) -> dict[int, str]:
        """Return the option as a map from levels to values, written as `0:avro,5:parquet`."""
        levels: dict[int, str] = {}
        for part in self.names(key):
            level, colon, value = part.partition(":")
            if not colon or not level.strip().isdigit() or not value.strip():
                raise self._refused(key, f"Option '{key}' takes pairs such as '0:avro,1:parquet', not '{part}'.")
            levels[int(level)] = value.strip().lower()
        return levels

    def memory(self, key: str, default: int) -> int:
        """Return the option as a size in bytes."""
        value = self.raw.get(key)
        try:
            return default if value is None else parse_memory(key, value)
        except InvalidOptionError as error:
            raise self._refused(key, str(error)) from None

    def duration_millis(self, key: str, default: int) -> int:
        """Return the option as a duration in milliseconds."""
        value = self.raw.get(key)
        try:
            return default if value is None else parse_duration_millis(key, value)
        except InvalidOptionError as error:
            raise self._refused(key, str(error)) from None

    def interval_millis(self, key: str, default: int | None) -> int | None:
        """Return the option as an interval in milliseconds; None, written -1, for never."""
        value = self.raw.get(key)
        if value is None:
            return default
        if value.strip() == "-1":
            return None
        try:
            return parse_duration_millis(key, value)
        except InvalidOptionError:
            message = f"Option '{key}' takes a duration such as '8 min', or -1 for never, not '{value}'."
            raise self._refused(key, message) from None

    def names(self, key: str) -> tuple[str, ...]:
        """Return the option as a comma-separated list of names."""
        return tuple(n.strip() for n in self.raw.get(key, "").split(",") if n.strip())

    def choice(self, key: str, default: _E) -> _E:
        """Return the option as one of the members of the default's enumeration."""
        value = self.raw.get(key)
        if value is None:
            return default
        kind = type(default)
        try:
            return kind(value.lower())
        except ValueError:
            known = ", ".join(kind)
            raise self._refused(key, f"Option '{key}' takes one of {known}, not '{value}'.") from None

    def check_kind(self, key: str, kind: str) -> None:
        """Raise InvalidOptionError for a value that is not of the kind: one of docs/options.md, or of several words."""
        match kind:
            case "boolean":
                self.boolean(key, False)
            case "integer":
                self.integer(key, 0)
            case "number":
                self.number(key, 0.0)
            case "size":
                self.memory(key, 0)
            case "duration":
                self.duration_millis(key, 0)
            case choices if choices.startswith(_LIST_OF) and " | " in choices:
                members = choices.removeprefix(_LIST_OF).split(" | ")
                given = self.raw[key].lower().split(",")
                if wrong := [part.strip() for part in given if part.strip() not in members]:
                    raise self._refused(
                        key,
                        f"Option '{key}' lists some of {', '.join(members)}, separated by commas, not '{wrong[0]}'.",
                    )
            case choices if " | " in choices:
                if self.raw[key].lower() not in choices.split(" | "):
                    known = choices.replace(" | ", ", ")
                    raise self._refused(key, f"Option '{key}' takes one of {known}, not '{self.raw[key]}'.")

    def _refused(self, key: str, message: str) -> InvalidOptionError:
        source = self.sources.get(key)
        return InvalidOptionError(message if source is None else f"{message} It is set in {source}.")
