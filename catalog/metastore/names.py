"""Names: which are valid, how they are compared, and the patterns that select them.

Names of databases, tables and functions are case-insensitive: they are stored, compared and returned in lower case. A
valid name is 1 to 128 letters, digits or underscores, that of a table up to 256. Patterns are Hive's: alternatives
separated by `|`, `*` for any run of characters, `.` for any one character, compared without regard to case.
"""

import re
from collections.abc import Iterable

from interbed.catalog.metastore.errors import MetastoreError

NAME_LENGTH_MAX = 128
"""Characters in the name of a catalog, a database or a function, as Hive's own database schema has it."""
TABLE_NAME_LENGTH_MAX = 256
"""Characters in the name of a table; most file systems have no directories of more than 255, so that such a table has
to live somewhere else.
"""

_VALID_NAME = re.compile(r"\w+", re.ASCII)


def is_valid_name(name: str | None, *, length_max: int = NAME_LENGTH_MAX) -> bool:
    """Whether a catalog, database or function may have this name."""
    return bool(name) and len(name or "") <= length_max and _VALID_NAME.fullmatch(name or "") is not None


def is_valid_table_name(name: str | None) -> bool:
    """Whether a table may have this name."""
    return is_valid_name(name, length_max=TABLE_NAME_LENGTH_MAX)


def normalized(name: str | None) -> str:
    """The form in which a name is stored and compared; None becomes the empty name, which nothing has."""
    return (name or "").strip().lower()


def required(name: str | None, what: str) -> str:
    """The name as it is. MetastoreError if there is none, which is not the same as an empty one."""
    if name is None:
        raise MetastoreError(f"the request has no {what}")
    return name


def shortened(name: str | None) -> str:
    """A name for an error message: one that is far too long is cut, so that it does not flood logs and terminals."""
    text = "null" if name is None else name
    return text if len(text) <= 256 else f"{text[:256]}… ({len(text)} characters)"


def matches_everything(pattern: str | None) -> bool:
    """Whether the pattern selects every name, so that no comparison is needed. An absent pattern does."""
    return pattern is None or "*" in pattern.strip().split("|") or ".*" in pattern.strip().split("|")


def pattern_matcher(pattern: str) -> re.Pattern[str]:
    """The regular expression for a name pattern, to be used with `fullmatch` on a name in lower case.

    Only `*`, `.` and `|` have a meaning; everything else stands for itself. Each part between two stars is matched
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
    """The names that the pattern selects, in their order."""
    if matches_everything(pattern):
        return list(names)
    assert pattern is not None
    matcher = pattern_matcher(pattern)
    return [name for name in names if matcher.fullmatch(name)]
