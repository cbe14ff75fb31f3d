"""Reading `hive-site.xml`, from which a catalog may take the metastore's address, warehouse and ways to talk to it.

The directory is the option `hive-conf-dir`, else the environment variable HIVE_CONF_DIR, as with Paimon. A property may
refer to others, to environment variables and to the user as Hadoop's files do: `${other.key}`, `${env.HOME}`,
`${env.HOME:-default}`, `${user.name}`.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from interbed.catalog.client.hive.connection import current_user
from interbed.storage.base.errors import InvalidOptionError

ENVIRONMENT_VARIABLE = "HIVE_CONF_DIR"

_REFERENCE = re.compile(r"\$\{([^{}$]+)\}")
_SUBSTITUTIONS_MAX = 20
"""Hadoop's own bound; references that go in circles end there."""


def read_hive_site(option: str | None, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The properties of the `hive-site.xml` that the option or the environment names; none where neither does.

    Raises InvalidOptionError when the file is missing, unreadable or not XML.
    """
    environ = os.environ if environ is None else environ
    named_by = "Option 'hive-conf-dir'" if option else f"The environment variable {ENVIRONMENT_VARIABLE}"
    directory = option or environ.get(ENVIRONMENT_VARIABLE)
    if not directory:
        return {}
    path = Path(directory.removeprefix("file://").removeprefix("file:")) / "hive-site.xml"
    try:
        root = ElementTree.parse(path).getroot()
    except OSError as error:
        raise InvalidOptionError(
            f"{named_by} names {directory}, which has no readable hive-site.xml: {error}"
        ) from error
    except ElementTree.ParseError as error:
        raise InvalidOptionError(f"{path} is not well-formed XML: {error}") from error
    properties: dict[str, str] = {}
    for element in root.iter("property"):
        name, value = element.findtext("name"), element.findtext("value")
        if name and value is not None:
            properties[name.strip()] = value.strip()
    return {name: _substituted(value, properties, environ) for name, value in properties.items()}


def _substituted(value: str, properties: Mapping[str, str], environ: Mapping[str, str]) -> str:
    def replacement(match: re.Match[str]) -> str:
        reference = match[1]
        if reference.startswith(("env.", "env:")):
            name, has_default, default = reference[4:].partition(":-")
            return environ.get(name, default if has_default else match[0])
        name = reference.removeprefix("system:")
        known = {"user.name": current_user(), "user.home": str(Path.home())}
        return properties.get(name, known.get(name, match[0]))

    for _ in range(_SUBSTITUTIONS_MAX):
        replaced = _REFERENCE.sub(replacement, value)
        if replaced == value:
            break
        value = replaced
    return value
