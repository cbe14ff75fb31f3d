"""Names of partitions: `key=value/key=value`, which is also their directory below the table's.

Characters that a path cannot hold, or that separate, are written as `%` and two hexadecimal digits, the same set as
Hive's. A null or empty value is written as __HIVE_DEFAULT_PARTITION__.
"""

import re
from collections.abc import Iterable, Sequence

from interbed.catalog.server.service.errors import InvalidPartitionError, MetastoreError, NoSuchObjectError
from interbed.catalog.server.service.model import MetastoreColumn
from interbed.catalog.server.service.names import shortened
from interbed.catalog.server.service.settings import DEFAULT_PARTITION_NAME

NAME_BYTES_MAX = 2000
"""Bytes of a name: Hive's own database ends at 767 characters, PostgreSQL's index not far beyond 2,600 bytes."""

NAME_CHARACTERS_MAX = 3 * NAME_BYTES_MAX
"""Characters of a name as a client writes it: it may escape more of them than is needed."""

_ESCAPED = {chr(code) for code in range(1, 0x20)} | set("\"#%'*/:=?\\{[]^\x7f")
_ESCAPE = re.compile("%([0-9a-fA-F]{2})")
_ESCAPES = str.maketrans({char: f"%{ord(char):02X}" for char in _ESCAPED})


def partition_name(keys: Sequence[MetastoreColumn], values: Sequence[str]) -> str:
    """The name of the partition with these values. InvalidPartitionError unless there is one value for each key."""
    if len(keys) != len(values):
        # Hive's text, odd commas and all.
        raise InvalidPartitionError(
            f"Invalid partition key & values; keys [{_listed(key.name for key in keys)}], values [{_listed(values)}]"
        )
    pairs = zip(keys, values, strict=True)
    return "/".join(f"{escaped(key.name.lower())}={escaped(value or DEFAULT_PARTITION_NAME)}" for key, value in pairs)


def parsed_name(name: str) -> list[tuple[str, str]]:
    """The (key, value) pairs of a name, in its order; parts without a `=` are left out. Empty for an empty name."""
    pairs = []
    for part in name.split("/"):
        key, equals, value = part.partition("=")
        if equals:
            pairs.append((unescaped(key), unescaped(value)))
    return pairs


def values_of_name(keys: Sequence[MetastoreColumn], name: str) -> tuple[str, ...]:
    """The values in the order of the keys. NoSuchObjectError if the name lacks a key: no partition can have it."""
    pairs = {key.lower(): value for key, value in parsed_name(name)}
    for key in keys:
        if key.name.lower() not in pairs:
            raise NoSuchObjectError(f"incomplete partition name - missing {shortened(key.name)}")
    return tuple(pairs[key.name.lower()] for key in keys)


def escaped(text: str) -> str:
    """The text as it stands in a name."""
    return text.translate(_ESCAPES)


def check_length(name: str) -> None:
    """Refuse a name that no partition can have. MetastoreError that names the limit."""
    if len(name) > NAME_CHARACTERS_MAX:
        raise MetastoreError(
            f"a partition's name of {len(name)} characters is too long: {NAME_CHARACTERS_MAX} are allowed"
        )


def unescaped(text: str) -> str:
    """The text that a part of a name stands for; a `%` without two hexadecimal digits stands for itself."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def _listed(texts: Iterable[str]) -> str:
    return "".join(f"{text}, " for text in texts)
