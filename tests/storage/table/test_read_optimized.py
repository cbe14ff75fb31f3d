"""`t$ro` shows only fully compacted rows."""

from pathlib import Path

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.storage.base.errors import NotSupportedError

_ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})


def test_only_fully_compacted_rows_are_shown(tmp_path: Path) -> None:
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    table = catalog.create_table_as("db.t", _ROWS, primary_keys=["id"], options={"bucket": 1, "write-only": True})

    assert catalog.get_table("db.t$ro").scan().to_arrow().num_rows == 0
    table.copy({"write-only": "false"}).compact()
    table.upsert(pa.table({"id": [2, 3], "v": ["new", "new"]}))

    optimized = catalog.get_table("db.t$ro")
    assert optimized.scan().to_arrow().to_pylist() == _ROWS.to_pylist()
    assert optimized.scan(["v"], "id = 2").to_arrow().to_pylist() == [{"v": "b"}]
    assert optimized.scan().count() == 2
    assert optimized.field_names == ["id", "v"]
    assert table.scan().count() == 3
    with pytest.raises(NotSupportedError, match="read only"):
        optimized.upsert(_ROWS)
    with pytest.raises(NotSupportedError, match="read only"):
        optimized.truncate()


def test_an_append_table_is_shown_unchanged(tmp_path: Path) -> None:
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    catalog.create_table_as("db.t", _ROWS)

    assert catalog.get_table("db.t$ro").scan().to_arrow() == _ROWS


def test_changes_are_refused(tmp_path: Path) -> None:
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    table = catalog.create_table_as("db.t", _ROWS, primary_keys=["id"], options={"bucket": 1})
    table.upsert(_ROWS)
    between = catalog.get_table("db.t$ro").copy({"incremental-between": "1,2"})
    for read in (between.scan().to_arrow, between.new_scan().plan):
        with pytest.raises(NotSupportedError, match="without '\\$ro'"):
            read()
