"""Table properties that are whole numbers."""

from collections.abc import Mapping

from interbed.storage.base.errors import InvalidOptionError


def whole_number(properties: Mapping[str, str], name: str, default: int, *, least: int | None = None) -> int:
    """A property's number; raises InvalidOptionError for what is none, or less than `least`."""
    text = properties.get(name)
    if text is None:
        return default
    if not text.removeprefix("-").isdecimal():
        raise InvalidOptionError(f"The table property '{name}' is {text!r}, which is no number.")
    found = int(text)
    if least is not None and found < least:
        raise InvalidOptionError(f"The table property '{name}' is {text!r}; it should be {least} or more.")
    return found
