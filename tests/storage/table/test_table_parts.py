"""`Table.versions`, `Table.maintenance` and `Table.access`: each operation is a method of one of them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.table.described import TableAccess
from interbed.storage.table.row_views import ReadOptimizedTable
from interbed.storage.table.table import Table
from interbed.storage.table.table_maintenance import TableMaintenance
from interbed.storage.table.table_versions import TableVersions


def _public(owner: type) -> set[str]:
    """Return the names of the public methods and properties that a class defines itself."""
    return {name for name in vars(owner) if not name.startswith("_")}


VERSIONS, MAINTENANCE, ACCESS = _public(TableVersions), _public(TableMaintenance), _public(TableAccess)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("db")
    made = catalog.create_table("db.t", pa.schema([("id", pa.int64())]), primary_keys=["id"], options={"bucket": "1"})
    assert made.upsert([{"id": 1}]) == 1
    return made


def test_each_operation_belongs_to_one_part() -> None:
    own = set(dir(Table))
    assert not VERSIONS & MAINTENANCE
    assert not ACCESS & (VERSIONS | MAINTENANCE)
    assert not own & (VERSIONS | MAINTENANCE | ACCESS)


@pytest.mark.parametrize("name", sorted(VERSIONS | MAINTENANCE | ACCESS))
def test_a_table_forwards_the_names_of_its_parts(table: Table, name: str) -> None:
    part = next(p for p in (table.versions, table.maintenance, table.access) if name in vars(type(p)))
    found: Any = getattr(table, name)
    if callable(found):
        assert found.__func__ is vars(type(part))[name]
    else:
        assert found == getattr(part, name)


def test_the_error_names_an_unknown_attribute(table: Table) -> None:
    with pytest.raises(AttributeError, match="'Table' object has no attribute 'create_tags'"):
        table.create_tags()  # type: ignore[attr-defined]
    assert not hasattr(table, "_announce")


def test_a_part_follows_the_schema_of_its_table(table: Table) -> None:
    maintenance = table.maintenance
    with table.update_schema() as update:
        update.add_column("more", "INT")
    assert [field.name for field in maintenance.store.schema.fields] == ["id", "more"]
    assert maintenance.rescale(3).snapshot_id == 2
    assert table.options.bucket == 3


@pytest.mark.parametrize("name", ["rescale", "analyze", "rewrite_file_index"])
def test_a_read_optimized_table_refuses_to_write_files(table: Table, name: str) -> None:
    read_only = ReadOptimizedTable.of(table)
    with pytest.raises(NotSupportedError, match="is read only"):
        getattr(read_only.maintenance, name)()
    with pytest.raises(NotSupportedError, match="is read only"):
        getattr(read_only, name)()
    assert read_only.maintenance.fsck().is_sound
