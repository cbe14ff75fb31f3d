"""Options shown to people: what is secret among them is masked, by Paimon's list of words that mark a secret key."""

import re
from collections.abc import Mapping

MASK = "******"

_SECRET = (
    "password",
    "token",
    "authorization",
    "secret",
    "credential",
    "privatekey",
    "encryptionkey",
    "apikey",
    "accountkey",
    "sas",
)
# Names an account without opening it, so that its end may be shown.
_IDENTIFYING = "accesskey"
_SHORTEST_WITH_TAIL = 12
_TAIL = 4

_SEPARATORS = re.compile(r"[^a-z0-9]")
_USER_IN_URI = re.compile(r"(?<=://)[^/@\s]*:[^/@\s]*(?=@)")


def is_secret(key: str) -> bool:
    """Whether the value of this key is masked, wholly or but for its end."""
    plain = _SEPARATORS.sub("", key.lower())
    return _IDENTIFYING in plain or any(word in plain for word in _SECRET)


def masked(key: str, value: str) -> str:
    """The value as it may be shown: `******` for a secret, the last four letters of an access key, a URI without its
    password.
    """
    plain = _SEPARATORS.sub("", key.lower())
    if any(word in plain for word in _SECRET):
        return MASK
    if _IDENTIFYING in plain:
        return MASK + (value[-_TAIL:] if len(value) >= _SHORTEST_WITH_TAIL else "")
    return _USER_IN_URI.sub(MASK, value)


def all_masked(options: Mapping[str, str]) -> dict[str, str]:
    """Options as they may be shown."""
    return {key: masked(key, value) for key, value in options.items()}
