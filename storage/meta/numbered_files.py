"""Files whose names end in a number: `schema-0`, `snapshot-12`, `changelog-3`."""

from collections.abc import Iterable


def numbers_of(names: Iterable[str], prefix: str) -> list[int]:
    """The numbers behind the prefix, ascending; names of another form are passed over."""
    rests = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
    return sorted(int(rest) for rest in rests if rest.isascii() and rest.isdigit())
