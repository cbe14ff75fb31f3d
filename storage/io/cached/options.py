"""Options of the cache on local disk, by Paimon's names, the kinds of files that it caches, and what it needs of a
FileIO: versions, by which it recognises that a file has not changed.

The name of a file gives its kind. A file with a UUID in its name never changes, unless it holds a state. Snapshots,
hints, schemas, tags, consumers and interbed's own epochs and positions are not cached.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.shown_text import parse_memory


class Kind(StrEnum):
    """Kind of a file, by the words of Paimon's option."""

    META = "meta"
    DATA = "data"
    BUCKET_INDEX = "bucket-index"
    GLOBAL_INDEX = "global-index"
    FILE_INDEX = "file-index"


_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_PATTERNS = (
    (Kind.META, re.compile(rf"(?:manifest|manifest-list|index-manifest|stat)-{_UUID}[-.0-9a-z]*")),
    (Kind.BUCKET_INDEX, re.compile(rf"index-{_UUID}-\d+")),
    (Kind.GLOBAL_INDEX, re.compile(rf".*global-index-.*{_UUID}.*\.index")),
    (Kind.FILE_INDEX, re.compile(rf"[^.].*{_UUID}.*\.index")),
    (Kind.DATA, re.compile(rf"(?:[^.].*)?{_UUID}.*\.(?:parquet|orc|avro)")),
)


def kind_of(path: str) -> Kind | None:
    """Return the kind of the file, by its path; None for files that may change."""
    name = path.rpartition("/")[2]
    return next((kind for kind, pattern in _PATTERNS if pattern.fullmatch(name)), None)


PREFIX = "local-cache."
ENABLED, DIRECTORY, MOST, BLOCK, KINDS = (
    f"{PREFIX}{name}" for name in ("enabled", "dir", "max-size", "block-size", "whitelist")
)
LEAST_BLOCK_BYTES = 4 << 10
_MOST_BYTES = 10 << 30
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheOptions:
    """Directory of a cache, which processes may share, with its greatest size, and the kinds of files to cache."""

    directory: str
    most_bytes: int = _MOST_BYTES
    block_bytes: int = _BLOCK_BYTES
    kinds: frozenset[Kind] = frozenset(Kind)

    @staticmethod
    def of(options: Mapping[str, str]) -> "CacheOptions | None":
        """Return the options of the cache; None where it is off. Raises InvalidOptionError."""
        given = {key: value for key, value in options.items() if key.startswith(PREFIX)}
        known = (ENABLED, DIRECTORY, MOST, BLOCK, KINDS)
        for key in given:
            if key not in known:
                raise InvalidOptionError(f"Nothing is known of the option '{key}'. Known are {', '.join(known)}.")
        enabled = given.get(ENABLED, "false").lower()
        if enabled not in ("true", "false"):
            raise InvalidOptionError(f"The option '{ENABLED}' is true or false, not '{given[ENABLED]}'.")
        directory = given.get(DIRECTORY, "").removeprefix("file:")
        most = parse_memory(MOST, given[MOST]) if MOST in given else _MOST_BYTES
        block = parse_memory(BLOCK, given[BLOCK]) if BLOCK in given else _BLOCK_BYTES
        if block < LEAST_BLOCK_BYTES or block > most:
            raise InvalidOptionError(
                f"The option '{BLOCK}' is at least {LEAST_BLOCK_BYTES} bytes and at most '{MOST}', not '{block}'."
            )
        kinds = _kinds(given.get(KINDS, "*"))
        if enabled == "false":
            return None
        if not os.path.isabs(directory):
            raise InvalidOptionError(
                f"The option '{ENABLED}' needs '{DIRECTORY}' beside it: the whole path of a directory on a local disk."
            )
        return CacheOptions(directory=directory, most_bytes=most, block_bytes=block, kinds=kinds)


def _kinds(text: str) -> frozenset[Kind]:
    found: set[Kind] = set()
    for name in filter(None, (part.strip() for part in text.split(","))):
        if name == "*":
            found.update(Kind)
        elif name in list(Kind):
            found.add(Kind(name))
        else:
            raise InvalidOptionError(f"The option '{KINDS}' may list {', '.join(Kind)}, or be *; it has '{name}'.")
    return frozenset(found)
