"""Catalogs over the wire: they contain databases beside those of `hive`, and are named by a prefix or by a field."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.metastore import MetastoreUnderTest, table


@pytest.fixture
def lake(wire: Any, tmp_path: Path) -> Iterator[str]:
    """Create an empty catalog and yield its name."""
    wire.create_catalog(
        ttypes.CreateCatalogRequest(
            catalog=ttypes.Catalog(name="Lake", description="beside hive", locationUri=f"file:{tmp_path}/lake")
        )
    )
    yield "lake"
    for name in wire.get_databases("@lake#*"):
        if name != "default":
            wire.drop_database(f"@lake#{name}", True, True)
    wire.drop_catalog(ttypes.DropCatalogRequest(name="lake", ifExists=True))


def test_a_new_catalog_has_a_directory_and_a_default_database(wire: Any, lake: str, tmp_path: Path) -> None:
    found = wire.get_catalog(ttypes.GetCatalogRequest(name="LAKE")).catalog
    assert (found.name, found.description, found.locationUri) == (lake, "beside hive", f"file:{tmp_path}/lake")
    assert wire.get_catalogs().names == ["hive", lake]
    assert wire.get_databases("@lake#*") == ["default"]
    assert (tmp_path / "lake").is_dir()
    default = wire.get_database("@lake#default")
    assert (default.catalogName, default.locationUri) == (lake, f"file:{tmp_path}/lake")
    with pytest.raises(ttypes.AlreadyExistsException, match="Catalog lake already exists"):
        wire.create_catalog(ttypes.CreateCatalogRequest(catalog=ttypes.Catalog(name="lake", locationUri="file:/x")))


def test_databases_and_tables_of_a_catalog_lie_below_its_location(wire: Any, lake: str, tmp_path: Path) -> None:
    wire.create_database(ttypes.Database(name="sales", catalogName=lake))
    wire.create_database_req(ttypes.CreateDatabaseRequest(databaseName="stock", catalogName=lake))
    assert wire.get_database("@lake#sales").locationUri == f"file:{tmp_path}/lake/sales.db"
    made = table("sales", "t")
    made.catName = lake
    wire.create_table(made)
    assert wire.get_table("@lake#sales", "t").sd.location == f"file:{tmp_path}/lake/sales.db/t"
    assert wire.get_all_tables("@lake#sales") == ["t"]
    request = ttypes.GetTableRequest(dbName="sales", tblName="t", catName=lake)
    assert wire.get_table_req(request).table.catName == lake
    with pytest.raises(ttypes.NoSuchObjectException):
        wire.get_database("sales")
    with pytest.raises(ttypes.NoSuchObjectException):
        wire.get_database("@lake#nope")


def test_tables_do_not_move_between_catalogs(wire: Any, lake: str, database: str) -> None:
    wire.create_table(table(database, "t"))
    changed = wire.get_table(database, "t")
    changed.catName, changed.dbName = lake, "default"
    with pytest.raises(ttypes.InvalidOperationException, match="Tables cannot be moved between catalogs"):
        wire.alter_table_req(ttypes.AlterTableRequest(catName="hive", dbName=database, tableName="t", table=changed))
    assert wire.get_all_tables(database) == ["t"]


def test_a_catalog_can_change_its_description_but_not_its_name(wire: Any, lake: str, tmp_path: Path) -> None:
    changed = ttypes.Catalog(name=lake, description="new", locationUri=f"file:{tmp_path}/lake", parameters={"a": "b"})
    wire.alter_catalog(ttypes.AlterCatalogRequest(name=lake, newCat=changed))
    found = wire.get_catalog(ttypes.GetCatalogRequest(name=lake)).catalog
    assert (found.description, found.parameters) == ("new", {"a": "b"})
    changed.name = "other"
    with pytest.raises(ttypes.InvalidOperationException, match="cannot be renamed"):
        wire.alter_catalog(ttypes.AlterCatalogRequest(name=lake, newCat=changed))
    with pytest.raises(ttypes.NoSuchObjectException, match="No catalog nope"):
        wire.alter_catalog(ttypes.AlterCatalogRequest(name="nope", newCat=ttypes.Catalog(name="nope")))


def test_only_an_empty_catalog_can_be_dropped(wire: Any, lake: str, metastore: MetastoreUnderTest) -> None:
    wire.create_database(ttypes.Database(name="sales", catalogName=lake))
    with pytest.raises(ttypes.InvalidOperationException, match="There are non-default databases in the catalog lake"):
        wire.drop_catalog(ttypes.DropCatalogRequest(name=lake))
    wire.drop_database("@lake#sales", True, False)
    wire.create_table(table("@lake#default", "t"))
    with pytest.raises(ttypes.InvalidOperationException, match="still objects in the default database"):
        wire.drop_catalog(ttypes.DropCatalogRequest(name=lake))
    wire.drop_table("@lake#default", "t", True)
    wire.drop_catalog(ttypes.DropCatalogRequest(name=lake))
    assert wire.get_catalogs().names == ["hive"]
    with pytest.raises(ttypes.NoSuchObjectException):
        wire.drop_catalog(ttypes.DropCatalogRequest(name=lake, ifExists=False))
    wire.drop_catalog(ttypes.DropCatalogRequest(name=lake, ifExists=True))
    assert metastore.warehouse.is_dir()


def test_a_dropped_catalog_deletes_the_directory_that_was_created_for_it(wire: Any, lake: str, tmp_path: Path) -> None:
    changed = ttypes.Catalog(name=lake, locationUri=f"file:{tmp_path}/elsewhere")
    wire.alter_catalog(ttypes.AlterCatalogRequest(name=lake, newCat=changed))
    (tmp_path / "elsewhere").mkdir()
    wire.drop_catalog(ttypes.DropCatalogRequest(name=lake))
    assert not (tmp_path / "lake").exists(), "its database `default` was there"
    assert (tmp_path / "elsewhere").exists(), "the server did not make it"


def test_the_default_catalog_cannot_be_dropped_and_invalid_catalogs_are_refused(wire: Any) -> None:
    with pytest.raises(ttypes.MetaException, match="Can not drop hive catalog"):
        wire.drop_catalog(ttypes.DropCatalogRequest(name="HIVE"))
    for name in ("a-b", "", "x" * 10_000):
        with pytest.raises(ttypes.InvalidObjectException, match="is not a valid catalog name"):
            wire.create_catalog(ttypes.CreateCatalogRequest(catalog=ttypes.Catalog(name=name, locationUri="file:/x")))
    with pytest.raises(ttypes.InvalidObjectException, match="You must specify a path for the catalog"):
        wire.create_catalog(ttypes.CreateCatalogRequest(catalog=ttypes.Catalog(name="nowhere")))
    with pytest.raises(ttypes.InvalidObjectException, match="No such catalog"):
        wire.create_database(ttypes.Database(name="d", catalogName="nowhere"))


def test_a_metastore_has_a_permanent_identity(wire: Any) -> None:
    first = wire.get_metastore_db_uuid()
    assert len(first) == 36
    assert wire.get_metastore_db_uuid() == first
