"""Names of columns that have to be apart: asked for once, and unique in rows that are dicts."""

from collections.abc import Sequence

from interbed.storage.base.errors import InvalidInputError


def check_asked_once(columns: Sequence[str] | None) -> None:
    """Raise InvalidInputError naming the first column that is asked for twice: rows have one value for each name."""
    if columns is None or len(set(columns)) == len(columns):
        return
    twice = next(name for place, name in enumerate(columns) if name in columns[:place])
    raise InvalidInputError(f"The column {twice!r} is asked for twice; name it once.")


def numbered_names(names: Sequence[str]) -> list[str]:
    """The names with `_1`, `_2` and so on behind those that an earlier one has; a name that is unique stays."""
    given = set(names)
    found: list[str] = []
    used: set[str] = set()
    for name in names:
        new, number = name, 0
        while new in used or (number and new in given):
            number += 1
            new = f"{name}_{number}"
        used.add(new)
        found.append(new)
    return found
