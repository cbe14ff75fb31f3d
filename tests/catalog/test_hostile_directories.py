"""Directories to which options and names of columns lead: nothing of others is written over or deleted there."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.api import Catalog
from interbed.catalog.client.errors import CatalogError
from interbed.storage.base.errors import InterbedError, InvalidOptionError
from interbed.storage.io.scratch import new_scratch_directory, remove_scratch_directory
from tests.support.hostile_names import NAMES
from tests.support.sentinel import Sentinel
from tests.support.tally import Tally

IDS = pa.schema([pa.field("id", pa.int64())])
PATHS = "data-file.external-paths"


@pytest.fixture
def sentinel(tmp_path: Path) -> Sentinel:
    """Create foreign files around a warehouse."""
    return Sentinel.made_in(tmp_path)


@pytest.fixture
def catalog(sentinel: Sentinel) -> Iterator[Catalog]:
    """Open a catalog with the database d."""
    with interbed.load_catalog("lake", warehouse=str(sentinel.warehouse)) as opened:
        opened.create_database("d")
        yield opened


def external(path: object) -> dict[str, str]:
    """Return the options of a table whose data files are at a path."""
    return {PATHS: f"file:{path}", f"{PATHS}.strategy": "round-robin"}


def test_a_partition_column_of_any_name_has_a_directory_in_its_table(
    catalog: Catalog, sentinel: Sentinel, tally: Tally
) -> None:
    outside, tried = sentinel.outside(), 0
    for name in (each for each in NAMES if len(each) < 200):  # file systems refuse longer ones
        try:
            columns = pa.schema([*IDS, pa.field(name, pa.string())])
            table = catalog.create_table("d.t", columns, partition_keys=[name])
        except (InterbedError, CatalogError, UnicodeEncodeError):
            continue
        table.append(pa.table({"id": [1], name: ["../x"]}))
        directories = [path for path in Path(table.location).iterdir() if "=" in path.name]
        assert len(directories) == 1, name
        assert [each.name for each in directories[0].iterdir()] == ["bucket-0"], name
        assert table.scan().to_arrow().to_pylist() == [{"id": 1, name: "../x"}]
        catalog.drop_table("d.t")
        tried += 1
    assert tried > 20
    assert sentinel.outside() == outside
    tally("hostile names of partition columns", tried)


@pytest.mark.parametrize("path", ["{}/lake/../precious", "{}/./x", "{}/..", "../x", "x"])
def test_an_external_path_is_absolute_and_has_no_dots(catalog: Catalog, tmp_path: Path, path: str) -> None:
    with pytest.raises(InvalidOptionError, match=PATHS):
        catalog.create_table("d.t", IDS, options=external(path.format(tmp_path)))
    assert catalog.list_tables("d") == []


@pytest.mark.parametrize("place", ["database", "warehouse", "table", "foreign", "empty"])
def test_a_drop_leaves_external_paths_of_others(
    catalog: Catalog, sentinel: Sentinel, tmp_path: Path, place: str
) -> None:
    foreign = tmp_path / "foreign"
    empty = tmp_path / "empty"
    empty.mkdir()
    foreign.mkdir()
    (foreign / "kept").write_text("x")
    other = catalog.create_table("d.other", IDS) if place == "table" else None
    if other is not None:
        other.append(pa.table({"id": [7]}))
    lake = sentinel.warehouse
    path = {"database": lake / "d.db", "warehouse": lake, "table": lake / "d.db" / "other"}.get(place, tmp_path / place)
    before = sentinel.outside()
    table = catalog.create_table("d.t", IDS, options=external(path))
    table.append(pa.table({"id": [1]}))
    assert table.scan().to_arrow().to_pylist() == [{"id": 1}]
    catalog.drop_table("d.t")
    assert sentinel.outside() == before
    assert path.is_dir()
    assert catalog.list_databases() == ["d"]
    assert (foreign / "kept").read_text() == "x"
    if other is not None:
        assert other.scan().to_arrow().to_pylist() == [{"id": 7}]
    # The files of the dropped table are gone.
    assert [each for each in path.rglob("data-*") if other is None] == []


def test_scratch_directories_are_made_beside_links_and_foreign_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    precious, scratch = tmp_path / "precious", tmp_path / "scratch"
    for directory in (precious, scratch):
        directory.mkdir()
        (directory / "mine").write_text("x")
    with monkeypatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(scratch))
        first = new_scratch_directory("spill")
        # A link of the name of a directory that is gone leads to files of others.
        remove_scratch_directory(first)
        first.parent.mkdir(exist_ok=True)
        first.symlink_to(precious)
        second = new_scratch_directory("spill")
        (second / "run").write_text("y")
        remove_scratch_directory(second)
        remove_scratch_directory(first)
    assert (precious / "mine").read_text() == (scratch / "mine").read_text() == "x"
