"""A table with `data-evolution.enabled` for tests, its rows, and the files that its scans open."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.catalog.client.api import Catalog
from interbed.storage.lsm.file_read import FileRead
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.table.table import Table

COLUMNS: "list[pa.Field[Any]]" = [pa.field("id", pa.int32()), pa.field("v", pa.string()), pa.field("n", pa.int64())]
SCHEMA = pa.schema(COLUMNS)
EVOLVES = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "compaction.min.file-num": "2"}
NUMBERED = ["id", "v", "n", "_ROW_ID", "_SEQUENCE_NUMBER"]


def create(catalog: Catalog, schema: pa.Schema = SCHEMA, *, keys: Any = (), **options: str) -> Table:
    """Create the table; `a__b_c` is the option `a-b.c`."""
    given = {name.replace("__", "-").replace("_", "."): value for name, value in options.items()}
    return catalog.create_table("db.t", schema, partition_keys=list(keys), options={**EVOLVES, **given})


def rows(*ids: int) -> pa.Table:
    columns: list[Any] = [pa.array(ids, pa.int32()), [f"v{i}" for i in ids], [i * 10 for i in ids]]
    return pa.table(columns, schema=SCHEMA)


def catalog_with_rows(root: Path) -> Catalog:
    """Open a catalog with the table `db.t` of two row range groups."""
    catalog = load_catalog(warehouse=root / "lake")
    catalog.create_database("db")
    table = create(catalog)
    table.append(rows(0, 1, 2))
    table.append(rows(3, 4))
    return catalog


def all_of(table: Table, **arguments: Any) -> list[tuple[Any, ...]]:
    """Return the rows with their ids and numbers, ordered by the ids."""
    return [tuple(row.values()) for row in table.scan(NUMBERED, **arguments).to_arrow().sort_by("_ROW_ID").to_pylist()]


def files_of(table: Table) -> list[DataFileMeta]:
    return [entry.file for entry in table.new_scan().entries()]


def opened(table: Table, columns: list[str] | None, condition: str | None, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the names of the data files that a scan opens."""
    seen: set[str] = set()
    original = FileRead.opened

    def recording(self: Any, file: DataFileMeta, *args: Any, **kwargs: Any) -> Any:
        seen.add(file.file_name)
        return original(self, file, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(FileRead, "opened", recording)
        table.scan(columns, filter=condition).to_arrow()
    return seen
