"""JSON objects of metadata files, checked for their type: snapshots, schemas, consumers.

They have no checksum. Damage is detected where it leaves invalid JSON, a value of another type, or a member name that
differs in one letter, which readers would treat as absent.
"""

import json
from collections.abc import Mapping
from typing import Any

from interbed.storage.base.errors import CorruptFileError

MemberType = type | tuple[type, ...]
_LEAST, _MOST = -(2**63), 2**63 - 1


def read_object(content: str | bytes, members: Mapping[str, MemberType], *, source: str, what: str) -> dict[str, Any]:
    """Return the object in a file, by member name; `members` are the known ones with their types, besides null.

    Members with other names are passed through. Raises CorruptFileError naming `source` when it is no `what`.
    """
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"{source} is not {what}: {error}") from error
    if not isinstance(value, dict):
        raise CorruptFileError(f"{source} is not {what}: it holds {type(value).__name__} instead of an object.")
    for name, content_of in value.items():
        expected = members.get(name)
        if expected is None:
            similar = next((m for m in members if m not in value and _is_misread(name, m)), None)
            if similar is not None:
                raise CorruptFileError(f"{source} is damaged: it has a member {name!r} where {similar!r} belongs.")
        elif content_of is not None and not _fits(content_of, expected):
            raise CorruptFileError(f"{source} is not {what}: its member {name!r} is {content_of!r:.100}.")
    return value


def _is_misread(name: str, known: str) -> bool:
    """Return whether two names differ in one letter."""
    return len(name) == len(known) and sum(a != b for a, b in zip(name, known, strict=True)) == 1


def _fits(value: object, expected: MemberType) -> bool:
    if isinstance(value, bool):
        return expected is bool
    if isinstance(value, int) and not _LEAST <= value <= _MOST:
        return False
    return isinstance(value, expected)
