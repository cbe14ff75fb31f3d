"""Drops and undrops that catalogs with kept drops share: of directories, and on a server of interbed's by Thrift and by
REST.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.api import View, ViewColumn
from interbed.catalog.client.errors import (
    CatalogError,
    DatabaseExistsError,
    TableExistsError,
    TableNotFoundError,
    ViewNotFoundError,
)
from interbed.catalog.client.recovery import ServedDrops
from tests.support.servers.metastore import metastore_under_test
from tests.support.servers.paimon_rest import rest_options

KEY: "pa.Field[Any]" = pa.field("id", pa.int64(), nullable=False)
COLUMNS = pa.schema([KEY])


@pytest.fixture(scope="module", params=["filesystem", "hive", "rest"])
def catalog(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[interbed.Catalog]:
    """Open each kind of catalog, with the database d."""
    directory = tmp_path_factory.mktemp("kept")
    if request.param == "filesystem":
        with interbed.load_catalog(warehouse=str(directory), undrop_seconds=3600) as opened:
            opened.create_database("d")
            yield opened
        return
    with metastore_under_test(f"sqlite:///{directory / 'metastore.db'}", directory, "--http-port", "0") as server:
        hive = {"metastore": "hive", "uri": server.uri}
        options = hive if request.param == "hive" else rest_options(f"{server.http}/paimon", "hive")
        with interbed.load_catalog("lake", **options) as opened:
            opened.create_database("d")
            yield opened


def _filled(catalog: interbed.Catalog, name: str, number: int) -> interbed.Table:
    table = catalog.create_table(name, COLUMNS, primary_keys=["id"])
    table.upsert([{"id": number}])
    return table


def _ids(catalog: interbed.Catalog, name: str) -> list[int]:
    return [row["id"] for row in catalog.get_table(name).to_arrow().to_pylist()]


def test_the_latest_dropped_table_comes_back_first(catalog: interbed.Catalog) -> None:
    for number in (1, 2):
        location = Path(_filled(catalog, "d.t", number).location)
        catalog.drop_table("d.t")
        assert not location.exists()
    assert catalog.list_tables("d") == []
    catalog.undrop_table("d.t")
    assert _ids(catalog, "d.t") == [2]
    with pytest.raises(TableExistsError):
        catalog.undrop_table("d.t")
    catalog.undrop_table("d.t", new_name="older")
    assert (_ids(catalog, "d.older"), catalog.list_tables("d")) == ([1], ["older", "t"])
    with pytest.raises(TableNotFoundError, match="no dropped object"):
        catalog.undrop_table("d.t", new_name="oldest")
    for name in ("d.t", "d.older"):
        catalog.get_table(name).upsert([{"id": 7}])
        _purge(catalog, name)


def test_a_purged_table_and_an_unknown_one_are_not_put_back(catalog: interbed.Catalog) -> None:
    _filled(catalog, "d.purged", 1)
    _purge(catalog, "d.purged")
    for name in ("d.purged", "d.none"):
        with pytest.raises(TableNotFoundError):
            catalog.undrop_table(name)


def test_a_name_that_leads_out_of_the_database_is_refused(catalog: interbed.Catalog) -> None:
    _filled(catalog, "d.s", 1)
    catalog.drop_table("d.s")
    for name in ("../x", "a/b", "", ".."):
        with pytest.raises(interbed.InterbedError):
            catalog.undrop_table("d.s", new_name=name)
    assert catalog.list_tables("d") == []
    catalog.undrop_table("d.s")
    _purge(catalog, "d.s")


def test_a_drop_is_chosen_by_its_id(catalog: interbed.Catalog) -> None:
    for number in (1, 2):
        _filled(catalog, "d.i", number)
        catalog.drop_table("d.i")
    later, earlier = catalog.list_dropped("d")
    assert [entry.qualified for entry in (later, earlier)] == ["d.i", "d.i"]
    assert (later.kind, later.expires_at is not None) == ("table", True)
    assert earlier.present_location != later.present_location
    catalog.undrop_table("d.i", new_name="first", drop_id=earlier.id)
    assert _ids(catalog, "d.first") == [1]
    with pytest.raises(TableNotFoundError, match="with the id"):
        catalog.undrop_table("d.i", drop_id=earlier.id)
    assert catalog.purge_dropped("d.i", drop_id=later.id) == 1
    assert not Path(later.present_location.removeprefix("file:")).exists()
    with pytest.raises(TableNotFoundError, match="no dropped object"):
        catalog.purge_dropped("d.i", drop_id=later.id)
    assert catalog.list_dropped() == []
    _purge(catalog, "d.first")


def test_a_database_comes_back_with_its_tables(catalog: interbed.Catalog) -> None:
    catalog.create_database("e")
    _filled(catalog, "e.t", 4)
    catalog.drop_database("e", cascade=True)
    table = next(entry for entry in catalog.list_dropped("e") if entry.name == "t")
    if table.with_database is not None:
        with pytest.raises(CatalogError, match="with its database"):
            catalog.purge_dropped("e.t")
    catalog.undrop_database("e")
    if "t" not in catalog.list_tables("e"):
        catalog.undrop_table("e.t")
    assert _ids(catalog, "e.t") == [4]
    with pytest.raises(TableNotFoundError, match="no dropped object"):
        catalog.undrop_database("e")
    catalog.drop_database("e", cascade=True)
    catalog.create_database("e")
    with pytest.raises(DatabaseExistsError):
        catalog.undrop_database("e")
    catalog.drop_database("e")
    assert catalog.purge_dropped(only_expired=True) == 0
    if isinstance(catalog, ServedDrops):
        expiry = max(entry.expires_at or 0.0 for entry in catalog.list_dropped())
        catalog.clock = lambda: expiry
        assert catalog.purge_dropped(only_expired=True) >= 1
        del catalog.clock
    else:
        assert catalog.purge_dropped() >= 1
    assert catalog.list_dropped() == []


def test_a_view_comes_back(catalog: interbed.Catalog) -> None:
    if isinstance(catalog, interbed.FileSystemCatalog):
        # It has no views.
        return
    view = View(query="SELECT 1 AS a", columns=(ViewColumn("a", "int"),))
    catalog.create_view("d.v", view)
    catalog.drop_view("d.v")
    [entry] = catalog.list_dropped("d")
    assert (entry.kind, entry.name, entry.present_location) == ("view", "v", "")
    catalog.undrop_table("d.v", new_name="w")
    assert catalog.get_view("d.w").query == view.query
    catalog.drop_view("d.w")
    assert catalog.purge_dropped("d.w") == 1
    with pytest.raises(ViewNotFoundError):
        catalog.get_view("d.w")


def _purge(catalog: interbed.Catalog, name: str) -> None:
    """Drop a table and delete its files at once, by one step where the catalog has one."""
    if isinstance(catalog, interbed.RestCatalog):
        catalog.drop_table(name)
        assert catalog.purge_dropped(name) == 1
    else:
        catalog.drop_table(name, purge=True)
