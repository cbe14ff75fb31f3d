"""Drops and undrops of tables that catalogs with kept drops share: of directories, and on a server of interbed's."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.errors import TableExistsError, TableNotFoundError
from tests.support.servers.metastore import metastore_under_test

KEY: "pa.Field[Any]" = pa.field("id", pa.int64(), nullable=False)
COLUMNS = pa.schema([KEY])


@pytest.fixture(scope="module", params=["filesystem", "hive"])
def catalog(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[interbed.Catalog]:
    """Open each kind of catalog, with the database d."""
    directory = tmp_path_factory.mktemp("kept")
    if request.param == "filesystem":
        with interbed.load_catalog(warehouse=str(directory), undrop_seconds=3600) as opened:
            opened.create_database("d")
            yield opened
        return
    with (
        metastore_under_test(f"sqlite:///{directory / 'metastore.db'}", directory) as server,
        interbed.load_catalog("lake", metastore="hive", uri=server.uri) as opened,
    ):
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
        catalog.drop_table(name, purge=True)


def test_a_purged_table_and_an_unknown_one_are_not_put_back(catalog: interbed.Catalog) -> None:
    _filled(catalog, "d.purged", 1)
    catalog.drop_table("d.purged", purge=True)
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
    catalog.drop_table("d.s", purge=True)
