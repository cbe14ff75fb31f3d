"""A drop deletes the files that the table has created or that its metadata name; foreign files are
kept and reported.
"""

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.errors import DatabaseNotEmptyError
from interbed.catalog.client.files import table_files
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.storage.base.errors import InvalidInputError, StorageAccessError
from interbed.storage.io.local import LocalFileIO
from interbed.storage.io.parallel import check_deletable
from tests.support.servers.http_servers import running_s3
from tests.support.servers.metastore import metastore
from tests.support.shares import each_run
from tests.support.tally import Tally

COLUMNS = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("p", pa.string(), nullable=False)))
ROWS = pa.table({"id": [1, 2], "p": ["a", "b"]})
KINDS = ("disk", "store", "memory", "hdfs", "server")

FOREIGN = (
    "notes.txt",
    "LATEST",
    "schema-0",
    ".hidden",
    "mine/data.csv",
    "archive/schema/schema-0",
    "backup/bucket-0/data-00000000-0000-0000-0000-000000000000-0.parquet",
    "schema/notes.txt",
    "schema/schema-0.bak",
    "snapshot/snapshot-1.bak",
    "manifest/manifest-mine",
    "tag/notes.txt",
    "branch/notes.txt",
    "branch/branch-side/notes.txt",
    "branch/branch-side/bucket-0/mine.parquet",
    "metadata/mine.json",
    "p=a/notes.txt",
    "p=a/bucket-0/mine.parquet",
    "p=a/bucket-0/data-2026.parquet",
    "p=a/bucket-0/inner/data.parquet",
    "p=z/bucket-7/part-00000.parquet",
    "bucket-0/mine.csv",
    "bucket-x/mine.csv",
)


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with running_s3("lake") as options:
        yield options


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with metastore(warehouse=f"file:{tmp_path_factory.mktemp('unused')}") as uri:
        yield uri


@pytest.fixture(params=each_run(KINDS, lambda kind: kind not in ("memory", "hdfs")))
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[interbed.Catalog]:
    """Open catalogs over every kind of storage, and one over a metastore."""
    name = request.node.name.partition("[")[0]
    options: dict[str, str] = {"warehouse": str(tmp_path / "lake")}
    if request.param == "hdfs":
        options = {"warehouse": f"{request.getfixturevalue('hdfs').uri}/foreign/{name}"}
    elif request.param == "memory":
        options = {"warehouse": f"memory://lake/foreign/{name}"}
    elif request.param == "store":
        options = {"warehouse": f"s3://lake/foreign/{name}", **request.getfixturevalue("s3")}
    elif request.param == "server":
        options |= {"metastore": "hive", "uri": request.getfixturevalue("server")}
    with interbed.load_catalog("lake", **options) as opened:
        opened.create_database("d")
        yield opened
        opened.drop_database("d", ignore_if_not_exists=True, cascade=True)


def full_table(catalog: interbed.Catalog, **options: str) -> Any:
    """Create a table with all kinds of files."""
    table = catalog.create_table(
        "d.t",
        COLUMNS,
        primary_keys=["id", "p"],
        partition_keys=["p"],
        options={"bucket": "1", "changelog-producer": "input", "tag.create-success-file": "true", **options},
    )
    for _ in range(3):
        table.append(ROWS)
    table.compact()
    table.versions.create_tag("first")
    table.versions.create_branch("side", "first")
    table.branch("side").append(ROWS)
    table.maintenance.analyze()
    table.versions.reset_consumer("reader", 4)
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    catalog.mark_partitions_done("d.t", [{"p": "a"}])
    return table


def below(file_io: Any, directory: str) -> set[str]:
    """Return the paths of the files below a directory."""
    found: set[str] = set()
    for entry in file_io.list(directory):
        found |= below(file_io, entry.path) if entry.is_directory else {entry.path}
    return found


def test_a_drop_deletes_all_files_of_the_table(catalog: interbed.Catalog, caplog: pytest.LogCaptureFixture) -> None:
    # In memory a directory stays when its files are deleted.
    has_directories = not catalog.warehouse.startswith("memory:")
    inner = {"data-file.path-directory": "inner/data"} if has_directories else {}
    table = full_table(catalog, **{"data-file.prefix": "part-"}, **inner)
    file_io, place = table.storage_io, table.location
    catalog.alter_table("d.t", interbed.SchemaChange.set_option("data-file.prefix", "later-"))
    catalog.get_table("d.t").append(ROWS)
    catalog.drop_table("d.t")
    assert below(file_io, place.rpartition("/")[0]) <= {f"{place.rpartition('/')[0]}/.directory"}
    assert not (has_directories and file_io.exists(place))
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
    catalog.drop_database("d")


def test_foreign_files_in_a_table_are_kept_and_reported(
    catalog: interbed.Catalog, caplog: pytest.LogCaptureFixture, tally: Tally
) -> None:
    table = full_table(catalog)
    file_io, place = table.storage_io, table.location
    foreign = {f"{place}/{path}" for path in FOREIGN}
    for path in foreign:
        file_io.overwrite(path, b"mine")
    catalog.drop_table("d.t")
    assert below(file_io, place) == foreign
    assert not catalog.table_exists("d.t")
    (said,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert place in said
    assert f"'.hidden', 'LATEST', 'archive' and {len(FOREIGN) - 3} more" in said
    tally("foreign files beside a dropped table", len(FOREIGN))
    # The next table of that name has none of the old rows, and its drop keeps the same files.
    catalog.create_table("d.t", COLUMNS).append(ROWS)
    assert catalog.get_table("d.t").count() == 2
    catalog.drop_table("d.t")
    assert below(file_io, place) == foreign


def test_foreign_files_in_a_database_are_kept_when_it_is_dropped_with_its_tables(
    catalog: interbed.Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    table = full_table(catalog)
    file_io, place = table.storage_io, table.location.rpartition("/")[0]
    foreign = {f"{place}/{path}" for path in ("notes.txt", "t/notes.txt", "other/mine.csv", "t/p=a/bucket-0/x.csv")}
    for path in foreign:
        file_io.overwrite(path, b"mine")
    catalog.drop_database("d", cascade=True)
    assert below(file_io, place) - {f"{place}/.directory"} == foreign
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert any("notes.txt" in text and place in text for text in said)


def test_a_database_without_foreign_files_is_deleted_with_its_tables(catalog: interbed.Catalog) -> None:
    table = full_table(catalog)
    catalog.create_table("d.other", COLUMNS)
    file_io, place = table.storage_io, table.location.rpartition("/")[0]
    catalog.drop_database("d", cascade=True)
    assert not file_io.exists(place)
    assert not catalog.database_exists("d")


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[FileSystemCatalog]:
    """Open a catalog on the local disk, whose database `d` has the table `d.ok`."""
    with interbed.load_catalog("lake", warehouse=str(tmp_path / "lake")) as opened:
        assert isinstance(opened, FileSystemCatalog)
        opened.create_database("d")
        opened.create_table("d.ok", COLUMNS).append(ROWS)
        yield opened


def precious(tmp_path: Path) -> tuple[Path, dict[str, bytes]]:
    """Create a foreign directory that looks like a database with a table; return it with its contents."""
    with interbed.load_catalog("other", warehouse=str(tmp_path / "other")) as other:
        other.create_database("d")
        other.create_table("d.t", COLUMNS).append(ROWS)
    root = tmp_path / "other" / "d.db"
    (root / "t" / "notes.txt").write_text("mine")
    return root, content(root)


def content(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


LINKS: dict[str, Callable[[FileSystemCatalog, Path], object]] = {
    "t": lambda lake, _: lake.drop_table("d.t"),
    ".dropped": lambda lake, _: lake.drop_table("d.ok"),
    ".staged": lambda lake, _: _refused(lambda: lake.create_table_as("d.new", ROWS)),
    "ok/p=a": lambda lake, _: lake.drop_table("d.ok"),
    "ok/notes": lambda lake, _: lake.drop_table("d.ok"),
    "ok/bucket-7": lambda lake, _: lake.drop_table("d.ok"),
    "ok/branch": lambda lake, _: lake.drop_table("d.ok"),
    "other": lambda lake, _: lake.drop_database("d", cascade=True),
    "third": lambda lake, _: _not_empty(lake),
}


def _refused(call: Callable[[], object]) -> None:
    with pytest.raises(StorageAccessError, match="symbolic link"):
        call()


def _not_empty(lake: FileSystemCatalog) -> None:
    lake.drop_table("d.ok")
    with pytest.raises(DatabaseNotEmptyError, match="third"):
        lake.drop_database("d")


@pytest.mark.parametrize("link", LINKS)
def test_deletions_do_not_follow_links(lake: FileSystemCatalog, tmp_path: Path, link: str) -> None:
    root, before = precious(tmp_path)
    target = root / "t" if link == "t" else root
    (Path(lake.warehouse) / "d.db" / link).symlink_to(target)
    LINKS[link](lake, root)
    assert content(root) == before


def test_dropping_a_database_that_is_a_link_deletes_only_the_link(lake: FileSystemCatalog, tmp_path: Path) -> None:
    root, before = precious(tmp_path)
    link = Path(lake.warehouse) / "linked.db"
    link.symlink_to(root)
    with pytest.raises(InvalidInputError, match=r"linked\.db is a symbolic link"):
        lake.drop_table("linked.t")
    lake.drop_database("linked", cascade=True)
    assert content(root) == before
    assert not os.path.lexists(link)


def test_dropping_a_table_that_is_a_link_deletes_only_the_link_also_in_a_metastore(server: str, tmp_path: Path) -> None:
    root, before = precious(tmp_path)
    options = {"warehouse": str(tmp_path / "lake"), "metastore": "hive", "uri": server}
    with interbed.load_catalog("lake", **options) as catalog:
        catalog.create_database("links")
        place = Path(catalog.create_table("links.t", COLUMNS).location)
        place.rename(tmp_path / "moved")
        place.symlink_to(root / "t")
        catalog.drop_table("links.t")
        catalog.drop_database("links", cascade=True)
    assert content(root) == before


@pytest.mark.parametrize("drop", ["table", "cascade", "no such table"])
@pytest.mark.parametrize("elsewhere", [False, True], ids=["in the warehouse", "elsewhere"])
def test_a_drop_in_a_metastore_deletes_nothing_behind_a_linked_database(
    server: str, tmp_path: Path, drop: str, elsewhere: bool
) -> None:
    options = {"warehouse": str(tmp_path / "lake"), "metastore": "hive", "uri": server}
    name = f"links_{drop.replace(' ', '_')}_{elsewhere}".lower()
    place = tmp_path / "elsewhere" / "x" if elsewhere else tmp_path / "lake" / f"{name}.db"
    with interbed.load_catalog("lake", **options) as catalog:
        catalog.create_database(name, properties={"location": str(place)} if elsewhere else None)
        catalog.create_table(f"{name}.t", COLUMNS).append(ROWS)
        catalog.create_table(f"{name}.dropped", COLUMNS).append(ROWS)
        # The remains of a killed drop: the mark, and no first schema.
        remains = place / "dropped"
        (remains / ".dropped").write_text("")
        (remains / "schema" / "schema-0").rename(remains / "notes")
        place.rename(tmp_path / "moved")
        place.symlink_to(tmp_path / "moved")
        before = content(tmp_path / "moved")
        catalog.client.drop_table(name, "dropped", delete_data=False)  # type: ignore[attr-defined]
        if drop == "table":
            catalog.drop_table(f"{name}.t")
            assert catalog.list_tables(name) == []
        elif drop == "cascade":
            catalog.drop_database(name, cascade=True)
            assert not os.path.lexists(place)
        else:
            catalog.drop_table(f"{name}.dropped", ignore_if_not_exists=True)
    assert content(tmp_path / "moved") == before


def test_a_file_created_during_a_drop_is_kept(lake: FileSystemCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    drop = table_files.drop_directory
    database = Path(lake.warehouse) / "d.db"

    def late(file_io: Any, location: str) -> bool | None:
        (database / "ok" / "late.txt").write_text("mine")
        return drop(file_io, location)

    monkeypatch.setattr(table_files, "drop_directory", late)
    lake.drop_table("d.ok")
    monkeypatch.undo()
    lake.create_table("d.next", COLUMNS)
    lake.drop_table("d.next")
    (left,) = [path for path in (database / ".dropped").rglob("*") if path.is_file()]
    assert left.read_text() == "mine"


@pytest.mark.parametrize("path", ["", "/", "//", "relative", "a/../b", "/a/../b", "/..", "s3://bucket", "s3://bucket/"])
def test_deleting_a_root_or_a_relative_path_is_refused(path: str) -> None:
    with pytest.raises(StorageAccessError, match="is not deleted"):
        check_deletable(path)
    with pytest.raises(StorageAccessError, match="is not deleted"):
        LocalFileIO().delete(path, recursive=True)


def test_a_link_with_a_trailing_slash_is_not_followed(tmp_path: Path) -> None:
    root, before = precious(tmp_path)
    (tmp_path / "link").symlink_to(root)
    LocalFileIO().delete(f"{tmp_path}/link/", recursive=True)
    assert content(root) == before
