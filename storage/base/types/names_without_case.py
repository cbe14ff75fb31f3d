"""Names that differ by case alone, which engines without case take for one.

DuckDB compares names without regard to the case of ASCII letters, at the top and within STRUCTs.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from interbed.storage.base.errors import NotSupportedError


def check_apart_without_case(schema: pa.Schema, what: str) -> None:
    """Raise NotSupportedError where two columns, or two fields of a ROW, differ by the case of their names alone."""
    for one, other in _alike(list(schema), ""):
        raise NotSupportedError(
            f"DuckDB ignores the case of names, and {what} has '{one}' and '{other}': it would read one for the other. "
            "Rename one of them (`interbed table alter`), or read the rows by `interbed table scan` or Table.scan."
        )


def _alike(fields: "Sequence[pa.Field[Any]]", path: str) -> Iterator[tuple[str, str]]:
    seen: dict[str, str] = {}
    for field in fields:
        # Only ASCII letters have a case for DuckDB.
        lower = field.name.encode(errors="surrogatepass").lower().decode(errors="surrogatepass")
        if lower in seen:
            yield f"{path}{seen[lower]}", f"{path}{field.name}"
        seen.setdefault(lower, field.name)
        yield from _inside(field.type, f"{path}{field.name}")


def _inside(kind: pa.DataType, path: str) -> Iterator[tuple[str, str]]:
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
