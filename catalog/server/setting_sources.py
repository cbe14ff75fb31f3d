"""Sources of the settings of a catalog server: a TOML file, and the environment."""

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interbed.catalog.server.setting_kinds import ServerSettingsError, SettingKind

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
