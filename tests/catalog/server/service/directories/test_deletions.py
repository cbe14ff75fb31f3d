"""Directories that a metastore deletes, and those that it keeps: roots, neighbours, links, races."""

import dataclasses
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.directories import guard as guards
from interbed.catalog.server.service.directories.guard import (
    DirectoryKeptError,
    empty_tree,
    identity_of,
    mount_points_in,
    remove_tree,
)
from interbed.catalog.server.service.errors import InvalidOperationError, MetastoreError
from interbed.catalog.server.service.model import (
    MetastoreColumn,
    MetastoreDatabase,
    MetastorePartition,
    MetastoreTable,
    SerDe,
    StorageDescriptor,
)
from interbed.catalog.server.service.service import Metastore
from tests.support.databases import open_migrated
from tests.support.servers.metastore import BACKENDS, migrated_database

STORAGE = StorageDescriptor(columns=(MetastoreColumn(name="id", type="int"),), serde=SerDe())
KEYS = (MetastoreColumn(name="dt", type="string"),)


@pytest.fixture(params=BACKENDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlRepository]:
    """Open a repository with the current schema."""
    if request.param == "sqlite":
        (tmp_path / "state").mkdir()
        opened = open_migrated(f"sqlite:///{tmp_path}/state/metastore.db")
    else:
        opened = open_migrated(migrated_database(request.getfixturevalue("postgres_url")))
    yield opened
    opened.close()


def started(store: SqlRepository, tmp_path: Path, **options: Any) -> Metastore:
    """Return a metastore with a warehouse that contains foreign data."""
    made = Metastore(store, f"file:{tmp_path}/wh", **options)
    made.databases.bootstrap()
    return made


@pytest.fixture
def metastore(store: SqlRepository, tmp_path: Path) -> Metastore:
    """Return a metastore with a database `d`."""
    made = started(store, tmp_path)
    made.databases.create(MetastoreDatabase(name="d"))
    return made


def table(name: str, location: str | None = None, **fields: Any) -> MetastoreTable:
    """Return a table of `d`."""
    storage = dataclasses.replace(STORAGE, location=location)
    return MetastoreTable(**{"database": "d", "name": name, "storage": storage, **fields})


def filled(path: Path) -> Path:
    """Create a file in a new directory."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "file").write_text("data")
    return path / "file"


def drop(metastore: Metastore, name: str = "t") -> None:
    """Drop a table with its data."""
    metastore.tables.drop("hive", "d", name, delete_data=True)


def test_a_relative_location_of_a_database_is_refused(
    metastore: Metastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = filled(tmp_path / "work" / "inner")
    monkeypatch.chdir(tmp_path / "work" / "inner")
    with pytest.raises(MetastoreError, match="neither an absolute path nor a URI"):
        metastore.databases.create(MetastoreDatabase(name="evil", location=".."))
    assert file.exists()


def test_dropping_a_database_deletes_only_a_directory_that_was_created_for_it(
    metastore: Metastore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = filled(tmp_path / "administrators")
    for name in ("new", "administrators"):
        metastore.databases.create(MetastoreDatabase(name=name, location=f"file:{tmp_path}/{name}"))
        metastore.tables.create(table("t", database=name))
        filled(tmp_path / name / "t")
        metastore.databases.drop("hive", name, delete_data=True, cascade=True)
    assert not (tmp_path / "new").exists()
    assert file.exists()
    assert (tmp_path / "administrators" / "t" / "file").exists()
    assert "deletion_roots" in caplog.text


def test_a_directory_within_the_deletion_roots_is_deleted(store: SqlRepository, tmp_path: Path) -> None:
    metastore = started(store, tmp_path, deletion_roots=("databases", f"file:{tmp_path}/lake"))
    filled(tmp_path / "lake" / "sales")
    metastore.databases.create(MetastoreDatabase(name="d", location=f"file:{tmp_path}/lake/sales"))
    metastore.databases.create(MetastoreDatabase(name="own"))
    metastore.tables.create(table("kept", f"file:{tmp_path}/wh/kept"))
    filled(tmp_path / "wh" / "kept")
    drop(metastore, "kept")
    for name in ("d", "own"):
        metastore.databases.drop("hive", name, delete_data=True, cascade=True)
    assert not (tmp_path / "lake" / "sales").exists()
    assert (tmp_path / "wh" / "kept" / "file").exists(), "the warehouse was not named"
    assert not (tmp_path / "wh" / "own.db").exists(), "it was made for the database"


def test_data_of_an_external_table_outside_of_the_roots_is_kept(metastore: Metastore, tmp_path: Path) -> None:
    file = filled(tmp_path / "theirs")
    purged = {"EXTERNAL": "TRUE", "external.table.purge": "true"}
    metastore.tables.create(table("t", f"file:{tmp_path}/theirs", parameters=purged))
    with pytest.raises(MetastoreError, match="deletion_roots"):
        metastore.tables.truncate("hive", "d", "t")
    metastore.tables.drop("hive", "d", "t", delete_data=True, purge=True)
    assert file.exists()


@pytest.mark.sample(6)
@pytest.mark.parametrize("spelled", ["{wh}", "{wh}/..", "{link}", "{link}/d.db", "file:{wh}/d.db", "/", "{top}"])
@pytest.mark.attack("paths and links")
def test_a_directory_that_contains_the_warehouse_or_a_database_is_kept(
    metastore: Metastore, tmp_path: Path, spelled: str
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "wh")
    file = filled(tmp_path / "wh" / "d.db" / "neighbour")
    location = spelled.format(wh=tmp_path / "wh", link=tmp_path / "link", top=tmp_path)
    for parameters in ({}, {"EXTERNAL": "TRUE", "external.table.purge": "true"}):
        try:
            metastore.tables.create(table("t", location, parameters=parameters))
        except MetastoreError:
            continue
        with pytest.raises(MetastoreError, match="was left alone"):
            metastore.tables.truncate("hive", "d", "t")
        drop(metastore)
    assert file.exists()


@pytest.mark.sample(6)
@pytest.mark.parametrize("place", ["wh/d.db/a", "wh/d.db/a/sub", "wh/d.db/p/dt=1", "wh/d.db/p", "link/d.db/a", "far"])
@pytest.mark.attack("paths and links")
def test_the_location_of_another_object_is_kept(metastore: Metastore, tmp_path: Path, place: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "wh")
    metastore.tables.create(table("a"))
    metastore.tables.create(table("p", partition_keys=KEYS))
    metastore.partitions.append(("hive", "d", "p"), ["1"])
    far = dataclasses.replace(STORAGE, location=f"file:{tmp_path}/wh/far/x")
    metastore.partitions.add(("hive", "d", "p"), [MetastorePartition(values=("far",), storage=far)])
    places = [tmp_path / "wh" / each for each in ("d.db/a", "d.db/a/sub", "d.db/p/dt=1", "far/x")]
    files = [filled(each) for each in places]
    metastore.tables.create(table("t", f"file:{tmp_path}/{place.replace('far', 'wh/far')}"))
    drop(metastore)
    assert all(file.exists() for file in files)


def test_a_table_located_through_a_link_protects_the_directory_that_it_leads_to(
    metastore: Metastore, tmp_path: Path
) -> None:
    metastore.tables.create(table("t"))
    file = filled(tmp_path / "wh" / "d.db" / "t" / "inner")
    (tmp_path / "link").symlink_to(tmp_path / "wh" / "d.db" / "t")
    metastore.tables.create(table("u", f"file:{tmp_path}/link/inner", parameters={"EXTERNAL": "TRUE"}))
    drop(metastore)
    assert file.exists()


def test_a_location_below_a_link_is_deleted_but_a_link_itself_is_not(metastore: Metastore, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "wh")
    metastore.tables.create(table("t", f"file:{tmp_path}/link/own"))
    filled(tmp_path / "wh" / "own")
    drop(metastore)
    assert not (tmp_path / "wh" / "own").exists()
    file = filled(tmp_path / "elsewhere")
    (tmp_path / "wh" / "linked").symlink_to(tmp_path / "elsewhere")
    metastore.tables.create(table("t", f"file:{tmp_path}/wh/linked"))
    drop(metastore)
    assert file.exists()
    assert (tmp_path / "wh" / "linked").is_symlink()


def test_a_metastore_database_in_the_warehouse_is_kept(tmp_path: Path) -> None:
    (tmp_path / "wh" / "inner" / "state").mkdir(parents=True)
    store = open_migrated(f"sqlite:///{tmp_path}/wh/inner/state/metastore.db")
    metastore = started(store, tmp_path)
    inode = os.stat(tmp_path / "wh" / "inner" / "state" / "metastore.db").st_ino
    metastore.databases.create(MetastoreDatabase(name="d", location=f"file:{tmp_path}/wh/inner"))
    metastore.databases.drop("hive", "d", delete_data=True, cascade=True)
    assert os.stat(tmp_path / "wh" / "inner" / "state" / "metastore.db").st_ino == inode
    store.close()


@pytest.mark.parametrize("what", ["cwd", "protected", "inode", "mount"])
@pytest.mark.attack("paths and links")
def test_files_that_the_server_needs_are_kept(
    store: SqlRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    needed = tmp_path / "wh" / "d.db" / "t" / "needed"
    metastore = started(store, tmp_path, protected=[str(needed / "audit.log")] if what == "protected" else [])
    metastore.databases.create(MetastoreDatabase(name="d"))
    metastore.tables.create(table("t"))
    file = filled(needed)
    if what == "cwd":
        monkeypatch.chdir(needed)
    elif what == "inode":
        # The same directory by another path, as with a bind mount.
        monkeypatch.setattr(guards, "_identities_above", lambda path: {identity_of(str(needed.parent))})
    elif what == "mount":
        monkeypatch.setattr(guards, "mount_points_in", lambda path: [f"{path}/needed"])
    drop(metastore)
    assert file.exists()


def test_a_table_registered_before_the_deletion_keeps_the_directory(
    metastore: Metastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metastore.tables.create(table("t"))
    file = filled(tmp_path / "wh" / "d.db" / "t")
    deletions = metastore.tables._deletions
    discard: Callable[..., bool] = deletions.discard

    def late(*arguments: Any, **options: Any) -> bool:
        metastore.tables.create(table("t"))
        return discard(*arguments, **options)

    monkeypatch.setattr(deletions, "discard", late)
    drop(metastore)
    assert file.exists()
    assert metastore.tables.names("hive", "d") == ["t"]


def test_a_directory_that_was_replaced_meanwhile_is_kept(tmp_path: Path) -> None:
    file = filled(tmp_path / "t")
    identity = identity_of(str(tmp_path / "t"))
    assert identity is not None
    (tmp_path / "t").rename(tmp_path / "moved")
    other = filled(tmp_path / "t")
    for delete in (remove_tree, empty_tree):
        with pytest.raises(OSError, match="was replaced meanwhile"):
            delete(str(tmp_path / "t"), identity)
    (tmp_path / "above").symlink_to(tmp_path)
    with pytest.raises(OSError, match="above"):
        remove_tree(str(tmp_path / "above" / "moved"), identity)
    assert other.exists()
    remove_tree(str(tmp_path / "moved"), identity)
    assert file.parent.exists()
    assert not (tmp_path / "moved").exists()


def test_mount_points_below_a_directory_are_found() -> None:
    assert "/proc" in mount_points_in("/")
    assert mount_points_in("/nonexistent") == []


def test_a_renamed_table_that_may_not_be_moved_keeps_its_location(metastore: Metastore, tmp_path: Path) -> None:
    filled(tmp_path / "administrators")
    metastore.databases.create(MetastoreDatabase(name="a", location=f"file:{tmp_path}/administrators"))
    metastore.tables.create(table("t", database="a"))
    file = filled(tmp_path / "administrators" / "t")
    metastore.tables.alter("hive", "a", "t", table("u", f"file:{tmp_path}/administrators/t", database="a"))
    assert metastore.tables.get("hive", "a", "u").location == f"file:{tmp_path}/administrators/t"
    assert file.exists()
    again = metastore.tables.create(table("t", database="a"))
    assert again.location == f"file:{tmp_path}/administrators/t-2"


def test_a_table_is_not_moved_to_the_location_of_another(metastore: Metastore, tmp_path: Path) -> None:
    metastore.tables.create(table("t"))
    file = filled(tmp_path / "wh" / "d.db" / "t")
    metastore.tables.create(table("x", f"file:{tmp_path}/wh/d.db/u", parameters={"EXTERNAL": "TRUE"}))
    (tmp_path / "wh" / "d.db" / "u").rmdir()
    with pytest.raises(InvalidOperationError, match=r"it holds the table d\.x"):
        metastore.tables.alter("hive", "d", "t", table("u", f"file:{tmp_path}/wh/d.db/t"))
    assert file.exists()
    assert metastore.tables.names("hive", "d") == ["t", "x"]


def test_partitions_outside_of_the_roots_are_not_exchanged(metastore: Metastore, tmp_path: Path) -> None:
    filled(tmp_path / "administrators" / "dt=1")
    metastore.tables.create(table("s", f"file:{tmp_path}/administrators", partition_keys=KEYS))
    metastore.tables.create(table("t", partition_keys=KEYS))
    metastore.partitions.append(("hive", "d", "s"), ["1"])
    with pytest.raises(InvalidOperationError, match="deletion_roots"):
        metastore.partitions.exchange({"dt": "1"}, ("hive", "d", "s"), ("hive", "d", "t"))
    assert (tmp_path / "administrators" / "dt=1" / "file").exists()


def test_a_directory_is_kept_when_the_database_cannot_be_read(
    metastore: Metastore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = filled(tmp_path / "wh" / "d.db" / "t")

    def broken(*arguments: Any) -> None:
        raise DirectoryKeptError("the database does not answer")

    metastore.tables.create(table("t"))
    metastore.tables._deletions._store = type("Broken", (), {"read": broken})()
    with caplog.at_level(logging.WARNING):
        drop(metastore)
    assert file.exists()
    assert "the database does not answer" in caplog.text
