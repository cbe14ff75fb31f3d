"""Names: validation, comparison, the patterns that select them, and the names of partitions.

Names of databases, tables and functions are case-insensitive: they are stored, compared and returned in lower case. A
valid name is 1 to 128 letters, digits or underscores, that of a table up to 256. Patterns are Hive's: alternatives
separated by `|`, `*` for any run of characters, `.` for any one character, compared without regard to case.

The name of a partition is `key=value/key=value`, which is also its directory below the table's. Separators and
characters that a path cannot hold are written as `%` and two hexadecimal digits, the same set as Hive's. A null or
empty value is written as __HIVE_DEFAULT_PARTITION__.
"""

import re
from collections.abc import Iterable, Sequence

from interbed.catalog.server.service.errors import InvalidPartitionError, MetastoreError, NoSuchObjectError
from interbed.catalog.server.service.model import MetastoreColumn

NAME_LENGTH_MAX = 128
"""Characters in the name of a catalog, a database or a function, as Hive's own database schema has it."""
TABLE_NAME_LENGTH_MAX = 256
"""Characters in the name of a table; most file systems limit names of directories to 255, so that a table with a longer
name needs another location.
"""

PATTERN_CHARACTERS_MAX = 10_000
"""Characters in a pattern of names; the name of a table has 256 at most."""
PATTERN_ALTERNATIVES_MAX = 100
"""Alternatives with `*` or `.` in a pattern. Each is tried on each name; those without wildcards are looked up and are
not limited.
"""
OBJECTS_MAX = 100_000
"""Tables or partitions that one request lists by their names; Hive's clients ask for 300 at a time."""
LISTED_MAX = 10_000
"""Columns, tables or types of events that one request may list for exclusion."""

_VALID_NAME = re.compile(r"\w+", re.ASCII)
_PAIMON_FUNCTION_NAME = re.compile(r"(?=.*[a-z])[\w.-]+", re.ASCII | re.IGNORECASE)

DEFAULT_PARTITION_NAME = "__HIVE_DEFAULT_PARTITION__"
"""The name in place of a null or empty value."""

NAME_BYTES_MAX = 2000
"""Bytes of a name: Hive's own database ends at 767 characters, PostgreSQL's index not far beyond 2,600 bytes."""

NAME_CHARACTERS_MAX = 3 * NAME_BYTES_MAX
"""Characters of a name as a client writes it: it may escape more of them than is necessary."""

_ESCAPED = {chr(code) for code in range(1, 0x20)} | set("\"#%'*/:=?\\{[]^\x7f")
_ESCAPE = re.compile("%([0-9a-fA-F]{2})")
_ESCAPES = str.maketrans({char: f"%{ord(char):02X}" for char in _ESCAPED})


def is_valid_name(name: str | None, *, length_max: int = NAME_LENGTH_MAX) -> bool:
    """Return whether a catalog, database or function may have this name."""
    return bool(name) and len(name or "") <= length_max and _VALID_NAME.fullmatch(name or "") is not None


def is_valid_paimon_function_name(name: str) -> bool:
    """Return whether a function of Paimon may have this name, which may contain dots and hyphens."""
    return len(name) <= NAME_LENGTH_MAX and _PAIMON_FUNCTION_NAME.fullmatch(name) is not None


def is_valid_table_name(name: str | None) -> bool:
    """Return whether a table may have this name."""
    return is_valid_name(name, length_max=TABLE_NAME_LENGTH_MAX)


def normalized(name: str | None) -> str:
    """Return the form in which a name is stored and compared; None becomes the empty name, which no object has."""
    return (name or "").strip().lower()


def required(name: str | None, what: str) -> str:
    """Return the name as it is. MetastoreError if it is missing; an empty one is not missing."""
    if name is None:
        raise MetastoreError(f"the request has no {what}")
    return name


def shortened(name: str | None) -> str:
    """Return a name for an error message: one that is far too long is cut, so that it does not flood logs and
    terminals.
    """
    text = "null" if name is None else name
    return text if len(text) <= 256 else f"{text[:256]}… ({len(text)} characters)"


def check_number(what: str, number: int, most: int = OBJECTS_MAX) -> None:
    """Refuse a request that lists too many names. MetastoreError that names the limit."""
    if number > most:
        raise MetastoreError(f"a request with {number} {what} is too large: {most} are allowed")


def matches_everything(pattern: str | None) -> bool:
    """Return whether the pattern selects every name, so that no comparison is needed. An absent pattern does."""
    return pattern is None or "*" in pattern.strip().split("|") or ".*" in pattern.strip().split("|")


def pattern_matcher(pattern: str) -> re.Pattern[str]:
    """Return the regular expression for a name pattern, to be used with `fullmatch` on a name in lower case.

    Only `*`, `.` and `|` have a meaning; every other character matches itself. Each part between two stars is matched
    once and for all (an atomic group), so that no pattern makes a failing match take more than quadratic time.
    """
    alternatives = []
    for alternative in pattern.strip().lower().split("|"):
        parts = [_literal(part) for part in re.split(r"(?:\.?\*)+", alternative)]
        if len(parts) == 1:
            alternatives.append(parts[0])
        else:
            middle = "".join(f"(?>.*?{part})" for part in parts[1:-1])
            alternatives.append(f"{parts[0]}{middle}.*{parts[-1]}")
    return re.compile("|".join(f"(?:{alternative})" for alternative in alternatives), re.DOTALL)


def _literal(part: str) -> str:
    return "".join("." if char == "." else re.escape(char) for char in part)


def matching(names: Iterable[str], pattern: str | None) -> list[str]:
    """Return the names, in lower case, that match the pattern, in their order. MetastoreError as check_pattern raises
    it.
    """
    check_pattern(pattern)
    if matches_everything(pattern):
        return list(names)
    assert pattern is not None
    alternatives = pattern.strip().lower().split("|")
    wild = [alternative for alternative in alternatives if _has_wildcard(alternative)]
    plain = frozenset(alternatives).difference(wild)
    matcher = pattern_matcher("|".join(wild)) if wild else None
    return [name for name in names if name in plain or (matcher is not None and matcher.fullmatch(name))]


def check_pattern(pattern: str | None) -> None:
    """Refuse a pattern that would take long to match. MetastoreError that names the limit."""
    if pattern is None:
        return
    check_pattern_length(pattern)
    alternatives = sum(_has_wildcard(alternative) for alternative in pattern.split("|"))
    if alternatives > PATTERN_ALTERNATIVES_MAX:
        raise MetastoreError(
            f"a pattern of {alternatives} alternatives with wildcards has too many: "
            f"{PATTERN_ALTERNATIVES_MAX} are allowed"
        )


def check_pattern_length(pattern: str) -> None:
    """Refuse a pattern that is too long, whatever its wildcards are. MetastoreError that names the limit."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise MetastoreError(
            f"a pattern of {len(pattern)} characters is too long: {PATTERN_CHARACTERS_MAX} are allowed"
        )


def _has_wildcard(alternative: str) -> bool:
    return "*" in alternative or "." in alternative


def partition_name(keys: Sequence[MetastoreColumn], values: Sequence[str]) -> str:
    """Return the name of the partition with these values. InvalidPartitionError unless there is one value
    for each key.
    """
    if len(keys) != len(values):
        # Hive's text, including its odd commas.
        raise InvalidPartitionError(
            f"Invalid partition key & values; keys [{_listed(key.name for key in keys)}], values [{_listed(values)}]"
        )
    pairs = zip(keys, values, strict=True)
    return joined((key.name.lower(), value or DEFAULT_PARTITION_NAME) for key, value in pairs)


def parsed_name(name: str) -> list[tuple[str, str]]:
    """Return the (key, value) pairs of a name, in its order; parts without a `=` are left out. Empty for an
    empty name.
    """
    pairs = []
    for part in name.split("/"):
        key, equals, value = part.partition("=")
        if equals:
            pairs.append((unescaped(key), unescaped(value)))
    return pairs


def values_of_name(keys: Sequence[MetastoreColumn], name: str) -> tuple[str, ...]:
    """Return the values in the order of the keys. NoSuchObjectError if the name lacks a key: no partition
    can have it.
    """
    pairs = {key.lower(): value for key, value in parsed_name(name)}
    for key in keys:
        if key.name.lower() not in pairs:
            raise NoSuchObjectError(f"incomplete partition name - missing {shortened(key.name)}")
    return tuple(pairs[key.name.lower()] for key in keys)


def escaped(text: str) -> str:
    """Return the text as it is written in a name."""
    return text.translate(_ESCAPES)


def joined(values: Iterable[tuple[str, str]]) -> str:
    """Return the name of a partition with these values by column."""
    return "/".join(f"{escaped(column)}={escaped(value)}" for column, value in values)


def check_partition_name_length(name: str) -> None:
    """Refuse a name that is too long for a partition. MetastoreError that names the limit."""
    if len(name) > NAME_CHARACTERS_MAX:
        raise MetastoreError(
            f"a partition's name of {len(name)} characters is too long: {NAME_CHARACTERS_MAX} are allowed"
        )


def unescaped(text: str) -> str:
    """Return the text that a part of a name encodes; a `%` without two hexadecimal digits encodes itself."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def _listed(texts: Iterable[str]) -> str:
    return "".join(f"{text}, " for text in texts)
