"""Catalogs by name, configured by a file of the user and by environment variables.

The file is the one that `INTERBED_CONFIG` names, or `~/.interbed.toml`, or `interbed/config.toml` under
`$XDG_CONFIG_HOME` (`~/.config`) if the other does not exist:

    default-catalog = "lake"

    [catalog.lake]
    warehouse = "file:/tmp/lake"

Environment variables override the file: `INTERBED_CATALOG__LAKE__WAREHOUSE`, `INTERBED_DEFAULT_CATALOG`. Two
underscores separate the names, one is a dash, and two inside an option are a dot:
`INTERBED_CATALOG__LAKE__LOCK__ENABLED` is `lock.enabled`. Names and rules are those of pyiceberg's configuration.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interbed.catalog.client.options import KNOWN, LOCATING, UNNAMED, CatalogOptions, is_known
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.shown_text import did_you_mean

CONFIG_VARIABLE = "INTERBED_CONFIG"
DEFAULT_VARIABLE = "INTERBED_DEFAULT_CATALOG"
CATALOG_PREFIX = "INTERBED_CATALOG__"
DEFAULT_CATALOG = "default-catalog"

_PLACE = re.compile(r"\s*\(at (?:line (?P<line>\d+), column \d+|end of document)\)$")


@dataclass(frozen=True, slots=True)
class ConfiguredOption:
    """The value of an option as text, and the file or variable that sets it."""

    value: str = field(repr=False)
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Catalogs by name, their settings by option; `file` is the path of the file, which may be missing."""

    file: Path
    catalogs: Mapping[str, Mapping[str, ConfiguredOption]] = field(default_factory=dict)
    default: ConfiguredOption | None = None

    def resolved(self, name: str | None, given: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        """Return the name and the options of a catalog: those configured for the name, overridden by the given ones.

        Without a name, options that locate a catalog describe one by themselves. Otherwise the default catalog is used:
        the one that `default-catalog` names, the only one, or the one named `default`. Raises InvalidOptionError naming
        a catalog that is not configured, or a configured option that does not exist.
        """
        # It raises the error for unknown options, which are checked first.
        CatalogOptions(given)
        locating = not LOCATING.isdisjoint(given)
        if name is None and locating:
            return UNNAMED, dict(given)
        wanted = self._default_name() if name is None else name
        known = self._known_name(wanted)
        if known is None:
            if not locating:
                raise self._no_such(wanted)
            return wanted, dict(given)
        settings = self.catalogs[known]
        for key, setting in settings.items():
            if not is_known(key):
                raise InvalidOptionError(
                    f"The catalog '{known}' has the unknown option '{key}' in {setting.source}."
                    f"{did_you_mean(key, KNOWN)}"
                )
        return known, {**{key: setting.value for key, setting in settings.items()}, **given}

    def _default_name(self) -> str:
        if self.default is not None:
            return self.default.value
        if len(self.catalogs) == 1:
            return next(iter(self.catalogs))
        if not self.catalogs:
            raise InvalidOptionError(
                f"No catalog is given, and none is configured: give its 'warehouse' (-o warehouse=… on the command "
                f'line), or write it into {self.file} as [catalog.lake] with warehouse = "file:/…".'
            )
        if self._known_name(UNNAMED) is None:
            raise InvalidOptionError(
                f"Several catalogs are configured: {', '.join(sorted(self.catalogs))}. Name one (--catalog on the "
                f"command line), or set {DEFAULT_CATALOG} in {self.file}."
            )
        return UNNAMED

    def _known_name(self, name: str) -> str | None:
        return name if name in self.catalogs else _match(name, self.catalogs)

    def _no_such(self, name: str) -> InvalidOptionError:
        configured = ", ".join(sorted(self.catalogs)) or "none"
        said = "" if self.default is None or self.default.value != name else f", which {self.default.source} names"
        return InvalidOptionError(
            f"No catalog '{name}'{said} is configured in {self.file} or by {CATALOG_PREFIX}… variables; configured: "
            f"{configured}.{did_you_mean(name, self.catalogs)}"
        )


def load_configuration(environment: Mapping[str, str] | None = None) -> Configuration:
    """Read the configuration of the file and the environment, by default that of the process.

    Raises InvalidOptionError naming the file and line, or the variable, that is wrong. No message shows a value.
    """
    variables = os.environ if environment is None else environment
    file, must_exist = _file(variables)
    catalogs, default = _of_file(file, must_exist)
    return Configuration(
        file=file,
        catalogs=_with_variables(catalogs, variables),
        default=ConfiguredOption(variables[DEFAULT_VARIABLE], DEFAULT_VARIABLE)
        if variables.get(DEFAULT_VARIABLE)
        else default,
    )


def _file(variables: Mapping[str, str]) -> tuple[Path, bool]:
    if variables.get(CONFIG_VARIABLE):
        return Path(variables[CONFIG_VARIABLE]).expanduser(), True
    # The home of the given environment, for a process without one of its own.
    home = Path(variables.get("HOME") or os.path.expanduser("~"))
    plain = home / ".interbed.toml"
    xdg = Path(variables.get("XDG_CONFIG_HOME") or home / ".config") / "interbed" / "config.toml"
    return (xdg if not plain.exists() and xdg.exists() else plain), False


def _of_file(file: Path, must_exist: bool) -> tuple[dict[str, dict[str, ConfiguredOption]], ConfiguredOption | None]:
    try:
        content = file.read_bytes()
    except FileNotFoundError as error:
        if not must_exist:
            return {}, None
        raise InvalidOptionError(f"There is no file {file}, which {CONFIG_VARIABLE} names.") from error
    except OSError as error:
        raise InvalidOptionError(f"Can't read the configuration {file}: {error.strerror}.") from error
    return _parsed(content, file)


def _parsed(content: bytes, file: Path) -> tuple[dict[str, dict[str, ConfiguredOption]], ConfiguredOption | None]:
    # Most processes have no such file.
    import tomllib

    try:
        document = tomllib.loads(content.decode())
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidOptionError(f"{file}, line {line}: not UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))
        line = int(place["line"]) if place and place["line"] else len(content.splitlines()) or 1
        # Not chained: the error of newer Pythons holds the whole document.
        raise InvalidOptionError(f"{file}, line {line}: {_PLACE.sub('', str(error))}.") from None
    for key in document:
        if key not in ("catalog", DEFAULT_CATALOG):
            raise InvalidOptionError(
                f"{file}: unknown key '{key}'; it takes '{DEFAULT_CATALOG}' and tables [catalog.NAME]."
                f"{did_you_mean(key, (DEFAULT_CATALOG, 'catalog'))}"
            )
    default = document.get(DEFAULT_CATALOG)
    if default is not None and not isinstance(default, str):
        raise InvalidOptionError(f"{file}: '{DEFAULT_CATALOG}' is the name of a catalog, in quotes.")
    tables = document.get("catalog", {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise InvalidOptionError(f"{file}: 'catalog' holds tables, one for each catalog: [catalog.lake].")
    catalogs = {
        name: {key: ConfiguredOption(_text(value, key, name, file), str(file)) for key, value in _flat(table)}
        for name, table in tables.items()
    }
    return catalogs, None if default is None else ConfiguredOption(default, str(file))


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the options of a table; the options of nested tables have a dot in their names: `s3.endpoint`."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _text(value: object, key: str, name: str, file: Path) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise InvalidOptionError(f"{file}: '{key}' of [catalog.{name}] is neither text nor a number, true or false.")


def _with_variables(
    catalogs: Mapping[str, Mapping[str, ConfiguredOption]], variables: Mapping[str, str]
) -> dict[str, Mapping[str, ConfiguredOption]]:
    merged: dict[str, Mapping[str, ConfiguredOption]] = dict(catalogs)
    for variable in sorted(variables):
        if not variable.startswith(CATALOG_PREFIX):
            continue
        part, _, option = variable.removeprefix(CATALOG_PREFIX).partition("__")
        if not part or not option:
            raise InvalidOptionError(
                f"{variable} names no option of a catalog; write it as {CATALOG_PREFIX}LAKE__WAREHOUSE."
            )
        name = _match(part, merged) or _plain(part)
        key = _plain(option.replace("__", "."))
        merged[name] = {**merged.get(name, {}), key: ConfiguredOption(variables[variable], variable)}
    return merged


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


def _match(name: str, catalogs: Mapping[str, object]) -> str | None:
    """Return the catalog of that name, ignoring case, dashes and underscores; raise InvalidOptionError for several."""
    found = [known for known in catalogs if _plain(known) == _plain(name)]
    if len(found) > 1:
        raise InvalidOptionError(f"'{name}' may be any of the catalogs {', '.join(sorted(found))}; rename one of them.")
    return found[0] if found else None
