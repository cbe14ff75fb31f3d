"""The JSON objects of metadata files, checked against what they claim to be: snapshots, schemas, consumers.

They have no checksum. What damage does to them is noticed as far as it leaves no JSON, another type of value, or the
name of a member with one other letter, for which readers would take it as absent.
"""

import json
from collections.abc import Mapping
from typing import Any

from interbed.storage.base.errors import CorruptFileError

MemberType = type | tuple[type, ...]
_LEAST, _MOST = -(2**63), 2**63 - 1


def read_object(content: str | bytes, members: Mapping[str, MemberType], *, source: str, what: str) -> dict[str, Any]:
    """The object that a file holds, by name of the member; `members` are those known with their types, null besides.

    Members of other names are taken as they are. Raises CorruptFileError naming `source` when it is no `what`.
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
            meant = next((m for m in members if m not in value and _is_misread(name, m)), None)
            if meant is not None:
                raise CorruptFileError(f"{source} is damaged: it has a member {name!r} where {meant!r} belongs.")
        elif content_of is not None and not _fits(content_of, expected):
            raise CorruptFileError(f"{source} is not {what}: its member {name!r} is {content_of!r:.100}.")
    return value


def _is_misread(name: str, known: str) -> bool:
    """Whether two names differ in one letter."""
    return len(name) == len(known) and sum(a != b for a, b in zip(name, known, strict=True)) == 1


def _fits(value: object, expected: MemberType) -> bool:
    if isinstance(value, bool):
        return expected is bool
    if isinstance(value, int) and not _LEAST <= value <= _MOST:
        return False
    return isinstance(value, expected)
