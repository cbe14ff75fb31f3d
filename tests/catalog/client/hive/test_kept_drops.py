"""Tables of interbed's own that are dropped through a Hive catalog: the server keeps them, to be put back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.errors import TableNotFoundError
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.storage.base.errors import InterbedError
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test

KEY: "pa.Field[Any]" = pa.field("id", pa.int64(), nullable=False)
COLUMNS = pa.schema([KEY, pa.field("v", pa.string())])
ROWS = [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreUnderTest]:
    directory = tmp_path_factory.mktemp("server")
    with metastore_under_test(f"sqlite:///{directory / 'metastore.db'}", directory) as running:
        yield running


@pytest.fixture
def catalog(server: MetastoreUnderTest) -> Iterator[HiveCatalog]:
    """Open a catalog with the empty database d."""
    with interbed.load_catalog("lake", metastore="hive", uri=server.uri) as opened:
        assert isinstance(opened, HiveCatalog)
        opened.create_database("d", ignore_if_exists=True)
        yield opened
        opened.drop_database("d", cascade=True)


def _filled(catalog: HiveCatalog, name: str = "d.t", **further: Any) -> interbed.Table:
    table = catalog.create_table(name, COLUMNS, primary_keys=["id"], **further)
    table.upsert(ROWS)
    return table


def _rows(catalog: HiveCatalog, name: str = "d.t") -> list[dict[str, Any]]:
    return catalog.get_table(name).to_arrow().sort_by("id").to_pylist()


def _kept(server: MetastoreUnderTest) -> int:
    directory = server.warehouse / ".dropped"
    return len(list(directory.iterdir())) if directory.exists() else 0


def test_a_dropped_table_is_put_back_with_its_history(server: MetastoreUnderTest, catalog: HiveCatalog) -> None:
    table = _filled(catalog)
    table.versions.create_tag("first")
    table.upsert([{"id": 2, "v": "c"}])
    location = Path(table.location)
    before = _kept(server)
    catalog.drop_table("d.t")
    assert not location.exists()
    assert (_kept(server), catalog.list_tables("d")) == (before + 1, [])
    with pytest.raises(TableNotFoundError):
        catalog.drop_table("d.t")
    catalog.undrop_table("d.t")
    assert _rows(catalog) == [ROWS[0], {"id": 2, "v": "c"}]
    found = catalog.get_table("d.t")
    assert found.copy({"scan.tag-name": "first"}).to_arrow().sort_by("id").to_pylist() == ROWS
    found.upsert([{"id": 3, "v": "d"}])
    assert len(_rows(catalog)) == 3
    catalog.drop_table("d.t")
    assert catalog.list_tables("d") == []


def test_the_name_is_free_at_once(server: MetastoreUnderTest, catalog: HiveCatalog) -> None:
    _filled(catalog)
    catalog.drop_table("d.t")
    _filled(catalog).upsert([{"id": 9, "v": "new"}])
    catalog.undrop_table("d.t", new_name="u")
    assert _rows(catalog, "d.u") == ROWS
    assert len(_rows(catalog)) == 3


def test_a_purged_table_is_not_kept(server: MetastoreUnderTest, catalog: HiveCatalog) -> None:
    location = Path(_filled(catalog, "d.purged").location)
    before = _kept(server)
    catalog.drop_table("d.purged", purge=True)
    assert (_kept(server), location.exists()) == (before, False)
    with pytest.raises(TableNotFoundError):
        catalog.undrop_table("d.purged")


def test_partitions_come_back(server: MetastoreUnderTest, catalog: HiveCatalog) -> None:
    options = {"metastore.partitioned-table": "true", "bucket": "1"}
    table = catalog.create_table("d.p", COLUMNS, partition_keys=["v"], options={**options, "bucket-key": "id"})
    table.append(ROWS)
    catalog.drop_table("d.p")
    catalog.undrop_table("d.p")
    assert sorted(catalog.client.get_partition_names("d", "p")) == ["v=a", "v=b"]
    assert catalog.get_table("d.p").to_arrow().sort_by("id").to_pylist() == ROWS


def test_a_table_with_files_elsewhere_is_deleted_with_them(
    server: MetastoreUnderTest, catalog: HiveCatalog, tmp_path: Path
) -> None:
    options = {"data-file.external-paths": f"file:{tmp_path}/far", "data-file.external-paths.strategy": "round-robin"}
    _filled(catalog, options=options)
    assert list(tmp_path.rglob("*.parquet"))
    before = _kept(server)
    catalog.drop_table("d.t")
    assert (_kept(server), list(tmp_path.rglob("*.parquet"))) == (before, [])


def test_a_writer_of_a_dropped_table_commits_nothing(server: MetastoreUnderTest, catalog: HiveCatalog) -> None:
    table = _filled(catalog)
    catalog.drop_table("d.t")
    with pytest.raises(InterbedError):
        table.upsert([{"id": 5, "v": "late"}])
    assert catalog.list_tables("d") == []
    catalog.undrop_table("d.t", new_name="back")
    assert _rows(catalog, "d.back") == ROWS


def test_a_server_without_soft_drops_leaves_the_files_to_the_client(tmp_path: Path) -> None:
    arguments = ("--undrop-seconds", "0")
    with (
        metastore_under_test(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path, *arguments) as server,
        interbed.load_catalog("lake", metastore="hive", uri=server.uri) as catalog,
    ):
        assert isinstance(catalog, HiveCatalog)
        catalog.create_database("d")
        location = Path(_filled(catalog).location)
        foreign = location / "foreign"
        foreign.touch()
        catalog.drop_table("d.t")
        # Only the files of the table are deleted.
        assert [path.name for path in location.iterdir()] == ["foreign"]
        assert _kept(server) == 0
