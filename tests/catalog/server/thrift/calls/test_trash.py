"""Dropped files are moved to the trash of a server that has one, unless PURGE or the table disables it."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test, plain_client, storage, table

_numbers = itertools.count(1)
PURGE = ttypes.EnvironmentContext(properties={"ifPurge": "true"})


@pytest.fixture(scope="module")
def with_trash(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreUnderTest]:
    """Run a server whose trash keeps everything for a day."""
    directory = tmp_path_factory.mktemp("trash")
    db = f"sqlite:///{directory / 'metastore.db'}"
    with metastore_under_test(db, directory, "--trash-seconds", "1d", "--reaper-seconds", "1h") as running:
        yield running


@pytest.fixture
def wire(with_trash: MetastoreUnderTest) -> Iterator[Any]:
    """Connect the generated client to the server with the trash."""
    with plain_client(with_trash.port) as client:
        yield client


@pytest.fixture
def home(wire: Any, with_trash: MetastoreUnderTest) -> Path:
    """Return the directory of a database of the test; the database's name is its stem."""
    name = f"trash{next(_numbers)}"
    wire.create_database(ttypes.Database(name=name))
    return with_trash.warehouse / f"{name}.db"


def in_trash(running: MetastoreUnderTest, path: Path) -> bool:
    """Return whether the file is in the trash."""
    return Path(f"{running.warehouse}/.Trash/Current{path}").exists()


def made(wire: Any, home: Path, name: str, *keys: tuple[str, str], parameters: dict[str, str] | None = None) -> Path:
    """Create a table with a file in its directory, and return the file."""
    wire.create_table(table(home.stem, name, ("id", "int"), partition_keys=keys, parameters=parameters))
    file = home / name / "f"
    file.write_text("data")
    return file


def test_a_dropped_table_is_moved_to_the_trash(wire: Any, home: Path, with_trash: MetastoreUnderTest) -> None:
    file = made(wire, home, "t")
    wire.drop_table(home.stem, "t", True)
    assert (file.exists(), in_trash(with_trash, file)) == (False, True)


@pytest.mark.parametrize("key", ["auto.purge", "skip.trash"])
def test_a_table_can_disable_the_trash(wire: Any, home: Path, with_trash: MetastoreUnderTest, key: str) -> None:
    file = made(wire, home, "t", parameters={key: "TRUE"})
    wire.drop_table(home.stem, "t", True)
    assert (file.exists(), in_trash(with_trash, file)) == (False, False)


def test_purge_deletes_without_the_trash(wire: Any, home: Path, with_trash: MetastoreUnderTest) -> None:
    files = [made(wire, home, name) for name in ("t", "u")]
    wire.drop_table_with_environment_context(home.stem, "t", True, PURGE)
    wire.drop_table_req(ttypes.DropTableRequest(dbName=home.stem, tableName="u", deleteData=True, envContext=PURGE))
    assert [(file.exists(), in_trash(with_trash, file)) for file in files] == [(False, False)] * 2


def test_external_data_is_moved_to_the_trash_only_if_the_table_is_purged(
    wire: Any, home: Path, with_trash: MetastoreUnderTest
) -> None:
    kept = made(wire, home, "kept", parameters={"EXTERNAL": "TRUE"})
    purged = made(wire, home, "purged", parameters={"EXTERNAL": "TRUE", "external.table.purge": "true"})
    for name in ("kept", "purged"):
        wire.drop_table(home.stem, name, True)
    assert (kept.exists(), in_trash(with_trash, kept)) == (True, False)
    assert (purged.exists(), in_trash(with_trash, purged)) == (False, True)


def test_partitions_are_moved_to_the_trash_like_tables(wire: Any, home: Path, with_trash: MetastoreUnderTest) -> None:
    made(wire, home, "t", ("p", "string"))
    files = []
    for value in ("a", "b", "c", "d"):
        wire.append_partition(home.stem, "t", [value])
        files.append(home / "t" / f"p={value}" / "f")
        files[-1].write_text("data")
    wire.drop_partition(home.stem, "t", ["a"], True)
    wire.drop_partition_with_environment_context(home.stem, "t", ["b"], True, PURGE)
    wire.drop_partition_by_name_with_environment_context(home.stem, "t", "p=c", True, PURGE)
    parts = ttypes.RequestPartsSpec(names=["p=d"])
    wire.drop_partitions_req(
        ttypes.DropPartitionsRequest(home.stem, "t", parts, deleteData=True, environmentContext=PURGE)
    )
    assert [file.exists() for file in files] == [False] * 4
    assert [in_trash(with_trash, file) for file in files] == [True, False, False, False]


def test_the_archive_of_an_archived_partition_is_moved_to_the_trash(
    wire: Any, home: Path, with_trash: MetastoreUnderTest
) -> None:
    made(wire, home, "t", ("p", "string"))
    original = home / "t" / "archives"
    original.mkdir()
    (original / "data.har").write_text("data")
    location = home / "elsewhere"
    partition = ttypes.Partition(
        dbName=home.stem,
        tableName="t",
        values=["a"],
        sd=storage(location=f"file:{location}"),
        parameters={"is_archived": "true", "original_location": f"file:{original}"},
    )
    wire.add_partition(partition)
    wire.drop_partition(home.stem, "t", ["a"], True)
    assert location.exists()
    assert not original.exists()
    assert in_trash(with_trash, original / "data.har")


def test_truncate_moves_the_data_and_leaves_an_empty_directory(
    wire: Any, home: Path, with_trash: MetastoreUnderTest
) -> None:
    whole = made(wire, home, "whole")
    whole.parent.chmod(0o750)
    made(wire, home, "parts", ("p", "string"))
    wire.append_partition(home.stem, "parts", ["a"])
    part = home / "parts" / "p=a" / "f"
    part.write_text("data")
    for name in ("whole", "parts"):
        wire.truncate_table(home.stem, name, None)
    assert [list(file.parent.iterdir()) for file in (whole, part)] == [[], []]
    assert whole.parent.stat().st_mode & 0o777 == 0o750
    assert [in_trash(with_trash, file) for file in (whole, part)] == [True, True]


def test_a_dropped_database_is_moved_to_the_trash_as_a_whole(
    wire: Any, home: Path, with_trash: MetastoreUnderTest
) -> None:
    kept, purged = made(wire, home, "kept"), made(wire, home, "purged", parameters={"auto.purge": "true"})
    wire.drop_database(home.stem, True, True)
    assert not home.exists()
    assert [in_trash(with_trash, file) for file in (home, kept, purged)] == [True, True, False]


def test_without_the_setting_files_are_deleted(tmp_path: Path) -> None:
    with (
        metastore_under_test(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path) as running,
        plain_client(running.port) as client,
    ):
        client.create_database(ttypes.Database(name="d"))
        file = made(client, running.warehouse / "d.db", "t")
        client.drop_table("d", "t", True)
        assert not file.exists()
        assert not (running.warehouse / ".Trash").exists()
