"""How revision 0009 writes the place of a location. Frozen: rules that change later need a migration of their own."""

import os
import re
import unicodedata

KEY_LENGTH_MAX = 600
LENGTH_MAX, DEPTH_MAX, NAME_BYTES_MAX = 4000, 250, 255
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*", re.ASCII)
ONE_STORE = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs"}
WITHOUT_AUTHORITY = ("hdfs", "viewfs", "maprfs", "dbfs", "alluxio")
AZURE = ("abfs", "abfss", "wasb", "wasbs")
DEFAULT_PORTS = {"hdfs": ("8020", "9000"), "webhdfs": ("9870", "50070"), "alluxio": ("19998",)}


def place_of(location: str | None) -> str | None:
    """The spelling by which a stored location is compared, as far as an index has room for it.

    Earlier versions took dots, relative paths and credentials: those are resolved by their text or left out. What can't
    be read is its own place.
    """
    if location is None:
        return None
    for spelling in (location, _resolved(location)):
        found = None if spelling is None else _place(spelling)
        if found is not None:
            return found[:KEY_LENGTH_MAX]
    return location[:KEY_LENGTH_MAX]


def _resolved(location: str) -> str | None:
    scheme, separator, rest = location.partition("://")
    try:
        if separator and scheme.lower() != "file":
            authority, slash, path = rest.rpartition("@")[2].partition("/")
            return f"{scheme}://{authority}{os.path.normpath(slash + path) if slash else ''}"
        path = location.partition(":")[2] if location.lower().startswith("file:") else location
        return "/" + os.path.abspath(path).lstrip("/")
    except (ValueError, OSError):
        return None


def _place(location: str) -> str | None:
    """The place of an absolute location; None for one that is not taken."""
    if len(location) > LENGTH_MAX or any(unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp") for each in location):
        return None
    if location.startswith("/"):
        return _text("file", "", location)
    scheme, colon, rest = location.partition(":")
    if not colon or SCHEME.fullmatch(scheme) is None:
        return None
    scheme = scheme.lower()
    authority, path = "", rest
    if rest.startswith("//") and not (scheme == "file" and rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        path = slash + path
    if _has_secret(scheme, authority, rest) or (path and not path.startswith("/")):
        return None
    if scheme == "file":
        return _text(scheme, "", path) if path and authority.lower() in ("", "localhost") else None
    if not authority and scheme not in WITHOUT_AUTHORITY:
        return None
    return _text(scheme, authority, path)


def _has_secret(scheme: str, authority: str, rest: str) -> bool:
    before, at, _ = authority.rpartition("@")
    if scheme in AZURE:
        return ":" in before or "@" in before
    has_port = authority.rpartition(":")[2].isdigit()
    return bool(at) or (scheme != "file" and ":" in authority and not has_port and "@" in rest)


def _text(scheme: str, authority: str, path: str) -> str | None:
    names = [name for name in path.split("/") if name]
    if len(names) > DEPTH_MAX or not {".", ".."}.isdisjoint(names):
        return None
    if scheme == "file":
        return None if any(len(name.encode()) > NAME_BYTES_MAX for name in names) else "/".join(("file:", *names))
    host = authority.lower()
    if scheme in AZURE:
        host = host.replace(".blob.", ".dfs.")
    name, colon, port = host.rpartition(":")
    if colon and port in DEFAULT_PORTS.get(scheme, ()):
        host = name
    return "/".join((f"{ONE_STORE.get(scheme, scheme)}://{host}", *names))
