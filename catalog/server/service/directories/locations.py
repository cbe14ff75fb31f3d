"""Locations of clients: validation, the normal form by which they are compared, and paths without symbolic links.

A location is an absolute local path, `file:/path`, or a URI with a path (`hdfs://host/path`, `s3a://bucket/path`).
Nothing in it is percent-decoded. The client's text is stored in an absolute form: Hive's clients compare it. Its
`place` is compared: scheme and host in lower case, one scheme for the names of one object store, no default port, no
doubled slashes. The kernel resolves links in one step where it can.
"""

import os
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from interbed.catalog.server.service.errors import MetastoreError
from interbed.storage.io.resolve import one_scheme

_PATH_ONLY = getattr(os, "O_PATH", None)
_DESCRIPTORS = "/proc/self/fd"

LENGTH_MAX = 4000
"""Characters of a location, the limit of Hive's own database."""

DEPTH_MAX = 250
"""Directories in a location."""

NAME_BYTES_MAX = 255
"""Bytes in the name of a local directory, the limit of file systems."""

KEY_LENGTH_MAX = 600
"""Characters of a place that are indexed. PostgreSQL limits the bytes of an index entry to about 2,700."""

SCHEMES = (
    *("file", "hdfs", "viewfs", "webhdfs", "swebhdfs", "ofs", "o3fs"),
    *("s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "wasb", "wasbs", "adl"),
    *("oss", "cos", "cosn", "obs", "alluxio", "maprfs", "dbfs", "jfs"),
)
"""Schemes that are allowed where the settings name none."""

_WITHOUT_AUTHORITY = ("hdfs", "viewfs", "maprfs", "dbfs", "alluxio")
"""Schemes whose URIs may leave the host to Hadoop's configuration."""

_AZURE = ("abfs", "abfss", "wasb", "wasbs")
"""Schemes with a container before the @."""

_DEFAULT_PORTS = {"hdfs": ("8020", "9000"), "webhdfs": ("9870", "50070"), "alluxio": ("19998",)}
"""Default ports of name nodes. Two locations that differ in them alone are the same."""

_ONE_STORE = {"abfss": "abfs", "wasb": "abfs", "wasbs": "abfs"}
"""Schemes that are other names of one scheme, besides those of one_scheme."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*", re.ASCII)

_LOCAL_HOSTS = ("", "localhost")

_KERNEL = (("proc",), ("sys",), ("dev",))
"""Directories of the kernel, whose entries are other names for every file."""

_SHARED_MEMORY = ("dev", "shm")

_SHOWN_MAX = 200


def real_path(path: str) -> str:
    """Return an absolute path with its symbolic links followed, as `os.path.realpath`, which looks at each directory on
    the way. OSError, ValueError.
    """
    return _by_kernel(path) or os.path.realpath(path)


def _by_kernel(path: str) -> str | None:
    """Return the kernel's name of a path whose last part may not exist yet; None if the kernel does not say."""
    above, _, name = path.rpartition("/")
    if _PATH_ONLY is None or not above or name in ("", ".", ".."):
        return None
    try:
        parent = os.open(above, _PATH_ONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _name_in(parent, name)
    except OSError:
        return None
    finally:
        os.close(parent)


def _name_in(parent: int, name: str) -> str | None:
    try:
        os.lstat(name, dir_fd=parent)
    except FileNotFoundError:
        found = _name_of(parent)
        return None if found is None else f"{found.rstrip('/')}/{name}"
    assert _PATH_ONLY is not None
    child = os.open(name, _PATH_ONLY | os.O_CLOEXEC, dir_fd=parent)
    try:
        return _name_of(child)
    finally:
        os.close(child)


def _name_of(descriptor: int) -> str | None:
    # Without /proc this is an OSError.
    found = os.readlink(f"{_DESCRIPTORS}/{descriptor}")
    # A deleted path, or one outside of the root of the process, has a name that is no path.
    return found if found.startswith("/") and not found.endswith(" (deleted)") else None


class InvalidLocationError(MetastoreError):
    """The location is refused; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationPlace:
    """A parsed location: scheme and host in lower case, the path as its directories.

    `text` is the spelling by which places are compared; that of a root has no slash at its end.
    """

    scheme: str
    authority: str
    names: tuple[str, ...]
    text: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Compose the text by which places are compared."""
        scheme = one_scheme(_ONE_STORE.get(self.scheme, self.scheme))
        above = f"{scheme}:" if self.is_local else f"{scheme}://{_host(self)}"
        object.__setattr__(self, "text", "/".join((above, *self.names)))

    @property
    def is_local(self) -> bool:
        """Whether it is in the file system of the machine."""
        return self.scheme == "file"

    @property
    def path(self) -> str:
        """The path within the file system, with a slash at its beginning."""
        return "/" + "/".join(self.names)

    @property
    def above(self) -> list[str]:
        """The texts of the directories above it, the outermost first."""
        parts = self.text.split("/")
        first = len(parts) - len(self.names)
        return ["/".join(parts[:end]) for end in range(first, len(parts))]

    def holds(self, other: "LocationPlace") -> bool:
        """Return whether the other place is this directory, or lies in it."""
        return is_at_or_below(other.text, self.text)


def is_at_or_below(text: str, above: str) -> bool:
    """Return whether the text of one place is that of another, or of a directory in it."""
    return text == above or text.startswith(above + "/")


def is_below(text: str, above: str) -> bool:
    """Return whether the text of a place is that of a directory in another."""
    return text != above and is_at_or_below(text, above)


@lru_cache(maxsize=1024)
def parsed(location: str) -> LocationPlace:
    """Parse a location. InvalidLocationError with the reason, without a secret that the location contains."""
    _check_text(location)
    scheme, colon, rest = location.partition(":")
    if location.startswith("/"):
        return LocationPlace(scheme="file", authority="", names=_names(location, location, local=True))
    if not colon or _SCHEME.fullmatch(scheme) is None:
        raise InvalidLocationError(f"the location {_shown(location)} is neither an absolute path nor a URI")
    scheme = scheme.lower()
    authority, path = "", rest
    if rest.startswith("//") and not (scheme == "file" and rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        path = slash + path
    _check_credentials(scheme, authority, rest)
    if scheme == "file":
        if authority.lower() not in _LOCAL_HOSTS:
            raise InvalidLocationError(
                f"the location {_shown(location)} names the host {_shown(authority)}: a file: location is on the "
                "server's own machine, file:/path"
            )
        authority = ""
    elif not authority and scheme not in _WITHOUT_AUTHORITY:
        raise InvalidLocationError(f"the location {_shown(location)} names no bucket or host after {scheme}://")
    if path and not path.startswith("/"):
        raise InvalidLocationError(f"the location {_shown(location)} is relative: write {scheme}:/path")
    if not path and scheme == "file":
        raise InvalidLocationError(f"the location {_shown(location)} has no path")
    return LocationPlace(scheme=scheme, authority=authority, names=_names(location, path, local=scheme == "file"))


def place_text(location: str | None) -> str | None:
    """Return the spelling by which a stored location is compared. One that cannot be parsed is returned as it is."""
    if location is None:
        return None
    found = stored_place(location)
    return location if found is None else found.text


def stored_place(location: str) -> LocationPlace | None:
    """Return the place of a location that is stored. Earlier versions accepted dots, relative paths and credentials:
    dots and relative paths are resolved by their text, credentials are left out. None for one that cannot be parsed.
    """
    try:
        return parsed(location)
    except InvalidLocationError:
        scheme, separator, rest = location.partition("://")
    try:
        if separator and scheme.lower() != "file":
            authority, slash, path = rest.rpartition("@")[2].partition("/")
            return parsed(f"{scheme}://{authority}{os.path.normpath(slash + path) if slash else ''}")
        path = location.partition(":")[2] if location.lower().startswith("file:") else location
        return parsed("/" + os.path.abspath(path).lstrip("/"))
    except (InvalidLocationError, ValueError, OSError):
        return None


def place_key(text: str | None) -> str | None:
    """Return the part of a place's text that is indexed."""
    return None if text is None else text[:KEY_LENGTH_MAX]


def indexed_place(location: str | None) -> str | None:
    """Return the column of a row that has this location: the indexed part of its place's text."""
    return place_key(place_text(location))


def resolved(place: LocationPlace) -> LocationPlace:
    """Return a local place with all links of its path followed; OSError. The directory need not exist."""
    real = real_path(place.path)
    return LocationPlace(scheme="file", authority="", names=tuple(name for name in real.split("/") if name))


def made_places(locations: Sequence[str]) -> tuple[str, ...]:
    """Return the normal forms of directories that were just created, with symbolic links resolved."""
    found = []
    for location in locations:
        place = parsed(location)
        try:
            found.append((resolved(place) if place.is_local else place).text)
        except (OSError, ValueError):
            # Without this record the directory is kept when its owner is dropped.
            continue
    return tuple(found)


class LocationRules:
    """Rules for locations of clients: `schemes` in lower case, and places below one of `allowed` if there are any."""

    def __init__(self, schemes: Sequence[str] = SCHEMES, allowed: Sequence[str] = ()) -> None:
        self._schemes = tuple(scheme.lower() for scheme in schemes)
        self._allowed = [parsed(each) for each in allowed]

    def check(self, location: str) -> LocationPlace:
        """Return the place of a client's location. InvalidLocationError if it is refused."""
        place = parsed(location)
        if place.scheme not in self._schemes:
            raise InvalidLocationError(
                f"the location {_shown(location)} has the scheme {place.scheme!r}, which is not among the server's "
                f"allowed_schemes: {', '.join(self._schemes)}"
            )
        if place.is_local and is_of_kernel(place):
            raise InvalidLocationError(f"the location {_shown(location)} is in a directory of the kernel")
        if self._allowed and not self._is_allowed(place):
            raise InvalidLocationError(f"the location {_shown(location)} is outside of the server's allowed_locations")
        return place

    def _is_allowed(self, place: LocationPlace) -> bool:
        if not any(each.holds(place) for each in self._allowed):
            return False
        if not place.is_local:
            return True
        # A link below an allowed directory may lead out of it.
        try:
            real = resolved(place)
            return any(resolved(each).holds(real) for each in self._allowed if each.is_local)
        except (OSError, ValueError):
            return False


def has_controls(text: str) -> bool:
    """Return whether a text has a character that locations must not have: controls, line separators, lone
    surrogates.
    """
    return not text.isprintable() and any(
        unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in text
    )


def is_of_kernel(place: LocationPlace) -> bool:
    """Return whether a local place is in /proc, /sys or /dev, other than /dev/shm."""
    return place.names[:1] in _KERNEL and place.names[:2] != _SHARED_MEMORY


def _check_text(location: str) -> None:
    if len(location) > LENGTH_MAX:
        raise InvalidLocationError(f"a location of {len(location)} characters is too long: {LENGTH_MAX} are allowed")
    if has_controls(location):
        raise InvalidLocationError(f"the location {_shown(location)} has a control character in it")


def _check_credentials(scheme: str, authority: str, rest: str) -> None:
    before, at, host = authority.rpartition("@")
    if scheme in _AZURE:
        has_secret = ":" in before or "@" in before
    else:
        # A key of AWS may contain a slash, and is then cut off at what looks like the end of the host.
        secret_with_slash = ":" in authority and not authority.rpartition(":")[2].isdigit() and "@" in rest
        has_secret = bool(at) or (scheme != "file" and secret_with_slash)
    if has_secret:
        shown = host if at else "…"
        raise InvalidLocationError(
            f"a location {scheme}://…@{_shown(shown)[1:-1]} has a user or a key in it, which others would see: "
            "leave it out, and give keys in the configuration of the programs that read the files"
        )


def _names(location: str, path: str, *, local: bool) -> tuple[str, ...]:
    names = tuple(name for name in path.split("/") if name)
    if "." in names or ".." in names:
        raise InvalidLocationError(
            f"the location {_shown(location)} has '.' or '..' in its path: write the path without"
        )
    if len(names) > DEPTH_MAX:
        raise InvalidLocationError(f"a location of {len(names)} directories is too deep: {DEPTH_MAX} are allowed")
    # A short path, as most are, has no long name.
    if local and len(path.encode()) > NAME_BYTES_MAX and any(len(name.encode()) > NAME_BYTES_MAX for name in names):
        raise InvalidLocationError(
            f"the location {_shown(location)} has a directory's name of more than {NAME_BYTES_MAX} bytes"
        )
    return names


def _host(place: LocationPlace) -> str:
    host = place.authority.lower()
    if place.scheme in _AZURE:
        return host.replace(".blob.", ".dfs.")
    name, colon, port = host.rpartition(":")
    return name if colon and port in _DEFAULT_PORTS.get(place.scheme, ()) else host


def _shown(text: str) -> str:
    """Return a client's text for a message: control characters escaped, cut to a limit, without the part
    before an @.
    """
    scheme, separator, rest = text.partition("://")
    if separator and "@" in rest:
        text = f"{scheme}://…@{rest.rpartition('@')[2]}"
    elif "@" in text and ":" in text:
        text = f"…@{text.rpartition('@')[2]}"
    return repr(text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}… ({len(text)} characters)")
