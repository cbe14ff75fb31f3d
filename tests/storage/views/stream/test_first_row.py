"""Streams of first-row tables: ignored rows are no changes."""

from pathlib import Path

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.table.table import Table

ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})
MORE = pa.table({"id": [2, 3], "v": ["x", "c"]})


def made(path: Path, **options: str) -> Table:
    catalog = load_catalog(warehouse=str(path))
    catalog.create_database("d")
    given = {"bucket": "1", "merge-engine": "first-row", **options}
    table = catalog.create_table("d.t", ROWS.schema, primary_keys=["id"], options=given)
    table.upsert(ROWS)
    table.upsert(MORE)
    return table


def test_a_table_without_a_changelog_has_no_stream(tmp_path: Path) -> None:
    table = made(tmp_path)
    for read in (lambda: list(table.stream(idle_seconds=0)), lambda: table.changes(1).to_arrow()):
        with pytest.raises(NotSupportedError, match=r"rows are written that the table ignores.*'lookup'"):
            read()
    assert table.scan().to_arrow().to_pylist() == [*ROWS.to_pylist(), {"id": 3, "v": "c"}]


def test_a_changelog_has_only_the_new_rows(tmp_path: Path) -> None:
    table = made(tmp_path, **{"changelog-producer": "lookup"})
    rows = [row for changes in table.stream(from_snapshot=1, idle_seconds=0) for row in changes.to_arrow().to_pylist()]
    assert sorted((row["id"], row["v"]) for row in rows) == [(1, "a"), (2, "b"), (3, "c")]
