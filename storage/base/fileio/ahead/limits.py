"""How much may be read ahead of need, by the options of a catalog; loaded with any FileIO, so it needs little."""

from collections.abc import Mapping
from dataclasses import dataclass

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.quantities import parse_memory

READ_AHEAD = "store.read-ahead"
READ_THREADS = "store.read-threads"
PREFIX = "store."
"""How the options of reading ahead begin."""

MOST_THREADS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAhead:
    """What may be read before it is needed: so many bytes, none for 0, by so many requests at once."""

    most_bytes: int = 64 << 20
    threads: int = 32

    @staticmethod
    def of(options: Mapping[str, str]) -> "ReadAhead":
        """Those that options name; raises InvalidOptionError for one that begins with `store.` and is not known."""
        known = ReadAhead()
        most, threads = known.most_bytes, known.threads
        for key, value in options.items():
            if key == READ_AHEAD:
                most = parse_memory(key, value)
            elif key == READ_THREADS:
                if not value.strip().isdecimal() or not 1 <= int(value) <= MOST_THREADS:
                    raise InvalidOptionError(f"The option '{key}' is a number from 1 to {MOST_THREADS}, not '{value}'.")
                threads = int(value)
            elif key.startswith(PREFIX):
                raise InvalidOptionError(
                    f"Nothing is known of the option '{key}'. Known are {READ_AHEAD} and {READ_THREADS}."
                )
        return ReadAhead(most_bytes=most, threads=threads)
