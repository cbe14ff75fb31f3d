"""The options of the cache on local disk, by Paimon's names."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.fileio.cached.kinds import Kind
from interbed.storage.base.quantities import parse_memory

PREFIX = "local-cache."
ENABLED, DIRECTORY, MOST, BLOCK, KINDS = (
    f"{PREFIX}{name}" for name in ("enabled", "dir", "max-size", "block-size", "whitelist")
)
LEAST_BLOCK_BYTES = 4 << 10
_MOST_BYTES = 10 << 30
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheOptions:
    """A directory that processes may share, how many bytes may be in it, and what is kept there."""

    directory: str
    most_bytes: int = _MOST_BYTES
    block_bytes: int = _BLOCK_BYTES
    kinds: frozenset[Kind] = frozenset(Kind)

    @staticmethod
    def of(options: Mapping[str, str]) -> "CacheOptions | None":
        """Those that are named; None where the cache is off. Raises InvalidOptionError."""
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
