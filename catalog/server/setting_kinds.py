"""Kinds and sources of settings.

A kind (ports, durations, sizes, choices) converts a setting from text and back. Every source of settings (a TOML file
and the environment here, the command line, a Hive site) gives text, so that all of them accept and refuse the same.
"""

import dataclasses
import difflib
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from interbed.storage.base.errors import InvalidOptionError

T = TypeVar("T")

_SECONDS = {
    "ns": 1e-9,
    "nsec": 1e-9,
    "us": 1e-6,
    "usec": 1e-6,
    "ms": 1e-3,
    "msec": 1e-3,
    "": 1.0,
    "s": 1.0,
    "sec": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
}
"""Hive's units of time; their plural is accepted, too."""

_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}

NO_AUTHENTICATION = "none"
"""The word of the setting `authentication` for a server that serves every client that reaches it."""

_NAME = re.compile(r"\w{1,128}", re.ASCII)
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.ASCII)


class ServerSettingsError(InvalidOptionError):
    """A setting is unknown or has an invalid value; nothing was started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingKind(Generic[T]):
    """Parser of a setting. `parse` raises ValueError for text that is none of the `allowed`; `choices` are the allowed
    words where there are few, `bare` is the value of the option without an argument on the command line.
    """

    allowed: str
    parse: Callable[[str], T]
    choices: tuple[str, ...] = ()
    bare: str | None = None


def about(text: str, kind: SettingKind[Any]) -> Mapping[str, Any]:
    """Return the metadata of the field of a setting."""
    return {"help": text, "kind": kind}


def optional(kind: SettingKind[T]) -> SettingKind[T | None]:
    """Return the same kind, or nothing: an empty text turns the feature off."""
    return SettingKind(allowed=f"{kind.allowed}, or nothing", parse=lambda text: kind.parse(text) if text else None)


def choice(*words: str) -> SettingKind[Any]:
    """Return the kind of a few words, in any case."""

    def parse(text: str) -> str:
        for word in words:
            if word.lower() == text.lower():
                return word
        raise ValueError

    return SettingKind(allowed=" or ".join(words), parse=parse, choices=words)


def some_of(*words: str) -> SettingKind[str]:
    """Return the kind of a list of some of these words in any case, separated by commas; an empty text is none."""

    def parse(text: str) -> str:
        found = {each.lower() for each in listed(text)}
        if not found <= {word.lower() for word in words}:
            raise ValueError
        return ",".join(word for word in words if word.lower() in found)

    return SettingKind(allowed=f"some of {', '.join(words)}, separated by commas, or nothing", parse=parse)


def listed(text: str | None) -> list[str]:
    """Return the entries of a setting that is a list, separated by commas."""
    return [each.strip() for each in (text or "").split(",") if each.strip()]


def mechanisms_of(authentication: str) -> list[str]:
    """Return the mechanisms of the setting `authentication`; none where it is empty or says `none`."""
    return [each for each in listed(authentication) if each != NO_AUTHENTICATION]


def named_locations(text: str | None) -> dict[str, str]:
    """Return the entries of a setting that is a list of NAME=LOCATION, by their names in lower case. ValueError for
    another form, for a name that is not one of letters, digits and underscores, and for a name that is there twice.
    """
    found: dict[str, str] = {}
    for entry in listed(text):
        name, equals, location = (part.strip() for part in entry.partition("="))
        if not (equals and location and _NAME.fullmatch(name)) or name.lower() in found:
            raise ValueError
        found[name.lower()] = location
    return found


def _parse_named_locations(text: str) -> str:
    return ",".join(f"{name}={location}" for name, location in named_locations(text).items())


def switch() -> SettingKind[Any]:
    """Return the kind of a switch: on or off; the option alone is on."""
    return dataclasses.replace(choice("off", "on"), bare="on")


def integer(least: int, most: int, what: str) -> SettingKind[int]:
    """Return the kind of a whole number within bounds."""

    def parse(text: str) -> int:
        number = int(text)
        if not least <= number <= most:
            raise ValueError
        return number

    return SettingKind(allowed=f"{what} from {least} to {most}", parse=parse)


def parse_seconds(text: str) -> float:
    """Return seconds from `300`, `0.5`, `300s`, `5min`, `1d`."""
    number, unit = _quantity(text)
    if unit not in _SECONDS:
        unit = unit.removesuffix("s")
    return number * _SECONDS[unit]


def _parse_positive_seconds(text: str) -> float:
    seconds = parse_seconds(text)
    if seconds <= 0:
        raise ValueError
    return seconds


def _parse_bytes(text: str) -> int:
    number, unit = _quantity(text)
    return int(number * _BYTES[unit.removesuffix("ib").removesuffix("b") if unit != "b" else unit])


def _parse_bytes_between(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        size = _parse_bytes(text)
        if not least <= size <= most:
            raise ValueError
        return size

    return parse


def _quantity(text: str) -> tuple[float, str]:
    match = _QUANTITY.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError
    return float(match[1]), match[2]


def _parse_text(text: str) -> str:
    if not text:
        raise ValueError
    return text


def _parse_bool(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


NAMED_LOCATIONS = SettingKind(
    allowed="NAME=LOCATION, separated by commas, with names of letters, digits and underscores, each once",
    parse=_parse_named_locations,
)
TEXT = SettingKind(allowed="a text that is not empty", parse=_parse_text)
PATH = SettingKind(allowed="a path", parse=lambda text: Path(_parse_text(text)))
PORT = integer(0, 65535, "a port")
SECONDS = SettingKind(allowed="a time above 0, such as 300, 300s, 5min or 1d", parse=_parse_positive_seconds)
SECONDS_OR_NONE = SettingKind(allowed="a time such as 300, 30min or 1d, or 0", parse=parse_seconds)
BYTES = SettingKind(allowed="a size, such as 67108864 or 64MB", parse=_parse_bytes)
MESSAGE_BYTES = SettingKind(
    allowed="a size from 64KB to 1GB, such as 16MB", parse=_parse_bytes_between(64 << 10, 1 << 30)
)
SOME_BYTES = SettingKind(allowed="a size from 1MB to 1TB, such as 256MB", parse=_parse_bytes_between(1 << 20, 1 << 40))
BOOLEAN = SettingKind(allowed="true or false", parse=_parse_bool, choices=("true", "false"))


ENVIRONMENT_PREFIX = "INTERBED_SERVER_"

_ENVIRONMENT_OF_THE_COMMAND = frozenset({"INTERBED_SERVER_CONFIG", "INTERBED_SERVER_HIVE_SITE"})
"""Variables that name sources of settings, and are no settings themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One field of ServerSettings, as the command line and the documentation show it."""

    name: str
    kind: SettingKind[Any]
    default: Any
    help: str

    @property
    def option(self) -> str:
        """The name of its command-line option."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """The name of its environment variable."""
        return f"{ENVIRONMENT_PREFIX}{self.name.upper()}"


def from_file(file: Path, known: Mapping[str, Setting]) -> Iterator[tuple[str, str, str]]:
    """Yield name, source and text of each setting in a TOML file. ServerSettingsError."""
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ServerSettingsError(f"cannot read the configuration file {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ServerSettingsError(f"the configuration file {file} is not TOML: {error}") from error
    for key, value in content.items():
        if key not in known:
            raise ServerSettingsError(f"{file}: {_unknown(key, list(known))}")
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ServerSettingsError(f"{file}: {key} is {_toml_type(value)}; allowed is {known[key].kind.allowed}")
        yield key, f"{file}", str(value)


def from_environment(environ: Mapping[str, str], known: Mapping[str, Setting]) -> Iterator[tuple[str, str, str]]:
    """Yield name, source and text of each setting in the environment. ServerSettingsError."""
    variables = {setting.variable: setting for setting in known.values()}
    for variable, text in environ.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in _ENVIRONMENT_OF_THE_COMMAND:
            continue
        if variable not in variables:
            raise ServerSettingsError(f"the environment: {_unknown(variable, list(variables))}")
        yield variables[variable].name, variable, text


def parsed(setting: Setting, source: str, text: str) -> Any:
    """Return the value of a text. ServerSettingsError naming its source."""
    name, kind = setting.name, setting.kind
    try:
        return kind.parse(text)
    except (ValueError, KeyError, OverflowError):
        secret = name == "db"
        what = "this value" if secret else f"{text!r:.200}"
        raise ServerSettingsError(f"{source}: {name} cannot be {what}; allowed is {kind.allowed}") from None


def _unknown(key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
    return f"there is no setting {key:.200}; {hint}"


def _toml_type(value: object) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, list):
        return "a list"
    return "a table" if isinstance(value, dict) else "a date or a time"
