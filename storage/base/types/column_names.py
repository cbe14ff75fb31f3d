"""Checks of column names: requested once, unique in rows that are dicts, distinct without regard to case.

DuckDB compares names without regard to the case of ASCII letters, at the top and within STRUCTs.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from interbed.storage.base.errors import InvalidInputError, NotSupportedError

if TYPE_CHECKING:
    import pyarrow as pa


def check_asked_once(columns: Sequence[str] | None) -> None:
    """Raise InvalidInputError naming the first column that is requested twice: rows have one value for each name."""
    if columns is None or len(set(columns)) == len(columns):
        return
    twice = next(name for place, name in enumerate(columns) if name in columns[:place])
    raise InvalidInputError(f"The column {twice!r} is requested twice; name it once.")


def numbered_names(names: Sequence[str]) -> list[str]:
    """Return unique names: a repeated name gets the suffix `_1`, `_2` and so on."""
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


def check_apart_without_case(schema: "pa.Schema", what: str) -> None:
    """Raise NotSupportedError where two columns, or two fields of a ROW, differ only by the case of their names."""
    for one, other in _alike(list(schema), ""):
        raise NotSupportedError(
            f"DuckDB ignores the case of names, and {what} has '{one}' and '{other}': it would confuse the two. "
            "Rename one of them (`interbed table alter`), or read the rows by `interbed table scan` or Table.scan."
        )


def _alike(fields: "Sequence[pa.Field[Any]]", path: str) -> Iterator[tuple[str, str]]:
    seen: dict[str, str] = {}
    for field in fields:
        # DuckDB folds the case of ASCII letters only.
        lower = field.name.encode(errors="surrogatepass").lower().decode(errors="surrogatepass")
        if lower in seen:
            yield f"{path}{seen[lower]}", f"{path}{field.name}"
        seen.setdefault(lower, field.name)
        yield from _inside(field.type, f"{path}{field.name}")


def _inside(kind: "pa.DataType", path: str) -> Iterator[tuple[str, str]]:
    # By use: opening a table checks names, and loads no Arrow.
    import pyarrow as pa

    if isinstance(kind, pa.MapType):
        yield from _inside(kind.key_type, path)
        yield from _inside(kind.item_type, path)
        return
    inner: list[pa.Field[Any]] = [kind.field(i) for i in range(kind.num_fields)]
    if pa.types.is_struct(kind):
        yield from _alike(inner, f"{path}.")
        return
    for field in inner:
        yield from _inside(field.type, path)
