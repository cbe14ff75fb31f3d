"""Options of one family of object stores: their values, the names under which they were given, and checks.

Invalid values (an address without a scheme, a key with a line break) end in a panic of obstore's Rust code and not in
an error, so they are refused here. No message quotes a value that may be secret.
"""

import ipaddress
import os
import re
from collections.abc import Iterable, Mapping

from interbed.storage.base.errors import InvalidInputError, InvalidOptionError

_TUNING = re.compile(
    r"(?:hadoop\.)?(?:s3|fs\.(?:s3|s3n|s3a|gs|azure|abfs|abfss|wasb|wasbs))\.(?:impl|.*\.impl|connection\..*|threads\..*"
    r"|max\..*|committer\..*"
    r"|fast\.upload.*|experimental\..*|input\..*|inputstream\..*|outputstream\..*|block\.size|multipart\..*"
    r"|attempts\..*|retry\..*|change\.detection\..*|directory\.marker\..*|readahead\..*|paging\..*|buffer\..*|etag\..*"
    r"|performance\..*|create\..*|list\..*|read\..*|write\..*|io\..*|http\..*|user\.agent.*|statistics\..*)"
)
"""Tuning of Hadoop's client, which has no equivalent here."""

_ADDRESS = re.compile(
    r"(https?)://([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?((?:/[a-z0-9._~$&+,=:/-]*)?)", re.IGNORECASE
)
_PORTS = range(1, 1 << 16)
_PRINTED = re.compile(r"[!-~]+")
_BUCKET = re.compile(r"\$?[A-Za-z0-9][A-Za-z0-9._-]*")


class StoreOptions:
    """Options of one family, by internal names; each may be given under several names.

    A name of Hadoop's configuration may have the prefix `hadoop.`, which Paimon removes.
    """

    def __init__(
        self, store: str, names: Mapping[str, tuple[str, ...]], families: tuple[str, ...], given: Mapping[str, str]
    ) -> None:
        self._names = {what: with_hadoops(some) for what, some in names.items()}
        self._given = given
        known = {name for some in self._names.values() for name in some}
        for key in given:
            if key.startswith(with_hadoops(families)) and key not in known and _TUNING.fullmatch(key) is None:
                names_known = sorted({name for some in names.values() for name in some})
                raise InvalidOptionError(
                    f"Nothing is known of the option '{key}' of {store}. Known are {', '.join(names_known)}."
                )

    def get(self, what: str) -> str | None:
        """Return the value of an option; InvalidOptionError when two of its names have different values."""
        found = [(name, self._given[name]) for name in self._names[what] if self._given.get(name)]
        if len({value for _, value in found}) > 1:
            raise InvalidOptionError(f"The options {listed(name for name, _ in found)} contradict each other.")
        return found[0][1] if found else None

    def flag(self, what: str) -> bool | None:
        """Return a value that is true or false; InvalidOptionError for others."""
        value = self.get(what)
        if value is None or value.lower() in ("true", "false"):
            return None if value is None else value.lower() == "true"
        raise InvalidOptionError(f"The option '{self.name(what)}' is true or false, not '{value}'.")

    def printed(self, what: str) -> str | None:
        """Return a value of printable characters, as headers of requests need it; InvalidOptionError for others."""
        return checked_word(self.get(what), f"The option '{self.name(what)}'")

    def address(self, what: str, variables: Iterable[str] = ()) -> str | None:
        """Return an address: the value, or that of the first variable of the environment. InvalidOptionError."""
        value = self.get(what)
        if value is not None:
            return checked_address(value, f"The option '{self.name(what)}'")
        variable = next((name for name in variables if os.environ.get(name)), None)
        return None if variable is None else checked_address(os.environ[variable], f"The variable {variable}")

    def name(self, what: str) -> str:
        """Return the name under which an option was given, or its first name."""
        names = self._names[what]
        return next((name for name in names if self._given.get(name)), names[0])

    def named(self) -> dict[str, str]:
        """Return the names under which options were given, by internal names."""
        return {what: self.name(what) for what in self._names if any(map(self._given.get, self._names[what]))}


def with_hadoops(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names, and Paimon's names for those of Hadoop's configuration."""
    return (*names, *(f"hadoop.{name}" for name in names if name.startswith(("fs.", "google."))))


def listed(names: Iterable[str]) -> str:
    """Return names of options for a message."""
    return " and ".join(f"'{name}'" for name in names)


def checked_word(value: str | None, named: str) -> str | None:
    """Return the value; InvalidOptionError where it has a character that headers of requests can't have."""
    if value is not None and _PRINTED.fullmatch(value) is None:
        raise InvalidOptionError(
            f"{named} has a space, a line break or another character that can't be part of it; correct it."
        )
    return value


def checked_address(value: str, named: str) -> str:
    """Return the address without a final `/`; InvalidOptionError, without the value, which may have a password."""
    found = _ADDRESS.fullmatch(value)
    if found is not None and _is_host(found[2]) and (found[3] is None or int(found[3]) in _PORTS):
        scheme, _, rest = value.partition("://")
        return f"{scheme.lower()}://{rest.rstrip('/')}"
    if not value.lower().startswith(("http://", "https://")):
        why = ": it begins neither with http:// nor with https://"
    elif "@" in value:
        why = ": it has a user's name in it, and keys are options of their own"
    elif "?" in value or "#" in value:
        why = ": it has a query or a fragment"
    else:
        why = ""
    raise InvalidOptionError(f"{named} is no address such as https://host:port{why}; correct it.")


def is_number(host: str) -> bool:
    """Return whether a host is an IP address, or would be parsed as one, and is no name."""
    return ":" in host or host.rstrip(".").rpartition(".")[2].isdigit()


def _is_host(host: str) -> bool:
    if not is_number(host):
        return True
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def checked_bucket(bucket: str, location: str, kind: str = "bucket") -> str:
    """Return the name of a bucket or container; InvalidInputError for an invalid name."""
    if _BUCKET.fullmatch(bucket) is None:
        raise InvalidInputError(
            f"{location} names no {kind}: its name has letters, digits, '.', '-' and '_'. Correct the location."
        )
    return bucket
