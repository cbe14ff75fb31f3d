"""Drops, undrops and purges of a file-system catalog that are cut at any step: the old state or the new one."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client import filesystem
from interbed.storage.io.api import FileIO
from interbed.storage.io.local import LocalFileIO
from tests.support.power_cut import PowerCutDisk

COLUMNS = pa.schema((pa.field("id", pa.int64()),))
OUTCOMES = 3
Change = Callable[[interbed.Catalog], object]

CHANGES: dict[str, tuple[list[Change], Change]] = {
    "drop": ([], lambda c: c.drop_table("d.t")),
    "undrop": ([lambda c: c.drop_table("d.t")], lambda c: c.undrop_table("d.t")),
    "undrop-renamed": ([lambda c: c.drop_table("d.t")], lambda c: c.undrop_table("d.t", new_name="v")),
    "purge": ([lambda c: c.drop_table("d.t")], lambda c: c.purge_dropped("d.t")),
    "drop-database": ([], lambda c: c.drop_database("d", cascade=True)),
    "undrop-database": ([lambda c: c.drop_database("d", cascade=True)], lambda c: c.undrop_database("d")),
    "undrop-from-database": (
        [lambda c: c.drop_database("d", cascade=True), lambda c: c.create_database("d")],
        lambda c: c.undrop_table("d.t"),
    ),
    "purge-database": ([lambda c: c.drop_database("d", cascade=True)], lambda c: c.purge_dropped("d")),
}


def _seen(root: Path) -> tuple[object, ...]:
    """Return the tables of a warehouse with their numbers of rows, and what is dropped, which must be whole."""
    catalog = interbed.load_catalog(warehouse=str(root), undrop_seconds=3600)
    tables = [f"{database}.{name}" for database in catalog.list_databases() for name in catalog.list_tables(database)]
    rows = tuple((name, catalog.get_table(name).count()) for name in tables)
    dropped = catalog.list_dropped()
    for entry in dropped:
        if entry.name is not None:
            files = list(Path(entry.present_location).rglob("*.parquet"))
            assert len(files) == 1, "a dropped table lacks its rows"
    return tuple(catalog.list_databases()), rows, tuple((entry.database, entry.name) for entry in dropped)


@pytest.mark.sample(2)
@pytest.mark.parametrize("change", CHANGES)
def test_each_prefix_of_a_change_is_the_old_or_the_new_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    before, changing = CHANGES[change]
    plain = interbed.load_catalog(warehouse=str(lake), undrop_seconds=3600)
    plain.create_database("d", properties={"team": "a"})
    for name in ("d.t", "d.u"):
        plain.create_table(name, COLUMNS).append(pa.table({"id": [1, 2]}))
    for each in before:
        each(plain)
    old = _seen(lake)
    images: list[Path] = []

    def cut() -> None:
        # Everything that was done survives a kill; a power cut loses what was not synced.
        for seed in range(OUTCOMES):
            images.append(tmp_path / f"image-{len(images)}")
            if seed == 0:
                shutil.copytree(lake, images[-1])
            else:
                disk.image(images[-1], random.Random(seed))

    disk = PowerCutDisk(lake, cut)
    files = LocalFileIO(disk)

    def file_io_for(path: str, options: object = None) -> tuple[FileIO, str]:
        return files, path

    monkeypatch.setattr(filesystem, "file_io_for", file_io_for)
    catalog = interbed.load_catalog(warehouse=str(lake), undrop_seconds=3600)
    changing(catalog)
    monkeypatch.undo()
    new = _seen(lake)
    assert new != old
    cut()
    seen = [_seen(image) for image in images]
    assert set(seen) <= {old, new}
    assert set(seen[-OUTCOMES:]) == {new}
    # Each state can be changed further: what was begun is finished or begun again.
    for image in images:
        left = interbed.load_catalog(warehouse=str(image), undrop_seconds=3600)
        left.purge_dropped(only_expired=True)
        if _seen(image) == old:
            changing(left)
        assert _seen(image) == new
