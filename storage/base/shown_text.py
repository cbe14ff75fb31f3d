"""Text for display: escaped, with secrets masked, with suggestions for misspelt names; and sizes and times as text.

Characters that end a line, move a cursor or change the direction of text are replaced by their numbers, as in JSON, so
that a name can't forge a line of a log or of a terminal. Secrets are recognized by Paimon's list of words that mark a
secret key. Messages of Kafka's client are shown without the secrets of its settings.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from interbed.storage.base.errors import InvalidOptionError

_UNPRINTABLE = re.compile(
    # C0 without the blank, DEL and C1, zero-width and direction marks, separators of lines and paragraphs, lone
    # surrogates (no encoding has them), marks of annotations.
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escaped(text: str) -> str:
    """Return the text on one line, without control characters."""
    return _UNPRINTABLE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return _SHORT.get(match[0]) or f"\\u{ord(match[0]):04x}"


# -- secrets -----------------------------------------------------------------------------------------------------------

MASK = "******"

_WORDS = (
    "password",
    "passphrase",
    "token",
    "authorization",
    "cookie",
    "secret",
    "credential",
    "private.?key",
    "encryption.?key",
    "api.?key",
    "account.?key",
    "key[.]pem",
    "oauthbearer[.]config",
    "hms.?jwt",
    r"(?:(?<![\w.-])|catalog[.][\w-]{1,99}[.])header[.]",
)
# An access key identifies an account and does not grant access, so its end may be shown.
_IDENTIFYING = "access.?key"
_SIGNATURE = "(?<![a-z])sas(?![a-z])|(?-i:[a-z]S(?:as|AS)(?![a-z]))"
"""Azure's shared access signature; other words contain these letters, such as `sasl`."""

SECRET_NAMES = f"(?i){'|'.join((*_WORDS, _IDENTIFYING, _SIGNATURE))}"
"""The pattern of the names of all secret options and settings, for Python, Java and Spark."""

_SECRET_NAME = re.compile(SECRET_NAMES)
_ACCESS_KEY = re.compile(_IDENTIFYING, re.IGNORECASE)
_HIDDEN_NAME = re.compile("|".join((*_WORDS, _SIGNATURE)), re.IGNORECASE)
# The last word is of requests: a header of a catalog.
_MASKED_WORDS = tuple(
    re.sub(r"\[.\]|\.\?", "", word).encode() for word in (*_WORDS[:-1], _IDENTIFYING, "sas", "header")
)
_SEPARATORS = re.compile("[^A-Za-z0-9]")
_SHORTEST_WITH_TAIL = 12
_TAIL = 4
_SHORTEST_SECRET = 5

_SEPARATING_BYTES = bytes(code for code in range(128) if not chr(code).isalnum())
# User and password before the host. A secret may have slashes and at signs; a port ends at the first slash.
_USER_IN_URI = re.compile(r"(:/{1,3})[^/@\s:\"']*(?::|%3a)(?!\d*/)[^\s\"']*(?=@)", re.IGNORECASE)
# `password=x` in a URL's query or in a list of properties, `'fs.s3a.secret.key': 'x'` in a map that is shown.
_SETTING = re.compile(r"([\w.\-]+)((?:=|[\"']\s*[:=]\s*)[\"']?)([^\s&,;\"'})\]]+)")


def is_secret(key: str) -> bool:
    """Return whether the value of this key is masked, entirely or except for its end."""
    return _has(_SECRET_NAME, key)


def masked(key: str, value: str) -> str:
    """Return the displayed form of a value: `******` for a secret, the last four letters of an access key, a URI
    without its password.
    """
    if _has(_HIDDEN_NAME, key):
        return MASK
    if _has(_ACCESS_KEY, key):
        return MASK + (value[-_TAIL:] if len(value) >= _SHORTEST_WITH_TAIL else "")
    return without_credentials(value)


def _has(names: re.Pattern[str], key: str) -> bool:
    """Return whether a key has one of these names, also with separators within the words."""
    return names.search(key) is not None or names.search(_SEPARATORS.sub("", key)) is not None


def without_credentials(text: str) -> str:
    """Return a message, location or database URL without the user and password of a URI, and without secret values.

    A value is secret if the name of its setting is that of a secret.
    """
    if "@" in text:
        text = _USER_IN_URI.sub(rf"\1{MASK}", text)
    return _SETTING.sub(_masked_setting, text) if "=" in text or ":" in text else text


def may_have_secrets(text: str) -> bool:
    """Return whether `without_credentials` may change a text: a test without regular expressions."""
    if "@" in text:
        return True
    if "=" not in text and ":" not in text:
        return False
    plain = text.lower().encode("ascii", "ignore").translate(None, _SEPARATING_BYTES)
    return any(word in plain for word in _MASKED_WORDS)


def _masked_setting(match: re.Match[str]) -> str:
    key, sign, _ = match.groups()
    return f"{key}{sign}{MASK}" if is_secret(key) else match[0]


def all_masked(options: Mapping[str, str]) -> dict[str, str]:
    """Return options with their secrets masked."""
    return {key: masked(key, value) for key, value in options.items()}


# -- suggestions -------------------------------------------------------------------------------------------------------


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'orders'?` as the end of a message; empty without a similar name. Ignores case."""
    import difflib

    by_lower = {k.lower(): k for k in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f" Did you mean '{by_lower[near[0]]}'?" if near else ""


_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size_text(size: int) -> str:
    """Return a number of bytes in a suitable unit: `12.3 MiB`."""
    value = float(size)
    for unit in _UNITS[:-1]:
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} {_UNITS[-1]}"


def age_text(millis: int) -> str:
    """Return an age in a suitable unit: `3 s`, `5 min`, `2 h`, `9 d`; a negative age is shown as 0."""
    seconds = max(0, millis) // 1000
    for limit, length, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds // length} {unit}"
    return f"{seconds // 86_400} d"


def secrets_of(settings: Mapping[str, str]) -> Sequence[str]:
    """Return the values of secret settings."""
    return [value for name, value in settings.items() if value and is_secret(name)]


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return the text with `******` in place of these secrets. A short one is part of many words, and stays."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, MASK)
    return text


def shown_error(kafka: Any, error: Any, secrets: Sequence[str]) -> str:
    """Return the text of an error, of Kafka's by name and message, without secrets. `kafka` is confluent_kafka."""
    cause = error.args[0] if isinstance(error, kafka.KafkaException) and error.args else error
    text = f"{cause.name()}: {cause.str()}" if isinstance(cause, kafka.KafkaError) else str(cause)
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


_MEMORY_UNITS = {
    name: size
    for size, names in {
        1: ("", "b", "bytes"),
        2**10: ("k", "kb", "kibibytes"),
        2**20: ("m", "mb", "mebibytes"),
        2**30: ("g", "gb", "gibibytes"),
        2**40: ("t", "tb", "tebibytes"),
    }.items()
    for name in names
}
"""Paimon's units (org.apache.paimon.options.MemorySize)."""

_TIME_UNITS_NANOS = {
    name: nanos
    for nanos, names in {
        1: ("ns", "nano", "nanos", "nanosecond", "nanoseconds"),
        1000: ("µs", "micro", "micros", "microsecond", "microseconds"),
        1_000_000: ("", "ms", "msec", "milli", "millis", "millisecond", "milliseconds"),
        1_000_000_000: ("s", "sec", "secs", "second", "seconds"),
        60_000_000_000: ("m", "min", "minute", "minutes"),
        3_600_000_000_000: ("h", "hour", "hours"),
        86_400_000_000_000: ("d", "day", "days"),
    }.items()
    for name in names
}
"""Paimon's units (org.apache.paimon.utils.TimeUtils), and `msec`."""

_QUANTITY = re.compile(r"^\s*(\d{1,100})\s*([A-Za-zµ]*)\s*$")


def parse_memory(key: str, value: str) -> int:
    """Return a size such as `256 mb` in bytes (binary units). Raises InvalidOptionError naming the option `key`."""
    match = _QUANTITY.match(value)
    unit = _MEMORY_UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise InvalidOptionError(f"Option '{key}' takes a size such as '256 mb', not '{value}'.")
    return int(match[1]) * unit


def parse_duration_millis(key: str, value: str) -> int:
    """Return a duration such as `8 min` in whole milliseconds, rounded down as in Java. Raises InvalidOptionError."""
    match = _QUANTITY.match(value)
    unit = _TIME_UNITS_NANOS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise InvalidOptionError(f"Option '{key}' takes a duration such as '8 min', not '{value}'.")
    return int(match[1]) * unit // 1_000_000
