"""Rows and columns that the tests write, and the check that a table is unchanged."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

import interbed

SCHEMA = pa.schema(
    (
        pa.field("id", pa.int64()),
        pa.field("small", pa.int8()),
        pa.field("name", pa.string()),
        pa.field("price", pa.decimal128(5, 2)),
        pa.field("due", pa.date32()),
        pa.field("flag", pa.bool_()),
    )
)
GOOD = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"], "small": [1, 2, 3]})


def files_of(location: str) -> dict[str, bytes]:
    """Return all files of a table with their content, except the lock file of writers."""
    root = Path(location)
    return {
        str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file() and p.name != ".commit-turn"
    }


@contextmanager
def unchanged(table: interbed.Table) -> Iterator[None]:
    """Assert that the block leaves the table's files unchanged, to the byte."""
    before = files_of(table.location)
    yield
    assert files_of(table.location) == before
