"""How long a client of an object store asks: how often it repeats a request, the pauses between, and its time limits.

Options go by Hadoop's names: a number with a unit (`ms`, `s`, `m`, `h`), or the milliseconds alone. Pauses double from
the first one up to the longest, and each is of random length, so that clients that failed together do not come back
together.
"""

import random
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.quantities import parse_duration_millis

S3_NAMES: Mapping[str, tuple[str, ...]] = {
    "retries": ("fs.s3a.retry.limit", "s3.retry.limit"),
    "first_pause_seconds": ("fs.s3a.retry.interval", "s3.retry.interval"),
    "connect_seconds": ("fs.s3a.connection.establish.timeout", "s3.connection.establish.timeout"),
    "read_seconds": ("fs.s3a.connection.timeout", "s3.connection.timeout"),
    "request_seconds": ("fs.s3a.connection.request.timeout", "s3.connection.request.timeout"),
}
GCS_NAMES: Mapping[str, tuple[str, ...]] = {
    "retries": ("fs.gs.http.max.retry",),
    "connect_seconds": ("fs.gs.http.connect-timeout",),
    "read_seconds": ("fs.gs.http.read-timeout",),
}
AZURE_NAMES: Mapping[str, tuple[str, ...]] = {
    "retries": ("fs.azure.io.retry.max.retries",),
    "first_pause_seconds": ("fs.azure.io.retry.min.backoff.interval",),
    "longest_pause_seconds": ("fs.azure.io.retry.max.backoff.interval",),
    "connect_seconds": ("fs.azure.http.connection.timeout",),
    "read_seconds": ("fs.azure.http.read.timeout",),
}

RETRIES_MAX = 100
_DAY_SECONDS = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The limits of one client; `retries` of a request come after the first try.

    `read_seconds` may pass between two pieces of an answer, `request_seconds` until the whole of it has come;
    `retry_seconds` after its first try a request is not repeated any more.
    """

    retries: int = 6
    first_pause_seconds: float = 0.1
    longest_pause_seconds: float = 5.0
    connect_seconds: float = 5.0
    read_seconds: float = 30.0
    request_seconds: float = 300.0
    retry_seconds: float = 90.0

    @staticmethod
    def of(get: Callable[[str], str | None], names: Iterable[str], named: Callable[[str], str]) -> "Patience":
        """What the options say; by a field's name `get` gives the value of one, and `named` the name by which it was
        given. InvalidOptionError.
        """
        found: dict[str, Any] = {}
        for what in names:
            value = get(what)
            if value is not None:
                found[what] = _count(named(what), value) if what == "retries" else _seconds(named(what), value)
        if found.get("request_seconds") == 0:
            # As in Hadoop: the whole of an answer may take as long as it likes.
            found["request_seconds"] = _DAY_SECONDS
        patience = replace(Patience(), **found)
        for what in ("connect_seconds", "read_seconds"):
            if getattr(patience, what) == 0:
                raise InvalidOptionError(f"The option '{named(what)}' is 0, and every wait needs a limit.")
        if patience.longest_pause_seconds < patience.first_pause_seconds:
            patience = replace(patience, longest_pause_seconds=patience.first_pause_seconds)
        return patience

    @property
    def client_options(self) -> dict[str, Any]:
        """As obstore takes the limits of a request."""
        return {
            "connect_timeout": timedelta(seconds=self.connect_seconds),
            "read_timeout": timedelta(seconds=self.read_seconds),
            "timeout": timedelta(seconds=self.request_seconds),
        }

    @property
    def retry_config(self) -> dict[str, Any]:
        """As obstore takes the rest."""
        return {
            "max_retries": self.retries,
            "retry_timeout": timedelta(seconds=self.retry_seconds),
            "backoff": {
                # It draws from a range, which must not be empty.
                "init_backoff": timedelta(seconds=max(0.001, self.first_pause_seconds)),
                "max_backoff": timedelta(seconds=max(0.001, self.longest_pause_seconds)),
                "base": 2,
            },
        }

    def pause_seconds(self, retry: int, jitter: Callable[[], float] = random.random) -> float:
        """The pause before a retry, counted from 0."""
        longest = min(self.longest_pause_seconds, self.first_pause_seconds * 2.0 ** min(retry, 60))
        return longest * (0.25 + 0.75 * jitter())


def _count(name: str, value: str) -> int:
    if re.fullmatch(r"[0-9]{1,9}", value) is None or int(value) > RETRIES_MAX:
        raise InvalidOptionError(f"The option '{name}' is a number of retries up to {RETRIES_MAX}, not '{value}'.")
    return int(value)


def _seconds(name: str, value: str) -> float:
    seconds = parse_duration_millis(name, value) / 1000
    if seconds > _DAY_SECONDS:
        raise InvalidOptionError(f"The option '{name}' is a time up to 1 day, not '{value}'.")
    return seconds
