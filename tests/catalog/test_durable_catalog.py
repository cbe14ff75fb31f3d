"""Completed changes of a file-system catalog survive a power cut."""

import random
from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client import filesystem
from interbed.storage.io.api import FileIO
from interbed.storage.io.local import LocalFileIO
from tests.support.power_cut import PowerCutDisk

SCHEMA = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())))
OUTCOMES = 8


def test_databases_tables_and_their_properties_survive_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    disk = PowerCutDisk(lake)
    files = LocalFileIO(disk)

    def file_io_for(path: str, options: object = None) -> tuple[FileIO, str]:
        return files, path

    monkeypatch.setattr(filesystem, "file_io_for", file_io_for)
    catalog = interbed.load_catalog("lake", warehouse=str(lake))
    monkeypatch.undo()

    def seen() -> list[object]:
        """Return the contents of the catalog after each of several power cuts; they must not differ."""
        found: list[list[object]] = []
        for seed in range(OUTCOMES):
            image = tmp_path / f"image-{disk.steps}-{seed}"
            disk.image(image, random.Random(seed))
            left = interbed.load_catalog("left", warehouse=str(image))
            found.append([])
            for name in left.list_databases():
                tables = [left.get_table(f"{name}.{table}") for table in left.list_tables(name)]
                rows = {table.name: (table.field_names, table.count()) for table in tables}
                found[-1].append((name, left.get_database(name).properties, rows))
        assert all(each == found[0] for each in found)
        return found[0]

    catalog.create_database("d")
    assert seen() == [("d", {}, {})]
    catalog.create_database("e", properties={"team": "sales"})
    catalog.create_table("d.t", SCHEMA, primary_keys=["id"])
    assert seen() == [("d", {}, {"d.t": (["id", "v"], 0)}), ("e", {"team": "sales"}, {})]
    catalog.create_table_as("d.u", pa.table({"id": [1, 2]}))
    catalog.alter_table("d.t", interbed.SchemaChange.add_column("w", interbed.data_type("INT")))
    catalog.alter_database("e", {"team": "stock"})
    tables = {"d.t": (["id", "v", "w"], 0), "d.u": (["id"], 2)}
    assert seen() == [("d", {}, tables), ("e", {"team": "stock"}, {})]
    catalog.rename_table("d.u", "e.u")
    assert seen() == [("d", {}, {"d.t": (["id", "v", "w"], 0)}), ("e", {"team": "stock"}, {"e.u": (["id"], 2)})]
